//! The demo: the first thing that anybody runs.

use std::time::{Duration, Instant};

use crate::shell::Shell;
use crate::tmux::Tmux;

#[tokio::test]
async fn the_demo_answers_by_itself_where_there_is_no_terminal_and_leaves_nothing_behind() {
    let shell = Shell::new().await;
    let codex = testkit::rig::codex_path();
    let began = Instant::now();
    let said = shell.run(&["demo", "--codex-bin", codex.to_str().unwrap()]).await.ok();
    assert!(began.elapsed() < Duration::from_secs(30), "it took {:?}", began.elapsed());
    for part in [
        "$ codex-bridge run --detach",
        "? Let Codex change files?",
        "(no terminal: the demo approves the request itself)",
        "$ codex-bridge approve codex-",
        "Done: the note says hello.",
        "1 file changed",
        "✓ completed",
        "it says: hello",
        "codex login",
    ] {
        assert!(said.out.contains(part), "{part:?} is missing in\n{}", said.out);
    }
    assert_eq!(said.err, "");
    assert_eq!(std::fs::read_dir(shell.home.temp()).unwrap().count(), 0, "the stage is gone");
    shell.home.assert_no_processes().await;
}

#[tokio::test]
async fn programs_get_the_task_of_the_demo_as_one_object() {
    let shell = Shell::new().await;
    let codex = testkit::rig::codex_path();
    let task = shell.run(&["--json", "demo", "--codex-bin", codex.to_str().unwrap()]).await.ok().json();
    assert_eq!(
        (&task["status"], &task["final_text"]),
        (&"completed".into(), &"Done: the note says hello.".into())
    );
    shell.home.assert_no_processes().await;
}

#[tokio::test]
async fn at_a_terminal_the_person_answers() {
    let shell = Shell::new().await;
    let terminal = Tmux::new(&shell, 80, 60);
    terminal.line(&format!(
        "codex-bridge demo --codex-bin {}; echo \"exit $?\"",
        testkit::rig::codex_path().display()
    ));
    let asked = terminal.see_prompt().await;
    assert!(asked.contains("? Let Codex change files?"), "{asked}");
    terminal.line("y");
    let done = terminal.see("exit 0").await;
    assert!(done.contains("→ approved") && done.contains("it says: hello"), "{done}");
    drop(terminal);
    shell.home.assert_no_processes().await;
}
