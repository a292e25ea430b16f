//! A reader that joins in the middle of a message gets the text so far, then each later piece once.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};

use scripted_model::{Phase, Scenario};
use serde_json::Value;

use crate::shell::{PATIENCE, Shell};
use crate::tmux::Tmux;

/// A message that is written in three parts, with a rest after the first two.
fn slowly(shell: &Shell) -> &'static str {
    let story = Scenario::new().say_as(Phase::Commentary, "Let me think.");
    let story = story.delta("The quick brown ").delta("fox jumps ").stall("one");
    let story = story.delta("over the lazy ").delta("dog and ").stall("two").delta("runs away.");
    shell.model.script("slowly", story);
    "slowly"
}

/// Hands it over, and waits until it rests in the middle of the message and the one before is in the log.
async fn begun(shell: &Shell) -> String {
    let id = shell.start(slowly(shell)).await;
    shell.model.wait_for_stall("one").await;
    let noted = Follower::new(shell, &["events", &id, "-f"]);
    noted.until("first message", |event| event["kind"] == "message");
    id
}

const MESSAGE: &str = "The quick brown fox jumps over the lazy dog and runs away.";

/// A follower of a log, whose lines are read one by one.
struct Follower {
    child: Child,
    lines: Receiver<Value>,
}

impl Follower {
    fn new(shell: &Shell, args: &[&str]) -> Self {
        let mut child = shell.command(args).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (told, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines() {
                let _ = told.send(serde_json::from_str(&line.unwrap()).unwrap());
            }
        });
        Self { child, lines }
    }

    /// Waits for its end; gives what it said until then.
    fn rest(mut self) -> Vec<Value> {
        let rest = self.lines.iter().collect();
        assert!(self.child.wait().unwrap().success());
        rest
    }

    /// Reads on to the first line of which this is so.
    fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut read = Vec::new();
        loop {
            let line =
                self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no {what} after {read:#?}"));
            read.push(line);
            if read.last().is_some_and(&is_so) {
                return read;
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_text(event: &Value) -> bool {
    event["live"] == "text"
}

fn said(events: &[Value]) -> String {
    events.iter().filter(|event| is_text(event)).map(|event| event["text"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_gets_the_text_so_far_and_then_each_piece_once() {
    let shell = Shell::new().await;
    let id = begun(&shell).await;
    let early = Follower::new(&shell, &["events", &id, "-f", "--live"]);
    let begun = early.until("text so far", is_text);
    shell.model.release("one");
    shell.model.wait_for_stall("two").await;
    let middle =
        early.until("live text", |event| is_text(event) && event["text"].as_str().unwrap().contains("lazy"));
    let late = Follower::new(&shell, &["events", &id, "-f", "--live"]);
    let joined = late.until("text so far", is_text);
    let first = joined.last().unwrap();
    assert_eq!(first["so_far"], true, "{first}");
    assert!(MESSAGE.starts_with(first["text"].as_str().unwrap()), "{first}");
    assert!(
        first["text"].as_str().unwrap().starts_with("The quick brown fox jumps over the lazy"),
        "{first}"
    );
    shell.model.release("two");

    let is_end = |event: &Value| event["kind"] == "message" && event["text"] == MESSAGE;
    let mut whole = [begun, middle, early.until("message", is_end)].concat();
    assert_eq!(said(&whole), MESSAGE, "{whole:#?}");
    assert_eq!(said(&[joined, late.until("message", is_end)].concat()), MESSAGE);
    whole.extend(early.rest());
    late.rest();
    let numbers: Vec<i64> = whole.iter().filter_map(|event| event["seq"].as_i64()).collect();
    assert!(
        numbers.starts_with(&(1..=5).collect::<Vec<_>>()),
        "the log comes first, without gaps: {numbers:?}"
    );
    shell.end().await;
}

#[tokio::test]
async fn whoever_attaches_in_the_middle_of_a_message_sees_all_of_it_once() {
    let shell = Shell::new().await;
    let id = begun(&shell).await;
    let terminal = Tmux::new(&shell, 80, 40);
    terminal.line(&format!("codex-bridge attach {id}; echo \"exit $?\""));
    let joined = terminal.see("The quick brown fox").await;
    assert!(joined.contains("Let me think.") && !joined.contains("lazy"), "{joined}");
    shell.model.release("one");
    let later = terminal.see("over the lazy").await;
    assert!(!later.contains("runs away"), "{later}");

    // Another one comes even later, and one who reads the log of whole messages only.
    shell.model.wait_for_stall("two").await;
    let other = Tmux::new(&shell, 60, 40);
    other.line(&format!("codex-bridge attach {id}; echo \"exit $?\""));
    other.see("The quick brown fox jumps over the").await;
    let logs = Tmux::new(&shell, 80, 40);
    logs.line(&format!("codex-bridge logs -f {id}; echo \"exit $?\""));
    logs.see("Let me think.").await;
    shell.model.release("two");
    for terminal in [&terminal, &other, &logs] {
        let done = terminal.see("exit 0").await;
        let words = done.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words.matches(MESSAGE).count(), 1, "{done}");
        assert_eq!(words.matches("quick brown").count(), 1, "{done}");
        assert_eq!(words.matches("runs away").count(), 1, "{done}");
    }
    drop((terminal, other, logs));
    shell.end().await;
}

#[tokio::test]
async fn half_a_message_is_not_shown_after_the_daemon_came_back() {
    let shell = Shell::new().await;
    let id = begun(&shell).await;
    let terminal = Tmux::new(&shell, 80, 40);
    terminal.line(&format!("codex-bridge attach {id}; echo \"exit $?\""));
    terminal.see("The quick brown fox").await;
    shell.run(&["stop"]).await.ok();
    terminal.see("exit 1").await;
    terminal.line("clear");
    terminal.line(&format!("codex-bridge attach {id}; echo \"exit $?\""));
    terminal.see("working 0:").await;
    shell.model.release("one");
    shell.model.wait_for_stall("two").await;
    shell.model.release("two");
    let done = terminal.see("exit 0").await;
    assert_eq!(done.matches(MESSAGE).count(), 1, "{done}");
    assert_eq!(done.matches("over the lazy").count(), 1, "{done}");
    drop(terminal);
    shell.end().await;
}
