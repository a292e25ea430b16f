//! What a channel owes to whoever writes by it, shown on the Molecule stand-in and the real Codex.

use std::time::Duration;

use scripted_model::Scenario;
use serde_json::{Value, json};
use testkit::platform::Answer;
use testkit::platform::molecule::{Bad, by_a_person};

use crate::channel_rig::Channel;

// peer: CH1
#[tokio::test]
async fn a_message_on_the_canvas_is_answered_on_the_canvas_and_then_acknowledged() {
    let channel = Channel::new().await;
    channel.shell.model.script("what is two and two", Scenario::new().say("four"));
    let seq = channel.molecule.say("what is two and two");
    channel.start().await;
    let state = channel.acked(seq).await;
    assert_eq!(state.notices, ["four"]);
    assert_eq!(state.delegations, []);
    assert_eq!(state.registrations, 1);
    let state = channel.molecule.until("a heartbeat", |state| !state.heartbeats.is_empty()).await;
    assert_eq!(state.heartbeats[0]["workspace_id"], testkit::platform::molecule::WORKSPACE);
    // The platform knows of it before it is noted here.
    let is_noted = |inbox: &[Value]| inbox.len() == 1 && inbox[0]["state"] == "acknowledged";
    channel.until_inbox("the message is acknowledged", is_noted).await;
    channel.end().await;
}

// peer: CH2
#[tokio::test]
async fn a_message_of_another_agent_is_answered_by_a_delegation_to_it() {
    let channel = Channel::new().await;
    channel.shell.model.script("look at the build", Scenario::new().say("it is green"));
    let seq = channel.molecule.peer_says("peer-1", "look at the build");
    channel.start().await;
    let state = channel.acked(seq).await;
    assert_eq!(state.notices, [""; 0]);
    let [(target, task, key)] = &state.delegations[..] else { panic!("{:?}", state.delegations) };
    assert_eq!(target, "peer-1");
    assert!(task.starts_with("it is green") && task.contains("[codex-bridge hop 1]"), "{task}");
    assert!(key.starts_with("dlv-in-"), "{key}");
    channel.end().await;
}

// peer: CH3, CH4
#[tokio::test]
async fn each_conversation_keeps_its_own_thread_also_over_the_death_of_the_daemon() {
    let channel = Channel::new().await;
    for text in ["one", "two", "three", "of a peer"] {
        channel.shell.model.script(text, Scenario::new().say(format!("said {text}")));
    }
    channel.molecule.say("one");
    channel.start().await;
    channel.notices(1).await;
    let of_peer = channel.molecule.peer_says("peer-1", "of a peer");
    channel.acked(of_peer).await;
    channel.die_and_come_back().await;
    channel.molecule.say("two");
    channel.notices(2).await;
    let last = channel.molecule.say("three");
    assert_eq!(channel.notices(3).await, ["said one", "said two", "said three"]);
    channel.acked(last).await;
    let inbox = channel.inbox().await;
    let task_of = |conversation: &str| -> Vec<_> {
        inbox
            .iter()
            .filter(|one| one["conversation"] == conversation)
            .map(|one| one["task_id"].clone())
            .collect()
    };
    let canvas = task_of("canvas");
    assert_eq!(canvas.len(), 3);
    assert!(canvas.iter().all(|task| *task == canvas[0]), "{inbox:?}");
    assert_ne!(task_of("peer:peer-1")[0], canvas[0]);
    // The model was shown what was said before.
    let requests = channel.shell.model.requests();
    let third = requests.last().unwrap();
    assert!(third.body.to_string().contains("said one"), "the thread has its history");
    channel.end().await;
}

// peer: CH5
#[tokio::test]
async fn nothing_new_and_nonsense_start_nothing_and_the_channel_goes_on() {
    let channel = Channel::new().await;
    channel.molecule.have(
        "activity",
        [
            Bad::Refuses(Answer::json(200, json!({ "timeout": true }))),
            Bad::Refuses(Answer::json(200, json!("not rows"))),
            Bad::Refuses(Answer::json(200, json!([{ "no": "row" }, 7]))),
            Bad::Refuses(Answer::status(500)),
            Bad::Drops,
        ],
    );
    channel.start().await;
    channel.molecule.until("seven polls", |state| state.polls >= 2).await;
    assert_eq!((channel.prompts(), channel.molecule.state().notices.len()), (0, 0));
    channel.shell.model.script("still there?", Scenario::new().say("yes"));
    channel.molecule.say("still there?");
    assert_eq!(channel.notices(1).await, ["yes"]);
    channel.end().await;
}

// peer: CH6
#[tokio::test]
async fn a_reply_that_cannot_be_sent_is_sent_later_and_the_message_acknowledged_only_then() {
    let channel = Channel::new().await;
    channel.shell.model.script("hello", Scenario::new().say("hi"));
    let wait = Answer::json(429, json!({ "error": "rate limit exceeded" })).header("retry-after", "1");
    channel.molecule.have("notify", [Bad::Refuses(wait), Bad::Refuses(Answer::status(404))]);
    let seq = channel.molecule.say("hello");
    channel.start().await;
    let state = channel.molecule.until("the reply", |state| !state.notices.is_empty()).await;
    assert_eq!(state.acks, [0; 0], "nothing is acknowledged before the reply is out");
    let state = channel.acked(seq).await;
    assert_eq!((state.notices, channel.prompts()), (vec!["hi".to_owned()], 1));
    channel.end().await;
}

// peer: CH7
#[tokio::test]
async fn a_turn_that_fails_is_told_with_its_kind_and_the_conversation_goes_on() {
    let channel = Channel::new().await;
    let broken = Scenario::new().fail("invalid_prompt", "the model has no such thing");
    channel.shell.model.script("do the impossible", broken);
    channel.shell.model.script("then something else", Scenario::new().say("that works"));
    let seq = channel.molecule.say("do the impossible");
    channel.start().await;
    let told = channel.notices(1).await.remove(0);
    assert!(told.starts_with("This did not work: the model has no such thing\n\n"), "{told}");
    assert!(
        told.ends_with("Retry: /retry\nDetails: /details"),
        "a platform without buttons gets the words: {told}"
    );
    channel.acked(seq).await;
    channel.molecule.say("then something else");
    assert_eq!(channel.notices(2).await[1], "that works");
    let inbox = channel.inbox().await;
    assert_eq!(inbox[0]["task_id"], inbox[1]["task_id"], "the thread is kept");
    channel.end().await;
}

// peer: CH7
#[tokio::test]
async fn a_turn_that_works_too_long_is_ended_and_told() {
    let channel = Channel::with("turn_limit_s = 2").await;
    let model = &channel.shell.model;
    model.script("for ever", Scenario::new().delta("begun ").stall("never"));
    model.script("and now", Scenario::new().say("quickly"));
    let seq = channel.molecule.say("for ever");
    channel.start().await;
    let told = channel.notices(1).await.remove(0);
    assert!(told.starts_with("This was stopped: the turn timed out after 2 s of work.\n\n"), "{told}");
    channel.acked(seq).await;
    channel.molecule.say("and now");
    assert_eq!(channel.notices(2).await[1], "quickly", "each turn has its own time");
    model.release("never");
    channel.end().await;
}

#[tokio::test]
async fn an_empty_answer_is_said_to_be_empty() {
    let channel = Channel::new().await;
    channel.shell.model.script("say nothing", Scenario::new().say(""));
    channel.molecule.say("say nothing");
    channel.start().await;
    let told = channel.notices(1).await.remove(0);
    assert!(told.contains("empty"), "{told}");
    channel.end().await;
}

// peer: CH8
#[tokio::test]
async fn a_message_of_several_parts_reaches_codex_as_one_prompt() {
    let channel = Channel::new().await;
    channel.shell.model.script("first second", Scenario::new().say("both"));
    let parts = json!([{"kind": "text", "text": "first "}, {"kind": "file", "file": {"uri": "x"}}, {"type": "text", "text": "second"}]);
    let body = by_a_person(json!({"params": {"message": {"parts": parts}}}));
    channel.molecule.add(&json!({ "method": "message/send", "request_body": body.to_string() }));
    channel.start().await;
    assert_eq!(channel.notices(1).await, ["both"]);
    channel.end().await;
}

// peer: CH9
#[tokio::test]
async fn our_own_words_and_the_results_of_delegations_are_never_answered() {
    let channel = Channel::new().await;
    channel.shell.model.script("hello", Scenario::new().say("hi"));
    channel.molecule.add(&json!({ "method": "notify", "response_body": { "result": "of before" } }));
    channel.molecule.add(&json!({ "method": "delegate_result", "source_id": "peer-1", "summary": "done" }));
    let own = testkit::platform::molecule::WORKSPACE;
    channel.molecule.add(&json!({ "method": "message/send", "source_id": own, "summary": "echo" }));
    let seq = channel.molecule.say("hello");
    channel.start().await;
    channel.acked(seq).await;
    let polls = channel.molecule.state().polls;
    let state = channel.molecule.until("more polls", |state| state.polls > polls + 4).await;
    assert_eq!((state.notices, state.delegations.len()), (vec!["hi".to_owned()], 0));
    assert_eq!(channel.inbox().await.len(), 1);
    channel.end().await;
}

// peer: CH12
#[tokio::test]
async fn a_place_that_the_platform_forgot_is_found_anew_and_nothing_is_answered_twice() {
    let channel = Channel::new().await;
    channel.shell.model.script("one", Scenario::new().say("first"));
    channel.shell.model.script("two", Scenario::new().say("second"));
    let seq = channel.molecule.say("one");
    channel.start().await;
    channel.acked(seq).await;
    channel.molecule.forget_places();
    let seq = channel.molecule.say("two");
    let state = channel.acked(seq).await;
    assert_eq!(state.notices, ["first", "second"]);
    assert_eq!(channel.prompts(), 2);
    channel.end().await;
}

/// A daemon that was away for long: its place is forgotten, and more has come than one page holds.
#[tokio::test]
async fn after_a_long_absence_all_that_came_meanwhile_is_answered_in_its_order() {
    let channel = Channel::new().await;
    let model = &channel.shell.model;
    for text in ["before", "eight days ago", "yesterday", "just now"] {
        model.script(text, Scenario::new().say(format!("to {text}")));
    }
    let ours = json!({ "method": "notify", "response_body": { "result": "of ours" } });
    channel.molecule.add(&ours);
    channel.start().await;
    let polls = channel.molecule.state().polls;
    channel.molecule.until("a place", |state| state.polls > polls + 2).await;
    let days = |days: u64| channel.molecule.live_in_the_past(Duration::from_hours(24 * days));
    days(10);
    let before = channel.molecule.say("before");
    channel.acked(before).await;
    let polls = channel.molecule.state().polls;
    channel.molecule.until("the place behind its answer", |state| state.polls > polls + 2).await;
    channel.shell.run(&["stop"]).await.ok();
    channel.molecule.forget_places();
    days(8);
    channel.molecule.say("eight days ago");
    days(5);
    for _ in 0..1_200 {
        // Many of the same moment, also across the border of a page.
        channel.molecule.add(&ours);
    }
    days(1);
    channel.molecule.say("yesterday");
    days(0);
    let last = channel.molecule.say("just now");
    channel.start().await;
    let state = channel.acked(last).await;
    assert_eq!(state.notices, ["to before", "to eight days ago", "to yesterday", "to just now"]);
    assert_eq!(channel.prompts(), 4);
    channel.end().await;
}

#[tokio::test]
async fn rows_in_any_order_and_answers_that_take_their_time_change_nothing() {
    let channel = Channel::new().await;
    let model = &channel.shell.model;
    for text in ["one", "two", "three"] {
        model.script(text, Scenario::new().say(format!("to {text}")));
    }
    let late = || Bad::AnswersLate(Duration::from_millis(700));
    channel.molecule.have("activity", [late(), Bad::Reorders, Bad::Reorders, Bad::Reorders, late()]);
    channel.molecule.have("notify", [late(), late()]);
    channel.molecule.have("activity/ack", [late()]);
    let mut last = 0;
    for text in ["one", "two", "three"] {
        last = channel.molecule.say(text);
    }
    channel.start().await;
    let state = channel.acked(last).await;
    assert_eq!(state.notices, ["to one", "to two", "to three"]);
    assert_eq!(channel.prompts(), 3);
    channel.end().await;
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_dead_where_the_operator_sees_it_and_the_rest_goes_on() {
    let channel = Channel::new().await;
    channel.shell.model.script("and this", Scenario::new().say("done"));
    let odd =
        json!({ "method": ["odd"], "summary": "run something", "request_body": by_a_person(json!({})) });
    channel.molecule.add(&odd);
    channel.molecule.add(&json!({ "method": "chat_upload_receive", "summary": "Canvas upload: a.png",
        "request_body": { "uri": "platform-pending:w/f", "name": "a.png" } }));
    let seq = channel.molecule.say("and this");
    channel.start().await;
    let state = channel.acked(seq).await;
    assert_eq!(state.notices.len(), 2, "{:?}", state.notices);
    assert!(
        state.notices.iter().any(|text| text.contains("Nothing could be done with this message")),
        "{:?}",
        state.notices
    );
    assert_eq!(channel.prompts(), 1, "neither it nor a bare file starts a turn");
    let are_noted =
        |inbox: &[Value]| inbox.iter().map(|one| &one["state"]).eq([&json!("acknowledged"), &json!("dead")]);
    channel.until_inbox("one message acknowledged, one dead", are_noted).await;
    channel.end().await;
}

#[tokio::test]
async fn a_look_at_a_channel_changes_nothing_and_respects_who_serves_it() {
    let channel = Channel::with("manual = true").await;
    let test = ["channel", "test", "molecule"];
    let said = channel.shell.run(&test).await.ok().out;
    assert!(said.contains("can be read"), "{said}");
    let state = channel.molecule.state();
    assert_eq!((state.registrations, state.heartbeats.len()), (0, 0), "nobody is told that we are there");
    channel.shell.run(&["stop"]).await.ok();
    let other = channel.shell.home.dir().join("st2");
    std::fs::create_dir(&other).unwrap();
    let other = ["--state-dir", other.to_str().unwrap()];
    channel.configure("");
    channel.start().await;
    let polls = channel.molecule.state().polls;
    channel.molecule.until("it is served", |state| state.polls > polls + 2).await;
    let said = channel.shell.run(&test).await.ok().out;
    assert!(said.contains("can be read"), "the one that is served is looked at: {said}");
    let said = channel.shell.run(&[&other[..], &test].concat()).await;
    assert!(said.err.contains("is served by the daemon with pid"), "{}", said.err);
    channel.shell.run(&[&other[..], &["stop"]].concat()).await.ok();
    channel.end().await;
}

#[tokio::test]
async fn a_codex_that_is_missing_is_said_when_a_channel_is_run_and_not_to_whoever_writes() {
    let channel = Channel::with("manual = true").await;
    let config = channel.shell.home.dir().join("config.toml");
    let good = std::fs::read_to_string(&config).unwrap();
    let codex = testkit::rig::codex_path();
    std::fs::write(&config, good.replace(&codex.display().to_string(), "/no/such/codex")).unwrap();
    let said = channel.shell.run(&["channel", "run", "molecule"]).await;
    assert_ne!(said.code, 0);
    assert!(said.err.contains("npm i -g @openai/codex"), "{}", said.err);
    assert_eq!(channel.molecule.state().registrations, 0, "nobody is told that we are there");

    // A daemon runs, and then its Codex vanishes.
    std::fs::write(&config, good).unwrap();
    channel.start().await;
    let copies = channel.shell.home.dir().join("data/codex-bridge/codex");
    std::fs::rename(&copies, copies.with_extension("gone")).unwrap();
    let said = channel.shell.run(&["channel", "run", "molecule"]).await;
    assert_ne!(said.code, 0);
    assert!(said.err.contains("npm i -g @openai/codex"), "{}", said.err);
    assert_eq!(channel.molecule.state().registrations, 0);
    std::fs::rename(copies.with_extension("gone"), &copies).unwrap();
    channel.end().await;
}

// peer: CH13
#[tokio::test]
async fn a_platform_that_asks_for_time_gets_it() {
    let channel = Channel::new().await;
    channel.shell.model.script("hello", Scenario::new().say("hi"));
    let wait = || Bad::Refuses(Answer::json(429, json!({ "retry_after": 1 })).header("retry-after", "1"));
    channel.molecule.have("activity", [wait(), wait()]);
    channel.molecule.say("hello");
    let began = std::time::Instant::now();
    channel.start().await;
    channel.notices(1).await;
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
    channel.end().await;
}

// peer: CH14
#[tokio::test]
async fn a_token_that_is_refused_stops_the_channel_with_a_sentence() {
    let channel = Channel::new().await;
    channel.molecule.revoke_token();
    let said = channel.shell.run(&["channel", "run", "molecule"]).await;
    assert_ne!(said.code, 0);
    assert!(said.err.contains("refuses the token of workspace"), "{}", said.err);
    assert!(!said.err.contains(testkit::platform::molecule::TOKEN), "{}", said.err);
    channel.end().await;
}

// peer: CH14
#[tokio::test]
async fn one_refusal_of_a_platform_that_let_us_in_is_its_own_trouble_and_three_are_an_answer() {
    let channel = Channel::new().await;
    channel.start().await;
    channel.molecule.until("a poll", |state| state.polls > 0).await;
    let refused = || Bad::Refuses(Answer::json(403, json!({ "error": "not now" })));
    channel.molecule.have("activity", [refused()]);
    channel.molecule.until("it to begin anew", |state| state.registrations == 2).await;
    channel.shell.model.script("still there?", Scenario::new().say("yes"));
    channel.molecule.say("still there?");
    assert_eq!(channel.notices(1).await, ["yes"]);
    channel.molecule.revoke_token();
    let said = channel.shell.run(&["channel", "run", "molecule"]).await;
    assert!(said.code != 0 && said.err.contains("refuses the token of workspace"), "{}", said.err);
    channel.end().await;
}

// peer: CH15
#[tokio::test]
async fn a_message_that_nothing_can_be_done_with_is_given_up_told_once_and_the_rest_goes_on() {
    let channel = Channel::new().await;
    channel.shell.model.script("and this", Scenario::new().say("done"));
    let body = by_a_person(json!({"parts": [{"kind": "text", "text": "   "}]}));
    channel.molecule.add(&json!({ "method": "message/send", "request_body": body }));
    let seq = channel.molecule.peer_says("peer-1", "and this");
    channel.start().await;
    let state = channel.acked(seq).await;
    assert_eq!(state.notices.len(), 1, "{:?}", state.notices);
    assert!(state.notices[0].contains("Nothing could be done with this message"), "{:?}", state.notices);
    let dead: Vec<_> = channel.inbox().await.into_iter().filter(|one| one["state"] == "dead").collect();
    assert_eq!(dead.len(), 1);
    let id = dead[0]["message_id"].as_str().unwrap();
    channel.shell.run(&["inbox", "retry", id]).await.ok();
    assert_eq!(channel.notices(2).await.len(), 2, "it is tried again, and told again");
    channel.end().await;
}

// peer: CH16
#[tokio::test]
async fn conversations_run_side_by_side_and_each_in_its_order() {
    let channel = Channel::new().await;
    let model = &channel.shell.model;
    model.script("long work", Scenario::new().delta("begun ").stall("long").delta("done"));
    model.script("after that", Scenario::new().say("second"));
    model.script("quick", Scenario::new().say("at once"));
    channel.molecule.say("long work");
    channel.molecule.say("after that");
    channel.start().await;
    model.wait_for_stall("long").await;
    channel.molecule.peer_says("peer-1", "quick");
    channel.molecule.until("the other answer", |state| state.delegations.len() == 1).await;
    let state = channel.molecule.state();
    assert_eq!(
        (state.notices.len(), state.acks.len()),
        (0, 0),
        "the first is not done: nothing is acknowledged"
    );
    model.release("long");
    let state = channel.acked(3).await;
    assert_eq!(state.notices, ["begun done", "second"]);
    channel.end().await;
}

#[tokio::test]
async fn a_message_can_be_added_to_the_turn_that_runs() {
    let channel = Channel::with("while_running = \"steer\"").await;
    let model = &channel.shell.model;
    model.script(
        "long work",
        Scenario::new().delta("begun ").stall("long").delta("done").then_say("with that too"),
    );
    channel.molecule.say("long work");
    channel.start().await;
    model.wait_for_stall("long").await;
    let seq = channel.molecule.say("and mind the tests");
    let is_taken = |inbox: &[Value]| inbox.len() == 2 && inbox[0]["state"] != "received";
    channel.until_inbox("the steer", is_taken).await;
    model.release("long");
    let state = channel.acked(seq).await;
    assert_eq!(state.notices.len(), 1, "one turn, one reply: {:?}", state.notices);
    let inbox = channel.inbox().await;
    assert_eq!(inbox[0]["delivery_id"], inbox[1]["delivery_id"], "{inbox:?}");
    assert_eq!(inbox[0]["task_id"], inbox[1]["task_id"]);
    let last = model.requests().last().unwrap().body.to_string();
    assert!(last.contains("and mind the tests"), "the model has seen it");
    channel.end().await;
}

// peer: CH17
#[tokio::test]
async fn a_workspace_is_served_by_one_daemon_and_the_second_says_who_has_it() {
    let channel = Channel::new().await;
    channel.start().await;
    channel.molecule.until("a poll", |state| state.polls > 0).await;
    let other = channel.shell.home.dir().join("st2");
    std::fs::create_dir(&other).unwrap();
    let said =
        channel.shell.run(&["--state-dir", other.to_str().unwrap(), "channel", "run", "molecule"]).await;
    assert_ne!(said.code, 0);
    assert!(said.err.contains("is served by the daemon with pid"), "{}", said.err);
    channel.end().await;
}

// peer: CH24
#[tokio::test]
async fn an_old_server_without_marks_is_served_all_the_same() {
    let channel = Channel::new().await;
    channel.molecule.is_old();
    channel.shell.model.script("hello", Scenario::new().say("hi"));
    channel.molecule.say("hello");
    channel.start().await;
    channel.notices(1).await;
    channel.until_inbox("the end of it", |inbox| inbox[0]["state"] == "acknowledged").await;
    channel.end().await;
}
