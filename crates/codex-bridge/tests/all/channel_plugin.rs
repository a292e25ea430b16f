//! Channels that are programs of the operator's: the example of `examples/plugin`, and some that misbehave.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::channel_telegram::MARK;
use crate::dying::{Moments, rounds};
use crate::shell::{Shell, until};

/// Every point that a message passes on its way.
const POINTS: [&str; 8] = [
    "inbox.before_record",
    "inbox.recorded",
    "inbox.before_turn",
    "inbox.turn_recorded",
    "inbox.before_reply",
    "inbox.reply_recorded",
    "delivery.before_send",
    "delivery.sent",
];

/// A shell, and the two files of the example.
struct Lab {
    shell: Shell,
    inbox: PathBuf,
    outbox: PathBuf,
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/plugin/echo_channel.py")
        .canonicalize()
        .unwrap()
}

impl Lab {
    async fn new() -> Self {
        let shell = Shell::new().await;
        let (inbox, outbox) = (shell.home.dir().join("in.jsonl"), shell.home.dir().join("out.jsonl"));
        for file in [&inbox, &outbox] {
            fs::write(file, "").unwrap();
        }
        let config = format!("inbox = \"{}\"\noutbox = \"{}\"", inbox.display(), outbox.display());
        let argv = format!("[\"python3\", \"{}\"]", example().display());
        let lab = Self { shell, inbox, outbox };
        lab.configure(&argv, &format!("[channels.echo.plugin.config]\n{config}\n"));
        lab
    }

    fn configure(&self, argv: &str, more: &str) {
        self.shell.configure(&format!(
            "[workspaces]\nmain = \"{}\"\n[channels.echo]\nallow = [\"ada:approver\", \"bob\"]\n\
             [channels.echo.plugin]\nargv = {argv}\n{more}",
            self.shell.home.workspace().display(),
        ));
    }

    fn write(&self, line: &Value) {
        let mut inbox = OpenOptions::new().append(true).open(&self.inbox).unwrap();
        writeln!(inbox, "{line}").unwrap();
    }

    fn say(&self, room: &str, from: &str, text: &str) {
        self.write(&json!({"room": room, "from": from, "text": text}));
    }

    async fn start(&self) -> Value {
        self.shell.run(&["--json", "channel", "list"]).await.ok().json()
    }

    fn said(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.outbox).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    async fn until_said(&self, text: &str) -> Value {
        let is_it = |said: &Value| said["text"].as_str().is_some_and(|said| said.contains(text));
        until(&format!("{text:?} in {:#?}", self.said()), || self.said().into_iter().find(is_it)).await
    }

    async fn inbox(&self) -> Vec<Value> {
        self.shell.run(&["--json", "inbox", "--all"]).await.ok().json().as_array().unwrap().clone()
    }

    async fn end(self) {
        self.shell.end().await;
    }
}

#[tokio::test]
async fn what_a_plugin_brings_is_answered_through_it() {
    let lab = Lab::new().await;
    lab.say("lab", "ada", "hello [play] stall gate => say Hello, lab.");
    lab.say("lab", "ada", "again [play] say And again.");
    lab.say("attic", "bob", "hello [play] say Hello, attic.");
    lab.say("attic", "eve", "let me in [play] say No.");
    lab.start().await;
    let said = lab.until_said("Hello, attic.").await;
    assert_eq!(
        (&said["target"], &said["kind"], &said["attempt"]),
        (&json!("attic"), &json!("reply"), &json!(1))
    );
    assert_eq!(said["maybe_duplicate"], false);
    lab.shell.model.release("gate");
    lab.until_said("And again.").await;
    let texts: Vec<String> =
        lab.said().iter().map(|said| said["text"].as_str().unwrap().to_owned()).collect();
    assert_eq!(
        texts,
        ["Hello, attic.", "Hello, lab.", "And again."],
        "side by side, and in order within a room"
    );
    assert_eq!(lab.inbox().await.len(), 3, "a stranger's message is not taken");
    assert_eq!(lab.start().await[0]["knocks"][0]["sender_id"], "eve");
    let tested =
        lab.shell.run(&["--json", "run", "-d", "--notify", "plugin:echo:cellar", "x [play] say Told."]).await;
    tested.ok();
    assert_eq!(lab.until_said("Told.").await["target"], "cellar");
    lab.end().await;
}

#[tokio::test]
async fn an_approval_is_decided_through_a_plugin() {
    let lab = Lab::new().await;
    lab.say("lab", "ada", "do it [play] escalate touch made.txt => say Made.");
    lab.start().await;
    let asked = lab.until_said("Codex asks:").await;
    assert_eq!(asked["kind"], "approval");
    let action = |label: &str| {
        let all = asked["actions"].as_array().unwrap();
        all.iter().find(|action| action["label"] == label).unwrap()["id"].as_str().unwrap().to_owned()
    };
    let made = || lab.shell.home.workspace().join("made.txt").exists();
    lab.write(&json!({"action": action("Approve"), "from": "bob"}));
    lab.write(&json!({"action": action("Approve"), "from": "ada"}));
    lab.until_said("Made.").await;
    assert!(made());
    let edited = until("the edit", || lab.said().into_iter().find(|said| said["method"] == "edit")).await;
    assert_eq!((&edited["message_id"], &edited["actions"]), (&asked["outbox_id"], &json!([])));
    let request = lab.shell.run(&["--json", "audit"]).await.ok().out;
    assert!(request.contains("echo:ada") && !request.contains("echo:bob accept"), "{request}");
    lab.end().await;
}

async fn check(lab: Lab, what: &str) {
    lab.start().await;
    for text in ["Answer one.", "Answer two.", "Answer three."] {
        lab.until_said(text).await;
    }
    lab.shell.deliveries(|all| all.len() == 3 && all.iter().all(|one| one["state"] == "delivered")).await;
    for text in ["Answer one.", "Answer two.", "Answer three."] {
        let said = lab.said();
        let same: Vec<&str> = said
            .iter()
            .map(|said| said["text"].as_str().unwrap())
            .filter(|said| said.contains(text))
            .collect();
        assert!(same.iter().filter(|said| !said.contains(MARK)).count() <= 1, "{what}: {same:#?}");
    }
    let prompts = lab.shell.model.requests().len();
    assert_eq!((prompts, lab.inbox().await.len()), (3, 3), "{what}");
    lab.end().await;
}

fn write(lab: &Lab) {
    lab.say("lab", "ada", "one [play] say Answer one.");
    lab.say("lab", "ada", "two [play] say Answer two.");
    lab.say("attic", "bob", "three [play] say Answer three.");
}

#[tokio::test]
async fn a_plugin_loses_nothing_whatever_the_daemon_was_doing_when_it_died() {
    for point in POINTS {
        let lab = Lab::new().await;
        write(&lab);
        lab.shell.run_dying_at(&["channel", "list"], point).await;
        lab.shell.until_dead_at(point).await;
        check(lab, point).await;
    }
}

#[tokio::test]
async fn a_plugin_loses_nothing_when_the_daemon_is_killed_at_any_moment() {
    let mut moments = Moments::seeded(0x5eed_0042);
    for round in 0..rounds(10) {
        let after = moments.within_ms(1200);
        let lab = Lab::new().await;
        lab.start().await;
        write(&lab);
        tokio::time::sleep(after).await;
        lab.shell.kill_daemon_for_good().await;
        check(lab, &format!("round {round}, killed after {after:?}")).await;
    }
}

/// A plugin of these few lines, with the shell's own state to tell its lives apart.
async fn misbehaving(script: &str) -> (Lab, Value) {
    let shell = Shell::new().await;
    let lab = Lab { inbox: shell.home.dir().join("in"), outbox: shell.home.dir().join("out"), shell };
    let file = lab.shell.home.dir().join("plugin.py");
    fs::write(&file, script).unwrap();
    lab.configure(
        &format!("[\"python3\", \"{}\", \"{}\"]", file.display(), lab.shell.home.dir().display()),
        "",
    );
    let list = lab.start().await;
    (lab, list)
}

const READY: &str = "import json, os, sys, time\nfirst = json.loads(sys.stdin.readline())\n\
    print(json.dumps({'id': first['id'], 'result': {'name': 'x', 'capabilities': {}}}), flush=True)\n";

async fn log(lab: &Lab, word: &str) -> String {
    let file = lab.shell.home.dir().join("st/daemon.log");
    until(&format!("{word:?} in the log"), || fs::read_to_string(&file).ok().filter(|log| log.contains(word)))
        .await
}

#[tokio::test]
async fn a_plugin_that_ends_is_begun_again() {
    let count = "open(sys.argv[1] + '/lives', 'a').write('x')\nprint('token sk-proj-abcdefghijklmnopqrstuvwx1234', file=sys.stderr)\nsys.exit(3)\n";
    let (lab, _) = misbehaving(&format!("{READY}{count}")).await;
    let lives = lab.shell.home.dir().join("lives");
    until("three lives", || fs::read_to_string(&lives).ok().filter(|lives| lives.len() >= 3)).await;
    let log = log(&lab, "exit status: 3").await;
    assert!(log.contains("plugin: token ") && !log.contains("abcdefghijklmnop"), "{log}");
    lab.end().await;
}

#[tokio::test]
async fn a_plugin_whose_line_has_no_end_is_ended_with_all_that_it_started() {
    let flood =
        "os.spawnlp(os.P_NOWAIT, 'sleep', 'sleep', '300')\nwhile True: sys.stdout.write('x' * 65536)\n";
    let (lab, _) = misbehaving(&format!("{READY}{flood}")).await;
    log(&lab, "longer than").await;
    // What it started is gone too: asserted at the end of the shell.
    lab.end().await;
}

#[tokio::test]
async fn a_program_that_is_not_there_stops_its_channel_and_says_so() {
    let shell = Shell::new().await;
    let lab = Lab { inbox: PathBuf::new(), outbox: PathBuf::new(), shell };
    lab.configure("[\"/nonexistent/plugin\"]", "");
    lab.start().await;
    let log = log(&lab, "stopped").await;
    assert!(log.contains("/nonexistent/plugin cannot be run"), "{log}");
    lab.end().await;
}
