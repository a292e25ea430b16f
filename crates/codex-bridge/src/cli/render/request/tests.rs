use serde_json::json;

use super::{request, whole_request};
use crate::cli::render::paint::Paint;
use crate::cli::render::width::columns;
use crate::view::Request;

fn asked(shape: &serde_json::Value) -> Request {
    let mut whole = json!({
        "task_id": "codex-0123456789abcdef0123456789abcdef", "request_id": "req-1", "kind": "command", "title": "", "reason": null,
        "details": [], "hidden_secrets": 0, "decisions": [], "method": "m", "state": "open", "created_at": "2026-01-02T03:04:05Z",
    });
    whole.as_object_mut().unwrap().extend(shape.as_object().unwrap().clone());
    serde_json::from_value(whole).unwrap()
}

fn command() -> Request {
    let command = "/bin/bash -lc 'curl -H \"Authorization: [REDACTED]\" https://example.com/api/v1/releases && rm -rf build\nmake'";
    let sandbox = "read-only: the command runs in it. No command of a task ever runs without a sandbox.";
    asked(&json!({
        "title": "Let Codex run a command?", "hidden_secrets": 1,
        "details": [
            {"label": "Command", "text": command},
            {"label": "Directory", "text": "/home/ana/project"},
            {"label": "Reason", "text": "to fetch the list of releases"},
            {"label": "Sandbox", "text": sandbox},
        ],
    }))
}

fn shown(asked: &Request, width: usize) -> String {
    let lines = request(asked, Paint::Plain, width);
    assert!(lines.iter().all(|line| columns(line) <= width), "{lines:#?}");
    lines.join("\n")
}

#[test]
fn a_command_is_shown_whole_with_where_and_why() {
    insta::assert_snapshot!(shown(&command(), 80));
}

#[test]
fn in_a_narrow_window_nothing_is_lost() {
    let shown = shown(&command(), 40);
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<String>();
    assert!(words(&shown).contains(&words(&command().details[0].text)), "{shown}");
    insta::assert_snapshot!(shown);
}

#[test]
fn questions_have_numbers_and_their_choices_letters() {
    let asked = asked(&json!({
        "title": "Codex asks 2 questions", "kind": "question",
        "questions": [
            {
                "id": "db", "text": "Store: Which database shall it be?", "is_free": true, "is_secret": false,
                "options": [{"label": "SQLite", "description": "one file"}, {"label": "PostgreSQL", "description": ""}],
            },
            {"id": "pw", "text": "The password?", "options": [], "is_free": true, "is_secret": true},
        ],
    }));
    insta::assert_snapshot!(shown(&asked, 60));
}

#[test]
fn a_question_cannot_draw_on_the_terminal() {
    let mut asked = command();
    asked.details[0].text = "\u{1b}[2Jrm -rf /\rls\u{202e}".into();
    let shown = shown(&asked, 60);
    assert!(!shown.contains(['\u{1b}', '\r', '\u{202e}']), "{shown:?}");
}

fn patch(lines: usize, cut_bytes: usize) -> Request {
    let long: String =
        (1..=lines).flat_map(|number| ["+line ".to_owned(), number.to_string(), "\n".to_owned()]).collect();
    asked(&json!({
        "title": "Let Codex change files?", "kind": "file_change",
        "details": [{"label": "Changes", "text": "1 add, 1 update: /ws/new.txt, /ws/old.txt"}],
        "changes": [
            {"path": "/ws/old.txt", "kind": "update", "moved_to": "/ws/older.txt", "cut_bytes": 0,
             "diff": "--- /ws/old.txt\n+++ /ws/older.txt\n@@ -1,2 +1,2 @@\n--- a dash\n+one \u{1b}[2J\n two\n"},
            {"path": "/ws/new.txt", "kind": "add", "cut_bytes": cut_bytes,
             "diff": format!("--- /dev/null\n+++ /ws/new.txt\n@@ -0,0 +1,{lines} @@\n{long}")},
        ],
    }))
}

#[test]
fn a_patch_is_shown_as_its_diff() {
    insta::assert_snapshot!(shown(&patch(2, 0), 60), @r"
    ? Let Codex change files?
      Changes  1 add, 1 update: /ws/new.txt, /ws/old.txt
      update /ws/old.txt → /ws/older.txt
        @@ -1,2 +1,2 @@
        --- a dash
        +one
         two
      add /ws/new.txt
        @@ -0,0 +1,2 @@
        +line 1
        +line 2
    ");
    let coloured = request(&patch(2, 0), Paint::Coloured, 60).join("\n");
    assert!(
        coloured.contains("\u{1b}[32m+line 1\u{1b}[0m") && coloured.contains("\u{1b}[31m--- a dash\u{1b}[0m")
    );
}

#[test]
fn a_long_diff_is_folded_and_says_where_all_of_it_is() {
    let mut patch = patch(100, 7);
    let folded = shown(&patch, 100);
    assert!(folded.contains("+line 35") && !folded.contains("+line 36"), "{folded}");
    assert!(
        folded.contains("… 65 more lines; `codex-bridge requests codex-0123456789ab` shows all"),
        "{folded}"
    );
    assert!(folded.contains("cut: 7 more bytes of this diff were not stored"), "{folded}");
    let whole = whole_request(&patch, Paint::Plain, 100).join("\n");
    assert!(whole.contains("+line 100") && !whole.contains("more lines"), "{whole}");
    patch.whole_changes_bytes = Some(70_000);
    let folded = shown(&patch, 100);
    assert!(
        folded.contains("cut: 7 more bytes; `codex-bridge requests codex-0123456789ab` shows all"),
        "{folded}"
    );
}
