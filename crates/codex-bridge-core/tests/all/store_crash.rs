//! Killed in the midst of writing, again and again: what was acknowledged is there, and nothing is half there.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::process::Stdio;
use std::time::Duration;

use codex_bridge_core::store::conformance::samples::{add, append, line, new_task, task_id};
use codex_bridge_core::store::{Error, Store, Write};
use codex_bridge_core::task::Task;

use crate::store_rig::{Rig, assert_sound, first, seqs};

const TEST: &str = "store_crash::nothing_acknowledged_is_lost_when_the_process_is_killed";
const TASKS: u32 = 4;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    if let Some(rig) = Rig::of_first_half() {
        return write_until_killed(&rig).await;
    }
    let kills = if std::env::var_os("CODEX_BRIDGE_PROVE").is_some() { 200 } else { 20 };
    let rig = Rig::new();
    let mut acknowledged = BTreeMap::new();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for kill in 0..kills {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let acknowledgements = usize::try_from(random >> 33).unwrap() % 300;
        let found = write_and_kill(&rig, acknowledgements, Duration::from_micros(random >> 53));
        for (task, last) in found {
            let known = acknowledged.entry(task).or_insert(0);
            *known = last.max(*known);
        }
        look(&rig, &acknowledged, kill).await;
    }
    assert_eq!(acknowledged.len(), TASKS as usize, "{acknowledged:?}");
    assert!(acknowledged.values().all(|last| *last > 100), "too little was written: {acknowledged:?}");
}

/// Reads so many acknowledgements, waits a moment so that the kill falls anywhere, and kills.
fn write_and_kill(rig: &Rig, acknowledgements: usize, moment: Duration) -> Vec<(u32, i64)> {
    let mut writer = rig.other_half(TEST).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    let mut found: Vec<_> =
        lines.by_ref().filter_map(|line| parse(&line.unwrap())).take(acknowledgements).collect();
    std::thread::sleep(moment);
    writer.kill().unwrap();
    writer.wait().unwrap();
    // What it said before it died counts too; a line that was cut off does not.
    found.extend(lines.map_while(Result::ok).filter_map(|line| parse(&line)));
    found
}

fn parse(line: &str) -> Option<(u32, i64)> {
    let mut words = line.split(' ').skip_while(|word| *word != "acknowledged").skip(1);
    let found = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (words.next() == Some(".")).then_some(found)
}

async fn look(rig: &Rig, acknowledged: &BTreeMap<u32, i64>, kill: u32) {
    let store = rig.open();
    assert_sound(&store).await;
    for (task, last) in acknowledged {
        let found = seqs(&store, *task).await;
        assert_eq!(found, first(found.len()), "gaps after kill {kill}");
        assert!(found.last() >= Some(last), "kill {kill}: {last} was acknowledged, {} is there", found.len());
        let turns = store.task(&task_id(*task)).await.unwrap().unwrap().used.turns;
        assert_eq!(turns as usize, found.len(), "a batch was applied by half");
    }
}

/// Several writers: each batch adds lines and says in the task how many there are.
async fn write_until_killed(rig: &Rig) {
    let store = rig.open();
    for task in 0..TASKS {
        match store.commit(vec![add(new_task(task))]).await {
            Ok(_) | Err(Error::Other(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let writers = (0..TASKS).map(|task| write_one(&store, task));
    futures_util::future::join_all(writers).await;
}

async fn write_one(store: &impl Store, number: u32) {
    let mut task: Task = store.task(&task_id(number)).await.unwrap().unwrap();
    loop {
        let count = task.used.turns % 7 + 1;
        task.used.turns += count;
        let events = store
            .commit(vec![
                append(number, (0..count).map(|step| step * 7)),
                Write::SaveTask(Box::new(task.clone())),
            ])
            .await
            .unwrap();
        assert_eq!(events[0].line, line(0).line);
        let last = events.last().unwrap().seq;
        let mut out = std::io::stdout().lock();
        out.write_all(format!("acknowledged {number} {last} .\n").as_bytes()).unwrap();
        out.flush().unwrap();
    }
}
