use super::*;

/// `sh -c script` as a child.
fn shell(script: &str) -> (Transport, Arc<StdioChild>) {
    let env = BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())]);
    let spawn_shell = Spawn { args: vec!["-c".into(), script.into()], ..Spawn::new("/bin/sh", env) };
    spawn(&spawn_shell).unwrap()
}

// peer: L1
#[tokio::test]
async fn a_child_that_survives_even_a_kill_is_reported_as_orphaned_with_its_pid() {
    let (transport, child) = shell("sleep 600");
    drop(transport);
    // Signals that reach nobody stand in for a process that the kernel does not let die.
    let said = child.end_by(|_, _| Ok(true), Duration::from_millis(50)).await.unwrap_err();
    assert!(said.contains("orphaned") && said.contains(&child.pid().to_string()), "{said}");
    assert!(child.is_alive());
    child.kill().await.unwrap();
    assert!(!child.is_alive());
}

#[tokio::test]
async fn a_child_that_cannot_be_started_is_named() {
    let Err(error) = spawn(&Spawn::new("/no/such/codex", BTreeMap::new())) else { panic!("it started") };
    assert!(error.to_string().starts_with("cannot start /no/such/codex: "), "{error}");
}

#[tokio::test]
async fn the_last_lines_of_stderr_are_kept_redacted_and_bounded() {
    let (_transport, child) = shell(
        "i=0; while [ $i -lt 600 ]; do echo line $i >&2; i=$((i+1)); done; echo OPENAI_API_KEY=sk-proj-abcdefghijklmnopqrstuvwxyz >&2",
    );
    child.wait(GRACE).await.unwrap();
    // The pipe's end is read by another task than the exit.
    let mut tail = child.stderr_tail(1000);
    while !tail.last().is_some_and(|line| line.starts_with("OPENAI_API_KEY")) {
        tokio::task::yield_now().await;
        tail = child.stderr_tail(1000);
    }
    assert_eq!(tail.len(), STDERR_LINES);
    assert!(!tail.concat().contains("abcdefghijklmnop"), "{:?}", tail.last());
    assert_eq!(child.stderr_tail(2)[0], "line 599");
    assert_eq!(child.exit().as_deref(), Some("exit status: 0"));
}

#[tokio::test]
async fn what_a_child_started_in_a_group_of_its_own_ends_with_it() {
    // `set -m` gives the background job a process group of its own, as codex does with its MCP servers.
    let (transport, child) =
        shell("set -m; (trap '' HUP TERM INT; sleep 600; sleep 600) & echo started >&2; cat");
    let grandchildren = loop {
        let below = process::descendants(child.pid());
        if below.len() >= 3 {
            break below;
        }
        tokio::task::yield_now().await;
    };
    drop(transport);
    // The shell leaves at the end of its input before anyone asks; its job stays.
    child.wait(GRACE).await.unwrap();
    child.end().await.unwrap();
    assert!(grandchildren.iter().all(|process| !process.is_alive()));
}
