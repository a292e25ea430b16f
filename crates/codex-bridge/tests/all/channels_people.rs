//! Who may do what by a channel: strangers, agents, people, and those who decide.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;

use codex_wire::host::{Found, find_all};
use rustix::process::{Pid, Signal, kill_process};
use scripted_model::{Question, Scenario, ToolCall};
use serde_json::{Value, json};
use testkit::platform::molecule::{Bad, State, TOKEN, WORKSPACE, by_a_person};
use tokio::sync::Notify;

use crate::channel_rig::Channel;
use crate::shell::PATIENCE;

/// A turn that asks to run a command outside the sandbox.
fn asks(command: &str) -> Scenario {
    Scenario::new().call(ToolCall::exec_escalated(command, "it is needed")).then_say("finished")
}

// peer: CH18
#[tokio::test]
async fn a_person_approves_on_the_canvas_and_sees_the_whole_command_first() {
    let channel = Channel::new().await;
    channel.shell.model.script("make it", asks("touch made.txt"));
    // A message with a context of its own is a conversation of its own on the same canvas.
    let message = json!({ "contextId": "c-1", "parts": [{ "kind": "text", "text": "make it" }] });
    let body = by_a_person(json!({ "params": { "message": message } }));
    let seq = channel.molecule.add(&json!({ "method": "message/send", "request_body": body }));
    channel.start().await;
    let state = channel.molecule.until("a request", |state| !state.requests.is_empty()).await;
    let request = &state.requests[0];
    assert_eq!(
        (request["kind"].as_str(), request["recipient_type"].as_str()),
        (Some("approval"), Some("user"))
    );
    assert!(request["detail"].as_str().unwrap().contains("touch made.txt"), "{request}");
    assert!(!channel.shell.home.workspace().join("made.txt").exists(), "nothing runs before");
    channel.molecule.answer(0, "approved");
    let state = channel.acked(seq).await;
    assert_eq!(state.notices, ["finished"]);
    assert!(channel.shell.home.workspace().join("made.txt").exists());
    let audit = channel.shell.run(&["audit"]).await.ok().out;
    assert!(audit.contains("molecule:canvas") && audit.contains("decide accept"), "{audit}");
    channel.end().await;
}

#[tokio::test]
async fn what_is_too_long_to_be_shown_is_put_in_words_and_can_be_denied_but_not_clicked_away() {
    let channel = Channel::new().await;
    channel.shell.model.script("make it", asks(&format!("touch made.txt # {}", "x".repeat(70_000))));
    let seq = channel.molecule.say("make it");
    channel.start().await;
    let told = channel.notices(1).await.remove(0);
    assert!(told.contains("touch made.txt") && told.contains("too long to be shown here"), "{told}");
    assert!(told.chars().count() <= 60_000, "{}", told.len());
    assert_eq!(channel.molecule.state().requests, Vec::<Value>::new(), "no click agrees to it");
    let id = told.rsplit("/deny ").next().unwrap().split(' ').next().unwrap().to_owned();
    channel.molecule.say(&format!("/deny {id}"));
    let state = channel.acked(seq).await;
    assert!(state.notices.iter().any(|text| text == "finished"), "{:?}", state.notices);
    assert!(!channel.shell.home.workspace().join("made.txt").exists());
    channel.end().await;
}

#[tokio::test]
async fn a_question_is_put_in_words_and_cannot_be_approved_away() {
    let channel = Channel::new().await;
    let ask = ToolCall::request_user_input(&[Question::yes_no("colour", "Shall it be red?")]);
    channel.shell.model.script("paint it", Scenario::new().call(ask).then_say("painted"));
    let seq = channel.molecule.say("paint it");
    channel.start().await;
    let told = channel.notices(1).await.remove(0);
    assert!(told.contains("Shall it be red?") && told.contains("/answer req-"), "{told}");
    let state = channel.molecule.state();
    assert_eq!(state.requests, Vec::<Value>::new(), "a click cannot answer it");
    let id = told.split("/answer ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    channel.molecule.say(&format!("/answer {id} Yes"));
    let state = channel.acked(seq).await;
    assert!(state.notices.iter().any(|text| text == "painted"), "{:?}", state.notices);
    channel.end().await;
}

// peer: CH18
#[tokio::test]
async fn an_open_request_is_the_same_after_a_crash_and_one_that_was_answered_elsewhere_is_withdrawn() {
    let channel = Channel::new().await;
    channel.shell.model.script("make it", asks("touch made.txt"));
    channel.molecule.say("make it");
    channel.start().await;
    channel.molecule.until("a request", |state| !state.requests.is_empty()).await;
    let polls = channel.molecule.state().polls;
    channel.molecule.until("the place is kept", |state| state.polls > polls + 1).await;
    channel.die_and_come_back().await;
    let polls = channel.molecule.state().polls;
    channel.molecule.until("it goes on", |state| state.polls > polls + 3).await;
    assert_eq!(channel.molecule.state().requests.len(), 1, "people see it once");
    let task = channel.inbox().await[0]["task_id"].as_str().unwrap().to_owned();
    channel.shell.run(&["decline", &task]).await.ok();
    let is_gone = |state: &State| state.requests[0]["status"] == "cancelled";
    channel.molecule.until("it is withdrawn", is_gone).await;
    channel.notices(1).await;
    assert!(!channel.shell.home.workspace().join("made.txt").exists());
    channel.end().await;
}

// peer: CH18
#[tokio::test]
async fn words_in_the_chat_decide_too_and_only_the_first_counts() {
    let channel = Channel::new().await;
    channel.shell.model.script("make it", asks("touch made.txt"));
    channel.molecule.say("make it");
    channel.start().await;
    let state = channel.molecule.until("a request", |state| !state.requests.is_empty()).await;
    let title = state.requests[0]["title"].as_str().unwrap().to_owned();
    let id = title.rsplit_once('[').unwrap().1.trim_end_matches(']');
    channel.molecule.say("/approve req-00000000");
    let told = channel.notices(1).await;
    assert!(told[0].contains("no request req-00000000 in this conversation"), "{told:?}");
    channel.until_told().await;
    channel.molecule.say(&format!("/approve {id}"));
    let told = channel.notices(3).await.join("\n");
    assert!(told.contains("Approved: Codex has it") && told.contains("finished"), "{told}");
    channel.molecule.say(&format!("/deny {id}"));
    let told = channel.notices(4).await.pop().unwrap();
    assert!(told.contains("already answered: approved, by "), "{told}");
    channel.end().await;
}

#[tokio::test]
async fn a_platform_without_requests_shows_them_in_words_and_a_yes_counts_for_what_it_shows() {
    let channel = Channel::new().await;
    channel.molecule.is_old();
    channel.shell.model.script("make it", asks("touch made.txt"));
    channel.molecule.say("make it");
    channel.start().await;
    let told = channel.notices(1).await.remove(0);
    assert!(told.contains("touch made.txt") && told.contains("/approve req-"), "{told}");
    channel.until_told().await;
    channel.molecule.say("/approve");
    let told = channel.notices(3).await.join("\n");
    assert!(told.contains("Approved: Codex has it") && told.contains("finished"), "{told}");
    assert!(channel.shell.home.workspace().join("made.txt").exists());
    channel.end().await;
}

#[tokio::test]
async fn a_yes_in_words_does_not_count_for_what_the_words_left_out() {
    let channel = Channel::new().await;
    channel.molecule.is_old();
    // Each could be shown, all together cannot.
    let command = |number: usize| format!("touch {number}.txt # {}", "x".repeat(14_000));
    let call = |number| ToolCall::exec_escalated(command(number), "it is needed");
    let scenario = (0..6).fold(Scenario::new(), |scenario, number| scenario.call(call(number)));
    channel.shell.model.script("make it", scenario.then_say("finished"));
    // While the reply to this is on its way, nothing else is sent there, so that the notice has all six.
    let reply_arrives = Arc::new(Notify::new());
    channel.molecule.have("notify", [Bad::AnswersWhen(Arc::clone(&reply_arrives))]);
    channel.molecule.say("/usage");
    channel.molecule.say("make it");
    channel.start().await;
    let began = Instant::now();
    while channel.shell.run(&["--json", "requests"]).await.ok().json().as_array().unwrap().len() < 6 {
        assert!(began.elapsed() < PATIENCE, "Codex does not ask six times");
    }
    reply_arrives.notify_one();
    let told = channel.notices(2).await.remove(1);
    // In whatever order they came.
    assert!((0..6).any(|number| !told.contains(&command(number))), "{}", told.len());
    channel.until_told().await;
    let id = told.rsplit("/deny ").next().unwrap().split(' ').next().unwrap().to_owned();
    channel.molecule.say(&format!("/approve {id}"));
    let told = channel.notices(3).await.pop().unwrap();
    assert!(
        told.contains("could not be shown here whole") && told.contains("codex-bridge approve"),
        "{told}"
    );
    channel.molecule.say("/stop");
    channel.notices(5).await;
    assert!((0..6).all(|number| !channel.shell.home.workspace().join(format!("{number}.txt")).exists()));
    channel.end().await;
}

// peer: CH18
#[tokio::test]
async fn a_request_whose_codex_has_died_is_marked_as_closed() {
    let channel = Channel::new().await;
    channel.shell.model.script("make it", asks("touch made.txt"));
    let seq = channel.molecule.say("make it");
    channel.start().await;
    channel.molecule.until("a request", |state| !state.requests.is_empty()).await;
    let polls = channel.molecule.state().polls;
    channel.molecule.until("the delivery is noted", |state| state.polls > polls + 2).await;
    kill_codex(&channel);
    let told = channel.notices(2).await.join("\n");
    assert!(told.contains("No longer open") && told.contains("the turn that asked has ended"), "{told}");
    assert!(told.contains("The Codex that worked on this has gone"), "{told}");
    channel.acked(seq).await;
    let is_gone = |state: &State| state.requests[0]["status"] == "cancelled";
    channel.molecule.until("it is withdrawn", is_gone).await;
    channel.end().await;
}

/// The Codex of this home dies.
fn kill_codex(channel: &Channel) {
    let hosts = find_all(&channel.shell.home.dir().join("st/hosts"));
    let alive = hosts.into_iter().find_map(|(_, found)| match found {
        Ok(Found::Alive(host)) => Some(host.record().codex.pid),
        _ => None,
    });
    let pid = Pid::from_raw(i32::try_from(alive.unwrap()).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
}

// peer: CH19
#[tokio::test]
async fn where_nobody_may_decide_the_answer_is_no_at_once_and_is_shown() {
    let channel = Channel::new().await;
    channel.shell.model.script("make it", asks("touch made.txt"));
    let seq = channel.molecule.peer_says("peer-1", "make it");
    channel.start().await;
    let state = channel.acked(seq).await;
    let reply = &state.delegations[0].1;
    assert!(reply.contains("nobody here may decide") && reply.contains("touch made.txt"), "{reply}");
    assert_eq!(state.requests, Vec::<Value>::new());
    assert!(!channel.shell.home.workspace().join("made.txt").exists());
    channel.end().await;
}

// peer: CH20
#[tokio::test]
async fn a_stranger_gets_nothing_and_the_operator_sees_who_knocked() {
    let channel = Channel::with("allow = [\"canvas:approver\"]").await;
    channel.shell.model.script("hello", Scenario::new().say("hi"));
    channel.molecule.peer_says("peer-9", "let me in");
    channel.molecule.peer_says("peer-9", "let me in, I say");
    channel.molecule.say("hello");
    channel.start().await;
    channel.notices(1).await;
    let state = channel.molecule.state();
    assert_eq!((state.delegations.len(), channel.prompts()), (0, 1));
    let listed = channel.start().await;
    assert_eq!(listed[0]["knocks"][0]["sender_id"], "peer:peer-9", "{listed}");
    assert_eq!(listed[0]["knocks"][0]["count"], 2);
    let audit = channel.shell.run(&["audit"]).await.ok().out;
    assert!(audit.contains("knock") && !audit.contains("let me in"), "{audit}");
    assert_eq!(channel.inbox().await.len(), 1, "nothing of it is kept");
    channel.end().await;
}

// peer: CH20
#[tokio::test]
async fn nobody_decides_on_the_canvas_unless_the_operator_says_so() {
    let channel = Channel::with("").await;
    channel.shell.model.script("make it", asks("touch made"));
    let seq = channel.molecule.say("make it");
    channel.start().await;
    let state = channel.acked(seq).await;
    assert!(state.notices.iter().any(|text| text.contains("nobody here may decide")), "{:?}", state.notices);
    assert!(state.requests.is_empty() && !channel.shell.home.workspace().join("made").exists());
    channel.end().await;
}

#[tokio::test]
async fn only_who_the_platform_calls_a_person_is_one() {
    let channel = Channel::new().await;
    channel.shell.model.script("hello", Scenario::new().say("hi"));
    // A timer or a hook of the platform's: like the canvas it has no source, and nobody says that a person wrote.
    let body = json!({ "params": { "message": { "parts": [{ "kind": "text", "text": "hello" }] } } });
    channel.molecule.add(&json!({ "method": "message/send", "request_body": body }));
    let seq = channel.molecule.say("hello");
    channel.start().await;
    channel.acked(seq).await;
    let listed = channel.start().await;
    assert_eq!(listed[0]["knocks"][0]["sender_id"], "channel:unknown", "{listed}");
    assert_eq!(channel.prompts(), 1);
    channel.end().await;
}

#[tokio::test]
async fn an_agents_yes_to_a_request_on_the_canvas_decides_nothing() {
    let channel = Channel::new().await;
    channel.shell.model.script("make it", asks("touch made"));
    let seq = channel.molecule.say("make it");
    channel.start().await;
    channel.molecule.until("the request", |state| !state.requests.is_empty()).await;
    channel.until_told().await;
    channel.molecule.answer_as(0, "approved", "agent");
    let polls = channel.molecule.state().polls;
    channel.molecule.until("it to be seen", |state| state.polls > polls + 1).await;
    let open = channel.shell.run(&["--json", "requests"]).await.ok().json();
    assert_eq!(open.as_array().unwrap().len(), 1, "{open:#}");
    channel.shell.run(&["decline", open[0]["task_id"].as_str().unwrap()]).await.ok();
    channel.acked(seq).await;
    assert!(!channel.shell.home.workspace().join("made").exists());
    channel.end().await;
}

// peer: CH20
#[tokio::test]
async fn a_stranger_whom_a_bridge_of_the_platform_lets_through_is_nobody_of_the_canvas() {
    let channel = Channel::new().await;
    channel.shell.model.script("make it", asks("touch made"));
    channel.molecule.say("make it");
    channel.start().await;
    channel.molecule.until("the request", |state| !state.requests.is_empty()).await;
    channel.molecule.bridge_says("telegram", "/approve");
    let seq = channel.molecule.bridge_says("telegram", "do as I say");
    channel.molecule.say("/deny");
    channel.acked(seq).await;
    assert!(!channel.shell.home.workspace().join("made").exists(), "a stranger has no say");
    let listed = channel.start().await;
    assert_eq!(listed[0]["knocks"][0]["sender_id"], "channel:telegram", "{listed}");
    assert_eq!(listed[0]["knocks"][0]["count"], 2);
    channel.end().await;
}

// peer: CH20
#[tokio::test]
async fn who_is_let_in_by_a_bridge_hands_over_work_and_decides_nothing_whatever_the_file_says() {
    let channel = Channel::with("allow = [\"canvas:approver\", \"channel:telegram:approver\"]").await;
    channel.shell.model.script("make it", asks("touch made"));
    let seq = channel.molecule.bridge_says("telegram", "make it");
    channel.start().await;
    let told = channel.notices(1).await.remove(0);
    assert!(told.contains("nobody here may decide"), "{told}");
    channel.acked(seq).await;
    assert!(!channel.shell.home.workspace().join("made").exists());
    channel.end().await;
}

// peer: CH21
#[tokio::test]
async fn agents_that_answer_each_other_come_to_an_end() {
    let channel = Channel::with("agent_turns_per_hour = 2").await;
    for text in ["one", "two", "three"] {
        channel.shell.model.script(text, Scenario::new().say("ok"));
    }
    channel.molecule.peer_says("peer-1", "thanks [codex-bridge hop 2]");
    channel.molecule.peer_says("peer-2", "one");
    channel.molecule.peer_says("peer-2", "two");
    let seq = channel.molecule.peer_says("peer-2", "three");
    channel.start().await;
    let state = channel.acked(seq).await;
    assert_eq!(state.delegations.len(), 2, "{:?}", state.delegations);
    assert!(state.delegations.iter().all(|(peer, ..)| peer == "peer-2"));
    let dead: Vec<_> = channel.inbox().await.into_iter().filter(|one| one["state"] == "dead").collect();
    let why: String = dead.iter().map(|one| one["error"].to_string()).collect();
    assert!(
        dead.len() == 2 && why.contains("forwarded by 2 bridges") && why.contains("within an hour"),
        "{why}"
    );
    channel.end().await;
}

// peer: CH22
#[tokio::test]
async fn commands_are_carried_out_also_while_a_turn_runs() {
    let channel = Channel::new().await;
    let model = &channel.shell.model;
    model.script("long work", Scenario::new().delta("begun ").stall("long").delta("done"));
    model.script("and this waits", Scenario::new().say("no longer"));
    model.script("a new start", Scenario::new().say("fresh"));
    channel.molecule.say("/help");
    channel.start().await;
    assert!(channel.notices(1).await[0].contains("/approve ID"));
    channel.molecule.say("long work");
    model.wait_for_stall("long").await;
    channel.molecule.say("and this waits");
    channel.until_inbox("the second", |inbox| inbox.len() == 3).await;
    channel.molecule.say("/status");
    let status = channel.notices(2).await[1].clone();
    assert!(status.contains("working") && status.contains("1 more in the queue"), "{status}");
    channel.molecule.say("/queue");
    assert!(channel.notices(3).await[2].contains("1. and this waits"));
    channel.molecule.say("/stop");
    let told = channel.notices(5).await.join("\n");
    // What waited may begin before it is told that this has stopped.
    let is_told = told.contains("is cancelled") || told.contains("was stopped. The next message");
    assert!(is_told && told.contains("Stopped: interrupted on request"), "{told}");
    channel.molecule.say("/project elsewhere");
    channel.molecule.say("/nonsense");
    let told = |state: &State, text: &str| state.notices.iter().any(|notice| notice.contains(text));
    channel.molecule.until("a refusal", |state| told(state, "There is no command /nonsense.")).await;
    channel
        .molecule
        .until("another", |state| {
            told(state, "There is no workspace elsewhere.\nCodex can work in: main (here)")
        })
        .await;
    channel.molecule.say("/new");
    channel.molecule.say("a new start");
    channel
        .molecule
        .until("the fresh answer", |state| state.notices.iter().any(|text| text == "fresh"))
        .await;
    let inbox = channel.inbox().await;
    let task_of =
        |summary: &str| inbox.iter().find(|one| one["summary"] == summary).unwrap()["task_id"].clone();
    assert_ne!(task_of("a new start"), task_of("long work"));
    channel.end().await;
}

// peer: CH23
#[tokio::test]
async fn what_is_older_than_the_operator_wants_is_not_worked_on() {
    let channel = Channel::with("max_age_s = 3600").await;
    channel.shell.model.script("fresh", Scenario::new().say("hi"));
    let parts = by_a_person(json!({ "parts": [{ "kind": "text", "text": "long ago" }] }));
    // Without a place only the last minutes are read, so this one comes behind a place that is known.
    channel.molecule.say("fresh");
    channel.start().await;
    channel.notices(1).await;
    let old =
        json!({ "method": "message/send", "created_at": "2020-01-01T00:00:00Z", "request_body": parts });
    channel.molecule.add(&old);
    let seq = channel.molecule.add(&old);
    let state = channel.acked(seq).await;
    assert_eq!(state.notices.len(), 2, "the sender is told of the first one: {:?}", state.notices);
    assert!(state.notices[1].contains("This reached me too late"), "{:?}", state.notices);
    let inbox = channel.inbox().await;
    assert_eq!(inbox[0]["state"], "dead");
    assert!(inbox[0]["error"].as_str().unwrap().contains("the limit is 3600 s"), "{inbox:?}");
    channel.end().await;
}

// peer: CH25
#[tokio::test]
async fn three_variables_are_enough_to_serve_a_workspace() {
    let channel = Channel::new().await;
    let config = format!("codex_bin = \"{}\"\n", testkit::rig::codex_path().display());
    std::fs::write(channel.shell.home.dir().join("config.toml"), config).unwrap();
    channel.shell.model.script("where are you", Scenario::new().say("here"));
    let seq = channel.molecule.say("where are you");
    let command = || {
        let mut command = channel.shell.command(&["channel", "run", "molecule"]);
        command.env("WORKSPACE_ID", WORKSPACE).env("PLATFORM_URL", channel.molecule.base());
        command.env("MOLECULE_WORKSPACE_TOKEN", TOKEN).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let mut daemon = command().spawn().unwrap();
    let state = channel.acked(seq).await;
    assert_eq!(state.notices, ["here"]);
    // A second one finds the daemon that runs, and follows what it says.
    let mut follower = command().spawn().unwrap();
    let out = follower.stdout.take().unwrap();
    let line = tokio::task::spawn_blocking(move || BufReader::new(out).lines().next().unwrap().unwrap());
    let line = line.await.unwrap();
    assert!(line.contains("channel molecule serving: workspace"), "{line}");
    assert_eq!(channel.molecule.state().registrations, 1);
    follower.kill().unwrap();
    follower.wait().unwrap();
    let inbox = channel.inbox().await;
    let show =
        channel.shell.run(&["--json", "show", inbox[0]["task_id"].as_str().unwrap()]).await.ok().json();
    assert_eq!(
        (&show["sandbox"], &show["approval_policy"]),
        (&json!("read-only"), &json!("on-request")),
        "{show}"
    );
    let channel_end = tokio::task::spawn_blocking(move || daemon.wait().unwrap());
    channel.end().await;
    assert!(channel_end.await.unwrap().success());
}

#[tokio::test]
async fn a_channel_that_rests_reads_nothing_until_it_is_run_again() {
    let channel = Channel::new().await;
    channel.shell.model.script("hello", Scenario::new().say("hi"));
    channel.start().await;
    channel.molecule.until("a poll", |state| state.polls > 0).await;
    channel.shell.run(&["channel", "pause", "molecule"]).await.ok();
    channel.molecule.say("hello");
    let listed = channel.start().await;
    assert_eq!(listed[0]["standing"], "paused", "{listed}");
    channel.die_and_come_back().await;
    let polls = channel.molecule.state().polls;
    assert_eq!(channel.start().await[0]["standing"], "paused", "also after a restart");
    assert_eq!(channel.molecule.state().polls, polls);
    let mut run =
        channel.shell.command(&["channel", "run", "molecule"]).stdout(Stdio::null()).spawn().unwrap();
    assert_eq!(channel.notices(1).await, ["hi"]);
    run.kill().unwrap();
    run.wait().unwrap();
    channel.end().await;
}

#[tokio::test]
async fn who_is_taken_off_the_list_is_heard_no_more_once_the_channel_is_run_again() {
    let channel = Channel::new().await;
    channel.shell.model.script("hello", Scenario::new().say("hi"));
    channel.shell.model.script("and now", Scenario::new().say("nobody else"));
    channel.molecule.peer_says("peer-1", "hello");
    channel.start().await;
    channel.molecule.until("a reply", |state| state.delegations.len() == 1).await;
    channel.configure("allow = [\"canvas:approver\"]");
    let mut run =
        channel.shell.command(&["channel", "run", "molecule"]).stdout(Stdio::null()).spawn().unwrap();
    channel.molecule.until("it to begin anew", |state| state.registrations == 2).await;
    channel.molecule.peer_says("peer-1", "hello again");
    channel.molecule.say("and now");
    assert_eq!(channel.notices(1).await, ["nobody else"]);
    let listed = channel.start().await;
    assert_eq!(listed[0]["knocks"][0]["sender_id"], "peer:peer-1", "{listed}");
    assert_eq!(channel.molecule.state().delegations.len(), 1);
    run.kill().unwrap();
    run.wait().unwrap();

    let file = channel.shell.home.dir().join("config.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, config.replace("poll_ms = 50", "poll_ms = 51")).unwrap();
    let failure = channel.shell.run(&["--json", "channel", "run", "molecule"]).await.failure();
    assert_eq!(failure["code"], "wrong_state", "{failure}");
    assert!(
        failure["message"].as_str().unwrap().contains("already served, with other settings"),
        "{failure}"
    );
    channel.end().await;
}

#[tokio::test]
async fn a_channel_is_written_into_the_configuration_and_tested() {
    let channel = Channel::new().await;
    let config = format!(
        "codex_bin = \"{}\"\n[workspaces]\nmain = \"{}\"\n",
        testkit::rig::codex_path().display(),
        channel.shell.home.workspace().display()
    );
    let file = channel.shell.home.dir().join("config.toml");
    std::fs::write(&file, config).unwrap();
    let url = format!("url={}", channel.molecule.base());
    let id = format!("workspace_id={WORKSPACE}");
    let add = [
        "channel",
        "add",
        "work",
        "--platform",
        "molecule",
        "--allow",
        "canvas:approver",
        "--set",
        &url,
        "--set",
        &id,
    ];
    channel.shell.run(&add).await.ok();
    let written = std::fs::read_to_string(&file).unwrap();
    // It wants a list, which no setting gives: nothing is half written.
    let broken =
        ["channel", "add", "echo", "--platform", "plugin", "--allow", "ada", "--set", "argv=/bin/echo"];
    let told = channel.shell.run(&broken).await;
    assert!(told.code != 0 && told.err.contains("the file was not changed"), "{}", told.err);
    let sneaky =
        ["channel", "add", "two", "--platform", "molecule", "--set", "url=x", "--set", "a\n[http]\nlisten=1"];
    assert_eq!(channel.shell.run(&sneaky).await.code, 2);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), written);
    assert_eq!(channel.shell.run(&add).await.code, 2, "it is there already");
    let without = channel.shell.run(&["channel", "test", "work"]).await;
    assert!(without.err.contains("MOLECULE_WORKSPACE_TOKEN"), "{}", without.err);
    let mut test = channel.shell.command(&["channel", "test", "work"]);
    test.env("MOLECULE_WORKSPACE_TOKEN", TOKEN);
    let said = tokio::task::spawn_blocking(move || test.output().unwrap()).await.unwrap();
    assert!(said.status.success(), "{said:?}");
    channel.end().await;
}

#[tokio::test]
async fn where_there_are_no_reactions_a_line_says_that_a_message_waits() {
    let channel = Channel::new().await;
    let file = channel.shell.home.dir().join("config.toml");
    let config = fs::read_to_string(&file).unwrap();
    fs::write(&file, config.replace("receipts = false\n", "")).unwrap();
    channel.shell.model.script("first", Scenario::new().stall("gate").say("one"));
    channel.shell.model.script("second", Scenario::new().say("two"));
    channel.molecule.say("first");
    channel.start().await;
    channel.shell.model.wait_for_stall("gate").await;
    channel.molecule.say("second");
    let waits = "This waits its turn: Codex is still at work on what was written before.";
    channel.molecule.until("the line", |state| state.notices.iter().any(|text| text == waits)).await;
    channel.shell.model.release("gate");
    let state = channel.molecule.until("both answers", |state| state.notices.len() >= 3).await;
    assert_eq!(state.notices, [waits, "one", "two"]);
    channel.end().await;
}
