//! Channels that are programs of the operator's: the example of `examples/plugin`, and some that misbehave.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use crate::channel_telegram::MARK;
use crate::dying::{Moments, OF_DECISIONS, Source, on_the_way_from, rounds};
use crate::shell::{PATIENCE, Shell, until};

/// A shell, and the two files of the example.
pub struct Lab {
    pub shell: Shell,
    inbox: PathBuf,
    outbox: PathBuf,
}

pub fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/plugin/echo_channel.py")
        .canonicalize()
        .unwrap()
}

impl Lab {
    pub async fn new() -> Self {
        let shell = Shell::new().await;
        let (inbox, outbox) = (shell.home.dir().join("in.jsonl"), shell.home.dir().join("out.jsonl"));
        for file in [&inbox, &outbox] {
            fs::write(file, "").unwrap();
        }
        let config = format!("inbox = \"{}\"\noutbox = \"{}\"", inbox.display(), outbox.display());
        let argv = format!("[\"python3\", \"{}\"]", example().display());
        let lab = Self { shell, inbox, outbox };
        lab.configure(&argv, &format!("[channels.echo.config]\n{config}\n"));
        lab
    }

    fn configure(&self, argv: &str, more: &str) {
        self.shell.configure(&format!(
            "escalations = \"ask\"\n[workspaces]\nmain = \"{}\"\n[channels.echo]\nreceipts = false\nallow = [\"ada:approver\", \"bob\"]\n\
             type = \"plugin\"\nargv = {argv}\nplaces = [\"cellar\"]\n{more}",
            self.shell.home.workspace().display(),
        ));
    }

    fn write(&self, line: &Value) {
        let mut inbox = OpenOptions::new().append(true).open(&self.inbox).unwrap();
        writeln!(inbox, "{line}").unwrap();
    }

    pub fn say(&self, room: &str, from: &str, text: &str) {
        self.write(&json!({"room": room, "from": from, "text": text}));
    }

    pub async fn start(&self) -> Value {
        self.shell.run(&["--json", "channel", "list"]).await.ok().json()
    }

    fn said(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.outbox).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub async fn until_said(&self, text: &str) -> Value {
        let is_it = |said: &Value| said["text"].as_str().is_some_and(|said| said.contains(text));
        until(&format!("{text:?} in {:#?}", self.said()), || self.said().into_iter().find(is_it)).await
    }

    pub async fn inbox(&self) -> Vec<Value> {
        self.shell.run(&["--json", "inbox", "--all"]).await.ok().json().as_array().unwrap().clone()
    }

    pub async fn end(self) {
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
    // Somebody allowed wrote there, but the operator did not say that callers may.
    let refused = lab.shell.run(&["run", "-d", "--notify", "echo:lab", "x [play] say No."]).await;
    let is_said = |word: &str| refused.err.contains(word);
    assert!(
        refused.code != 0 && is_said("`places` of channel echo") && is_said("echo:cellar"),
        "{}",
        refused.err
    );
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

#[tokio::test]
async fn who_a_plugin_says_is_an_agent_is_treated_as_one_whatever_its_name_allows() {
    let lab = Lab::new().await;
    let agent = |text: &str| json!({"room": "lab", "from": "ada", "agent": true, "text": text});
    lab.write(&agent("/status [play] say Considered."));
    lab.write(&agent("and again [codex-bridge hop 2] [play] say Never."));
    lab.start().await;
    let said = lab.until_said("Considered.").await;
    assert!(said["text"].as_str().unwrap().ends_with("[codex-bridge hop 1]"), "{said}");
    let request = lab.shell.model.requests().remove(0).body.to_string();
    assert!(request.contains("/status") && request.contains("never as an authority"), "{request}");
    let is_dead =
        |one: &Value| one["state"] == "dead" && one["error"].as_str().unwrap().contains("forwarded by 2");
    assert!(lab.inbox().await.iter().any(is_dead), "{:#?}", lab.inbox().await);
    lab.end().await;
}

#[tokio::test]
async fn in_a_room_that_others_read_a_request_waits_for_its_approver_whoever_writes_there() {
    let lab = Lab::new().await;
    // A name that no target could be called in words.
    let room = "großer Raum";
    lab.say(room, "bob", "do it [play] escalate touch made.txt => say Made.");
    lab.start().await;
    let asked = lab.until_said("Codex asks:").await;
    assert_eq!(asked["target"], room, "nobody else sees the command");
    lab.say(room, "bob", "/status");
    let is_status = |said: &Value| said["kind"] == "reply";
    until("the answer to bob", || lab.said().into_iter().find(is_status)).await;
    let approve = asked["actions"][0]["id"].clone();
    lab.write(&json!({"action": approve, "from": "ada"}));
    until("the end", || lab.said().into_iter().find(|said| said["text"] == "Made.")).await;
    assert!(lab.shell.home.workspace().join("made.txt").exists());
    assert!(
        lab.said().iter().all(|said| said["method"] == "edit" || said["target"] == room),
        "{:#?}",
        lab.said()
    );
    lab.end().await;
}

#[tokio::test]
async fn buttons_are_known_to_the_next_daemon_and_go_when_somebody_decides_elsewhere() {
    let lab = Lab::new().await;
    lab.say("lab", "ada", "do it [play] escalate touch made.txt => say I did not.");
    lab.start().await;
    let asked = lab.until_said("Codex asks:").await;
    let noted = || {
        let store = lab.shell.home.dir().join("st/tasks.db");
        let query = "select cursor from channels";
        let read =
            Command::new("sqlite3").args(["-readonly", store.to_str().unwrap(), query]).output().unwrap();
        String::from_utf8_lossy(&read.stdout).contains(asked["outbox_id"].as_str().unwrap()).then_some(())
    };
    until("the note", noted).await;
    lab.shell.kill_daemon_for_good().await;
    let task = lab.inbox().await[0]["task_id"].as_str().unwrap().to_owned();
    lab.shell.run(&["decline", &task]).await.ok();
    let is_it = |said: &Value| said["method"] == "edit" && said["message_id"] == asked["outbox_id"];
    let edited = until("the edit of what the last daemon said", || lab.said().into_iter().find(is_it)).await;
    assert_eq!(edited["actions"], json!([]));
    assert!(edited["text"].as_str().unwrap().contains("decline"), "{edited}");
    lab.until_said("I did not.").await;
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
    for point in on_the_way_from(Source::Plugin) {
        let lab = Lab::new().await;
        write(&lab);
        lab.shell.run_dying_at(&["channel", "list"], point).await;
        lab.shell.until_dead_at(point).await;
        check(lab, point).await;
    }
}

#[tokio::test]
async fn an_action_survives_the_death_of_the_daemon_that_was_deciding_on_it() {
    for point in OF_DECISIONS {
        let lab = Lab::new().await;
        lab.say("lab", "ada", "do it [play] escalate echo ran >> count.txt => say Made.");
        lab.shell.run_dying_at(&["channel", "list"], point).await;
        let asked = lab.until_said("Codex asks:").await;
        lab.write(&json!({"action": asked["actions"][0]["id"], "from": "ada"}));
        lab.shell.until_dead_at(point).await;
        lab.start().await;
        lab.until_said("Made.").await;
        let count = fs::read_to_string(lab.shell.home.workspace().join("count.txt")).unwrap();
        assert_eq!(count, "ran\n", "{point}");
        // Asked again or not: no button is left in the end.
        let is_over = || {
            let mut left: BTreeMap<String, Value> = BTreeMap::new();
            for said in lab.said() {
                let id = said.get("message_id").unwrap_or(&said["outbox_id"]);
                left.insert(id.to_string(), said["actions"].clone());
            }
            left.values().all(|actions| actions.as_array().is_none_or(Vec::is_empty)).then_some(())
        };
        until(&format!("{point}: all buttons to go: {:#?}", lab.said()), is_over).await;
        lab.end().await;
    }
}

#[tokio::test]
async fn a_plugin_loses_nothing_when_the_daemon_is_killed_at_any_moment() {
    let mut moments = Moments::seeded(0x5eed_0042);
    for round in 0..rounds() {
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
    misbehaving_with(script, "").await
}

/// A plugin of this script, with these lines more.
pub async fn misbehaving_with(script: &str, more: &str) -> (Lab, Value) {
    let shell = Shell::new().await;
    let lab = Lab { inbox: shell.home.dir().join("in"), outbox: shell.home.dir().join("out"), shell };
    let file = lab.shell.home.dir().join("plugin.py");
    fs::write(&file, script).unwrap();
    lab.configure(
        &format!("[\"python3\", \"{}\", \"{}\"]", file.display(), lab.shell.home.dir().display()),
        more,
    );
    let list = lab.start().await;
    (lab, list)
}

/// What a plugin is given, and how much it may complain.
#[tokio::test]
async fn a_plugin_gets_no_secret_of_the_daemons_and_may_complain_at_length() {
    let shell = Shell::new().await;
    let lab = Lab { inbox: PathBuf::new(), outbox: PathBuf::new(), shell };
    let dir = lab.shell.home.dir().to_path_buf();
    let script = "print('x' * 3_000_000, file=sys.stderr, flush=True)\nprint('still there', file=sys.stderr, flush=True)\n\
        json.dump(dict(os.environ), open(sys.argv[1] + '/env.part', 'w'))\n\
        os.rename(sys.argv[1] + '/env.part', sys.argv[1] + '/env')\nsys.stdin.read()\n";
    fs::write(dir.join("plugin.py"), format!("{READY}{script}")).unwrap();
    let argv = format!("[\"python3\", \"{0}/plugin.py\", \"{0}\"]", dir.display());
    lab.configure(&argv, "env = { OWN_TOKEN = \"of-its-own\" }\npass = [\"SHARED_TOKEN\"]\n");
    let mut command = lab.shell.command(&["channel", "list"]);
    command.env("TELEGRAM_BOT_TOKEN", "4711:of-the-daemon").env("SHARED_TOKEN", "of-both");
    lab.shell.output(move || command.output().unwrap()).await.ok();
    let env = until("its environment", || fs::read_to_string(dir.join("env")).ok()).await;
    let env: Value = serde_json::from_str(&env).unwrap();
    assert_eq!((&env["OWN_TOKEN"], &env["SHARED_TOKEN"]), (&json!("of-its-own"), &json!("of-both")));
    assert!(!env["PATH"].is_null(), "{env}");
    assert!(env.get("TELEGRAM_BOT_TOKEN").is_none() && env.get("CODEX_BRIDGE_STATE_DIR").is_none(), "{env}");
    lab.shell.log_with("still there").await;
    lab.end().await;
}

#[tokio::test]
async fn a_plugin_is_looked_at_without_a_second_one_beside_the_one_that_serves() {
    // Before it says that it is ready: whoever only looks at it ends it then.
    let alive = "import sys\nopen(sys.argv[1] + '/lives', 'a').write('x')\n";
    let (lab, _) = misbehaving(&format!("{alive}{READY}sys.stdin.read()\n")).await;
    let lives = lab.shell.home.dir().join("lives");
    until("it to live", || fs::read_to_string(&lives).ok()).await;
    let is_serving = || {
        fs::read_to_string(lab.shell.home.dir().join("st/daemon.log"))
            .ok()
            .filter(|log| log.contains("is served by"))
    };
    until("it to serve", is_serving).await;
    let said = lab.shell.run(&["channel", "test", "echo"]).await.ok().out;
    assert!(said.contains("runs"), "{said}");
    assert_eq!(fs::read_to_string(&lives).unwrap(), "x");
    lab.shell.run(&["channel", "pause", "echo"]).await.ok();
    let said = lab.shell.run(&["channel", "test", "echo"]).await.ok().out;
    assert!(said.contains("the test run has ended"), "{said}");
    assert_eq!(fs::read_to_string(&lives).unwrap(), "xx", "one that serves nothing is begun for it");
    lab.end().await;
}

/// A plugin that shows how a turn stands: it says hello once, and keeps what it is told.
#[tokio::test]
async fn a_plugin_shows_how_a_turn_stands_in_one_message() {
    let script = "import json, sys\nfor line in sys.stdin:\n  call = json.loads(line)\n  method = call.get('method')\n  \
        if method == 'initialize':\n    can = {'send': True, 'edit': True, 'progress': True}\n    \
        print(json.dumps({'id': call['id'], 'result': {'capabilities': can}}), flush=True)\n    \
        said = {'id': 'm1', 'conversation': 'c', 'sender': {'id': 'ada'}, 'text': 'work [play] exec sleep 6 => say Done.'}\n    \
        print(json.dumps({'id': 'm1', 'method': 'inbound', 'params': said}), flush=True)\n  \
        elif method:\n    open(sys.argv[1] + '/told', 'a').write(line)\n    \
        print(json.dumps({'id': call.get('id'), 'result': {'message_id': call['params'].get('outbox_id')}}), flush=True)\n";
    let (lab, _) = misbehaving(script).await;
    let told = || -> Vec<Value> {
        let text = fs::read_to_string(lab.shell.home.dir().join("told")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    let is_reply = |call: &Value| call["params"]["kind"] == "reply";
    until("the reply", || told().iter().any(is_reply).then_some(())).await;
    let is_over = |call: &Value| {
        call["method"] == "edit"
            && call["params"]["text"].as_str().is_some_and(|text| text.starts_with("Done in "))
    };
    until("the end of the progress", || told().iter().any(is_over).then_some(())).await;
    let shown: Vec<Value> = told().into_iter().filter(|call| call["params"]["kind"] == "progress").collect();
    assert_eq!(shown.len(), 1, "one message: {:#?}", told());
    // On a busy machine the message is there before the command is.
    let names_command =
        |call: &Value| call["params"]["text"].as_str().is_some_and(|text| text.contains("sleep 6"));
    assert!(told().iter().any(|call| !is_reply(call) && names_command(call)), "{:#?}", told());
    lab.end().await;
}

const READY: &str = "import json, os, sys, time\nfirst = json.loads(sys.stdin.readline())\n\
    print(json.dumps({'id': first['id'], 'result': {'name': 'x', 'capabilities': {}}}), flush=True)\n";

#[tokio::test]
async fn a_plugin_that_ends_is_begun_again() {
    let count = "open(sys.argv[1] + '/lives', 'a').write('x')\nprint('token sk-proj-abcdefghijklmnopqrstuvwx1234', file=sys.stderr)\nsys.exit(3)\n";
    let (lab, _) = misbehaving(&format!("{READY}{count}")).await;
    let lives = lab.shell.home.dir().join("lives");
    until("three lives", || fs::read_to_string(&lives).ok().filter(|lives| lives.len() >= 3)).await;
    let log = lab.shell.log_with("exit status: 3").await;
    assert!(log.contains("plugin: token ") && !log.contains("abcdefghijklmnop"), "{log}");
    lab.end().await;
}

#[tokio::test]
async fn a_plugin_that_cannot_start_is_listed_with_its_exit_status_and_its_last_words() {
    let breaks = "import sys\nsys.stdin.readline()\nprint('token sk-proj-abcdefghijklmnopqrstuvwx1234', file=sys.stderr)\n\
        print('x' * 3_000_000, file=sys.stderr)\nprint('warming up', file=sys.stderr)\nprint('~~~^^^', file=sys.stderr)\n\
        print('no place for sk-proj-abcdefghijklmnopqrstuvwx1234', file=sys.stderr)\nsys.exit(7)\n";
    let (lab, mut list) = misbehaving(breaks).await;
    let began = Instant::now();
    while list[0]["standing"] != "retrying" {
        assert!(began.elapsed() < PATIENCE, "{list:#}");
        list = lab.start().await;
    }
    // Long before it would have had to be ready.
    assert!(!lab.shell.log_with("retrying").await.contains("within 20 s"));
    let about = list[0]["about"].as_str().unwrap();
    let expected = "python3: the plugin ended with exit status: 7; its stderr ended with: warming up / no place for [redacted";
    assert!(about.starts_with(expected) && !about.contains("abcdefghijklmnop"), "{about}");
    let listed = lab.shell.run(&["channel", "list"]).await.ok().out;
    assert!(
        listed.contains("retrying") && listed.contains("exit status: 7; its stderr ended with: warming up"),
        "{listed}"
    );
    let found = lab.shell.run(&["--json", "doctor"]).await.json();
    let names = |one: &&Value| {
        one["name"] == "channels"
            && one["message"].as_str().unwrap().starts_with("echo is retrying: python3:")
    };
    let warning = found.as_array().unwrap().iter().find(names).unwrap_or_else(|| panic!("{found:#}"));
    assert_eq!(warning["verdict"], "warning", "{warning}");
    assert!(warning["fix"].as_str().unwrap().contains("channel test echo"), "{warning}");
    let tested = lab.shell.run(&["channel", "test", "echo"]).await;
    assert!(tested.err.contains("its stderr ended with"), "{}", tested.err);
    lab.end().await;
}

#[tokio::test]
async fn a_plugin_whose_line_has_no_end_is_ended_with_all_that_it_started() {
    let flood =
        "os.spawnlp(os.P_NOWAIT, 'sleep', 'sleep', '300')\nwhile True: sys.stdout.write('x' * 65536)\n";
    let (lab, _) = misbehaving(&format!("{READY}{flood}")).await;
    lab.shell.log_with("longer than").await;
    // What it started is gone too: asserted at the end of the shell.
    lab.end().await;
}

#[tokio::test]
async fn a_program_that_is_not_there_stops_its_channel_and_says_so() {
    let shell = Shell::new().await;
    let lab = Lab { inbox: PathBuf::new(), outbox: PathBuf::new(), shell };
    lab.configure("[\"/nonexistent/plugin\"]", "");
    lab.start().await;
    let log = lab.shell.log_with("stopped").await;
    assert!(log.contains("/nonexistent/plugin cannot be run"), "{log}");
    lab.end().await;
}
