//! The command line in a real terminal: somebody types, and reads the screen.

use codex_bridge_core::id::short;
use scripted_model::Scenario;
use serde_json::json;

use crate::shell::Shell;
use crate::tmux::Tmux;

#[tokio::test]
async fn an_approval_is_asked_in_place_and_answered() {
    let shell = Shell::new().await;
    let terminal = Tmux::new(&shell, 80, 40);
    terminal.line("codex-bridge run -s workspace-write 'go [play] note I will make it. => exec touch made.txt => say Made.'; echo \"exit $?\"");
    let asked = terminal.see_prompt().await;
    for part in [
        "I will make it.",
        "? Let Codex run a command?",
        "Command",
        "touch made.txt",
        "Directory",
        "[y] yes, once",
    ] {
        assert!(asked.contains(part), "{part:?} is missing on\n{asked}");
    }
    assert!(!shell.home.workspace().join("made.txt").exists());
    terminal.line("maybe");
    terminal.see("type y, s, n, c, d").await;
    terminal.see_prompt().await;
    terminal.line("y");
    let done = terminal.see("exit 0").await;
    for part in ["→ approved", "Made.", "✓ completed"] {
        assert!(done.contains(part), "{part:?} is missing on\n{done}");
    }
    assert_eq!(done.matches("I will make it.").count(), 2, "once typed, once said\n{done}");
    assert!(!done.contains("working 0:"), "the status line is gone\n{done}");
    assert!(shell.home.workspace().join("made.txt").exists());
    drop(terminal);
    shell.end().await;
}

#[tokio::test]
async fn a_declined_command_in_a_narrow_window_does_not_run() {
    let shell = Shell::new().await;
    let terminal = Tmux::new(&shell, 40, 50);
    terminal.line("codex-bridge run 'go [play] note This is a longer remark that needs more than one line here. => exec touch made.txt => say Then not.'");
    let asked = terminal.see_prompt().await;
    assert!(asked.contains("This is a longer remark that needs more\nthan one line here."), "{asked}");
    let question = &asked[asked.rfind("? Let Codex").unwrap()..];
    for part in
        ["[y] yes, once", "[s] yes, for this task", "[n] no", "[c] no, and end the turn", "[d] detach"]
    {
        assert!(question.contains(part), "{part:?} is missing on\n{asked}");
    }
    terminal.line("n");
    let done = terminal.see("✓ completed").await;
    assert!(done.contains("→ declined") && done.contains("Then not."), "{done}");
    assert!(!shell.home.workspace().join("made.txt").exists());
    drop(terminal);
    shell.end().await;
}

#[tokio::test]
async fn text_is_shown_as_it_is_written_and_ctrl_c_can_stop_the_task() {
    let shell = Shell::new().await;
    let terminal = Tmux::new(&shell, 80, 24);
    terminal.line("codex-bridge run 'go [play] delta Once upon a => and stall here => and delta time.'; echo \"exit $?\"");
    terminal.see("\nOnce upon").await;
    terminal.key("C-c");
    let asked = terminal.see_prompt().await;
    assert!(asked.contains("[i] interrupt the task") && asked.contains("[d] detach"), "{asked}");
    terminal.line("i");
    let done = terminal.see("exit 130").await;
    assert!(done.contains("cancelled"), "{done}");
    let listed = shell.run(&["--json", "ps"]).await.ok().json();
    assert_eq!(listed[0]["status"], "cancelled");
    drop(terminal);
    shell.end().await;
}

#[tokio::test]
async fn a_person_can_leave_with_ctrl_c_and_come_back() {
    let shell = Shell::new().await;
    let terminal = Tmux::new(&shell, 80, 40);
    terminal.line("codex-bridge run -a on-request 'go [play] note I begin. => exec ls => stall here => say All done.'; echo \"exit $?\"");
    terminal.see("$ ls").await;
    terminal.see("working 0:").await;
    terminal.key("C-c");
    terminal.see_prompt().await;
    terminal.line("");
    terminal.see("working 0:").await;
    terminal.key("C-c");
    terminal.see("stay here\n>").await;
    terminal.see_prompt().await;
    terminal.line("d");
    let left = terminal.see("exit 130").await;
    assert!(left.contains("detached: task codex-"), "{left}");
    let id = shell.run(&["--json", "ps"]).await.ok().json()[0]["task_id"].as_str().unwrap().to_owned();
    assert!(left.contains(&format!("codex-bridge attach {}\n", short(&id))), "{left}");

    terminal.line("clear");
    terminal.line(&format!("codex-bridge attach {}; echo \"exit $?\"", &id[..11]));
    let back = terminal.see("working 0:").await;
    assert!(back.contains("I begin.") && back.contains("$ ls"), "what was before is told\n{back}");
    shell.model.release("here");
    let done = terminal.see("exit 0").await;
    assert!(done.contains("All done.") && done.contains("✓ completed"), "{done}");
    drop(terminal);
    shell.end().await;
}

#[tokio::test]
async fn two_people_see_the_same_question_and_one_answers_it() {
    let shell = Shell::new().await;
    let (id, _) = shell.start_asking("go [play] exec touch made.txt => say Made.").await;
    let (one, other) = (Tmux::new(&shell, 80, 40), Tmux::new(&shell, 60, 40));
    for terminal in [&one, &other] {
        terminal.line(&format!("codex-bridge attach {id}; echo \"exit $?\""));
        terminal.see_prompt().await;
    }
    one.line("y");
    for terminal in [&one, &other] {
        terminal.see("exit 0").await;
    }
    assert!(other.screen().contains("answered elsewhere"), "{}", other.screen());
    drop((one, other));
    shell.end().await;
}

#[tokio::test]
async fn what_was_typed_before_a_question_does_not_answer_it() {
    let shell = Shell::new().await;
    let terminal = Tmux::new(&shell, 80, 40);
    terminal
        .line("codex-bridge run 'go [play] note Wait. => stall here => exec touch made.txt => say Made.'");
    terminal.see("\nWait.").await;
    shell.model.wait_for_stall("here").await;
    terminal.line("y");
    terminal.line("y");
    shell.model.release("here");
    let asked = terminal.see_prompt().await;
    assert!(asked.contains("[y] yes, once"), "{asked}");
    assert!(!shell.home.workspace().join("made.txt").exists());
    terminal.line("n");
    terminal.see("✓ completed").await;
    assert!(!shell.home.workspace().join("made.txt").exists());
    drop(terminal);
    shell.end().await;
}

#[tokio::test]
async fn a_question_of_the_model_is_answered_by_a_letter() {
    let shell = Shell::new().await;
    let terminal = Tmux::new(&shell, 80, 40);
    terminal.line("codex-bridge run 'go [play] ask Shall it be? => say So be it.'; echo \"exit $?\"");
    let asked = terminal.see_prompt().await;
    assert!(asked.contains("a) Yes") && asked.contains("b) No"), "{asked}");
    terminal.line("b");
    terminal.see("exit 0").await;
    let answered = shell.model.requests();
    let outputs: Vec<String> = answered.iter().filter_map(|request| request.last_tool_output()).collect();
    assert!(outputs.iter().any(|output| output.contains("\"No\"")), "{outputs:?}");
    drop(terminal);
    shell.end().await;
}

#[tokio::test]
async fn a_form_of_an_mcp_server_is_filled_in_field_by_field() {
    let shell = Shell::new().await;
    let schema = json!({"type": "object", "required": ["colour"], "properties": {
        "colour": {"type": "string", "enum": ["red", "green"], "enumNames": ["Red", "Green"]},
        "count": {"type": "integer", "minimum": 1, "maximum": 5, "default": 2},
    }});
    shell.script_form("paint it", &schema);
    let terminal = Tmux::new(&shell, 80, 50);
    terminal.line("codex-bridge run 'paint it'; echo \"exit $?\"");
    let asked = terminal.see_prompt().await;
    for part in [
        "? MCP server desk asks for input",
        "Which colour?",
        "1. colour (string, required, one of: red (Red) | green (Green))",
        "b) green (Green)",
        "a letter or a value; !decline declines, Ctrl-C leaves",
    ] {
        assert!(asked.contains(part), "{part:?} is missing on\n{asked}");
    }
    terminal.line("blue");
    terminal.see("colour must be one of: red | green").await;
    terminal.see_prompt().await;
    terminal.line("b");
    terminal.see("2. count (integer, at least 1, at most 5, default 2)").await;
    terminal.see_prompt().await;
    terminal.line("9");
    terminal.see("count must be at most 5").await;
    terminal.see_prompt().await;
    terminal.line("");
    let done = terminal.see("exit 0").await;
    assert!(done.contains("→ answered") && done.contains("Painted."), "{done}");
    assert!(shell.is_told("{\"colour\":\"green\",\"count\":2}"), "the default was taken");
    drop(terminal);
    shell.end().await;
}

#[tokio::test]
async fn colours_are_for_terminals_and_for_those_who_want_them() {
    let shell = Shell::new().await;
    let id = shell.start("hello").await;
    shell.run(&["wait", &id]).await.ok();
    let terminal = Tmux::new(&shell, 80, 24);
    let bytes = async |command: &str, file: &str| {
        terminal.line(&format!("script -qec '{command}' /dev/null > {file}; echo done-{file}"));
        terminal.see(&format!("\ndone-{file}")).await;
        std::fs::read_to_string(shell.home.workspace().join(file)).unwrap()
    };
    assert!(bytes("env -u NO_COLOR codex-bridge ps", "coloured").await.contains("\u{1b}[32mcompleted"));
    assert!(!bytes("codex-bridge ps", "plain").await.contains('\u{1b}'));
    drop(terminal);
    shell.end().await;
}

#[tokio::test]
async fn approve_without_a_request_shows_it_and_asks() {
    let shell = Shell::new().await;
    let (id, _) = shell.start_asking("go [play] exec touch made.txt => say Made.").await;
    let terminal = Tmux::new(&shell, 100, 40);
    terminal.line(&format!("codex-bridge approve {id}; echo \"exit $?\""));
    let asked = terminal.see("[y/N]").await;
    assert!(asked.contains("touch made.txt"), "{asked}");
    terminal.line("");
    terminal.see("exit 1").await;
    assert_eq!(shell.run(&["--json", "requests"]).await.ok().json().as_array().unwrap().len(), 1);
    terminal.line(&format!("clear; codex-bridge approve {id}; echo \"exit $?\""));
    terminal.see("[y/N]").await;
    terminal.line("y");
    terminal.see("exit 0").await;
    shell.run(&["wait", &id]).await.ok();
    drop(terminal);
    shell.end().await;
}

#[tokio::test]
async fn what_is_shown_only_at_the_machine_is_approved_there() {
    let shell = Shell::new().await;
    let key = "MIIEpAIBAAKCAQEA1234567890abcdefghij";
    let command = format!("echo '-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----' > id");
    shell.model.script("keep the key", Scenario::new().exec(command).then_say("Kept."));
    let (id, request) = shell.start_asking("keep the key").await;
    let request_id = request["request_id"].as_str().unwrap();
    let terminal = Tmux::new(&shell, 100, 40);
    terminal.line(&format!("codex-bridge approve {id} {request_id}; echo \"exit $?\""));
    let asked = terminal.see("[y/N]").await;
    assert!(asked.contains(key), "{asked}");
    terminal.line("y");
    terminal.see("exit 0").await;
    shell.run(&["wait", &id]).await.ok();
    assert!(shell.home.workspace().join("id").exists());
    drop(terminal);
    shell.end().await;
}
