//! The rules of the inbox as a table: a message, what is known, and what is done in short words.

use std::sync::Arc;
use std::time::Duration;

use codex_session::Ask;

use super::decisions::{Named, Visibility};
use super::*;
use crate::inbox::{About, Allowed, Room, WhileRunning};
use crate::place::Place;
use crate::request::StoredAsk;
use crate::store::conformance::samples;
use crate::task::Parked;

const NOW: TimeMs = 1_700_000_150_000;

/// A message of Ada's, who may decide, in a chat of her own; nothing was done with it.
fn message(kind: MessageKind) -> Message {
    Message {
        party: Party::Person,
        room: Room::Direct,
        kind,
        attempts: 0,
        error: None,
        reply_id: None,
        about: None,
        edits: None,
        attached: Attached::Nothing,
        sent_at: NOW,
        received_at: NOW,
        updated_at: NOW,
        ..samples::message(1, "room")
    }
}

fn prompt() -> Message {
    message(MessageKind::Prompt)
}

/// A message that was given to the task's turn.
fn given(kind: MessageKind, sealed_text: Option<Vec<u8>>) -> Message {
    let updated_at = NOW - 1_000_000;
    let task_id = Some(samples::task_id(1));
    Message { state: Stored::Running, task_id, sealed_text, updated_at, ..message(kind) }
}

fn running() -> Message {
    given(MessageKind::Prompt, None)
}

fn in_doubt() -> Message {
    given(MessageKind::Steer, Some(vec![1]))
}

fn rules() -> Rules {
    let allow = ["ada:approver", "bob"].map(|text| Allowed::parse(text).unwrap());
    let workspaces = [("home".to_owned(), "/srv/home".into()), ("web".to_owned(), "/srv/web".into())];
    Rules::new("chat", allow.into(), workspaces.into())
}

fn task(status: Status) -> Task {
    Task { status, final_text: Some("Done.".to_owned()), ..samples::new_task(1) }
}

/// What is known of a message that says this, in a conversation whose task stands so.
fn facts(text: &str, status: impl Into<Option<Status>>) -> Facts {
    let task = status.into().map(task);
    let conversation = Conversation { workspace: None, ..samples::conversation("room") };
    let task_id = task.as_ref().map(|task| task.id.clone());
    Facts {
        text: Some(text.to_owned()),
        conversation: Some(Conversation { task_id, updated_at: NOW, ..conversation }),
        is_driven: task.as_ref().is_some_and(|task| !task.status.is_finished()),
        task,
        workspace: Some(Ok(("/srv/home".into(), Place { device: 1, inode: 2 }))),
        keep_tasks: Duration::MAX,
        rules: Arc::new(rules()),
        ..Facts::default()
    }
}

fn request(state: RequestState) -> RequestRecord {
    let mut request = samples::request(1, codex_wire::RequestId::Number(7), state);
    let ask = Ask { title: "Let Codex run a command?".to_owned(), ..Ask::default() };
    request.ask = StoredAsk { ask, ..StoredAsk::default() };
    request
}

/// An effect in short words.
fn brief(effect: &Effect) -> String {
    let row = |one: &Message| {
        let text = if one.sealed_text.is_some() { ", sealed" } else { "" };
        let task = if one.task_id.is_some() { ", of task" } else { "" };
        format!("{:?} {}{text}{task}", one.kind, one.state.as_str())
    };
    match effect {
        Effect::Wait(until) => format!("wait {}", until - NOW),
        Effect::Await(task_id) => format!("await {task_id}"),
        Effect::Save(message) => format!("save {}", row(message)),
        Effect::Reply(reply) => {
            let (row, added) = (row(&reply.message), reply.added.len());
            let rewritten = reply.rewritten.as_ref().map(|(_, text)| format!(", rewritten: {text}"));
            format!("reply {row}, {added} added: {}{}", reply.text, rewritten.unwrap_or_default())
        }
        Effect::Tell(id, _, text) => format!("tell {id}: {text}"),
        Effect::Begin(turn) => {
            format!("begin {:?}, asks in {:?}, forgotten: {}", turn.prompt, turn.asks_in, turn.is_forgotten)
        }
        Effect::Steer(message, text) => format!("steer {}: {text}", row(message)),
        Effect::Rewrite(message, text, _) => format!("rewrite {}: {text}", row(message)),
        Effect::Transcribe => "transcribe".to_owned(),
        Effect::Place(cwd, ..) => format!("place files in {}", cwd.display()),
        Effect::Stop(task_id) => format!("stop {task_id}"),
        Effect::Fork(task_id) => format!("fork {task_id}"),
        Effect::Decide(request, decision) => format!("decide {}: {decision:?}", request.request_id),
        Effect::Decline(request) => format!("decline {}", request.request_id),
    }
}

/// Each effect begins with these words, and there is no other.
#[track_caller]
fn check(message: &Message, facts: &Facts, expected: &[&str]) {
    let done: Vec<String> = step(message, facts, NOW).iter().map(brief).collect();
    let is_so =
        done.len() == expected.len() && done.iter().zip(expected).all(|(one, so)| one.starts_with(so));
    assert!(is_so, "{done:#?} instead of {expected:#?}");
}

#[test]
fn a_prompt_begins_a_turn_unless_its_task_is_under_way() {
    check(
        &prompt(),
        &facts("look", None),
        &["begin \"look\", asks in Some(\"chat:room\"), forgotten: false"],
    );
    check(&prompt(), &facts("/queue look", Status::Completed), &["begin \"look\", asks in Some"]);
    check(&prompt(), &facts("look", Status::Working), &["await codex-"]);
    let bob = Message { sender_id: "bob".to_owned(), ..prompt() };
    check(&bob, &facts("look", None), &["begin \"look\", asks in None"]);
    let agent = Message { party: Party::Agent, ..prompt() };
    check(&agent, &facts("/queue look", None), &["begin \"/queue look\", asks in None"]);
    let Effect::Begin(turn) = step(&agent, &facts("look", None), NOW).remove(0) else { panic!() };
    assert!(turn.settings.developer_instructions.unwrap().contains("another agent"));
    assert_eq!(turn.message.state, Stored::Running);
    assert!(turn.message.sealed_text.is_some(), "it may have to be tried again");
}

#[test]
fn a_conversation_that_outlived_its_task_says_so_with_its_next_turn() {
    let mut old = facts("look", None);
    (old.conversation.as_mut().unwrap().updated_at, old.keep_tasks) = (0, Duration::from_secs(1));
    check(&prompt(), &old, &["begin \"look\", asks in Some(\"chat:room\"), forgotten: true"]);
}

#[test]
fn what_fails_for_now_is_tried_again_and_given_up_in_the_end() {
    let missing = |failure| Facts { workspace: Some(Err(failure)), ..facts("look", None) };
    let later = missing(Failure::Transient("it is away".to_owned()));
    check(&prompt(), &later, &["save Prompt received, sealed", "wait 2000"]);
    let last = Message { attempts: 4, ..prompt() };
    check(
        &last,
        &later,
        &["reply Prompt dead, sealed, 0 added: Nothing could be done with this message: it is away"],
    );
    let never = missing(Failure::Permanent("there is none".to_owned()));
    check(&prompt(), &never, &["reply Prompt dead, sealed, 0 added: Nothing could be done"]);
    check(&prompt(), &Facts { text: None, ..facts("", None) }, &["reply Prompt dead, sealed"]);
    let nowhere = Facts { workspace: None, ..facts("look", None) };
    check(&prompt(), &nowhere, &["save Prompt received, sealed", "wait 2000"]);
    check(&last, &nowhere, &["reply Prompt dead, sealed, 0 added: Nothing could be done"]);
    let pauses = [1, 2, 3, 9, 10, u32::MAX].map(pause_ms);
    assert_eq!(pauses, [2_000, 4_000, 8_000, 512_000, 512_000, 512_000]);
}

#[test]
fn what_the_desk_refuses_is_answered_and_never_tried_again() {
    let refused = Failure::Refused("Not allowed.".to_owned());
    let refused = Facts { outcome: Some(Outcome::Failed(refused)), ..facts("look", None) };
    check(&prompt(), &refused, &["reply Prompt answered, 0 added: Not allowed."]);
    check(&in_doubt(), &refused, &["reply Steer answered, of task, 0 added: Not allowed."]);
    check(&Message { state: Stored::Answered, ..prompt() }, &refused, &[]);
}

#[test]
fn words_are_recorded_before_they_are_given_to_the_running_turn() {
    let steer = message(MessageKind::Steer);
    check(&steer, &facts("/steer look", Status::Working), &["steer Steer running, sealed, of task: look"]);
    check(&steer, &facts("/steer look", Status::Completed), &["save Prompt received, sealed"]);
    check(&steer, &facts("/steer look", None), &["save Prompt received, sealed"]);
    let late = Message { sent_at: NOW - MOMENT_MS - 1, ..steer };
    check(
        &late,
        &facts("/steer look", Status::Working),
        &["reply Steer answered, 0 added: That was written too long ago"],
    );
    check(&late, &facts("look", Status::Working), &["steer Steer running, sealed, of task: look"]);
}

#[test]
fn what_codex_says_of_words_decides_and_else_its_log_once_the_turn_is_over() {
    let said = |outcome| Facts { outcome: Some(Outcome::Steered(outcome)), ..facts("look", Status::Working) };
    check(&in_doubt(), &said(SteerOutcome::Accepted), &["save Steer running, of task"]);
    let refused = [
        "tell dlv-in-000000000001-refused: Codex did not accept the text",
        "save Prompt received, sealed, of task",
    ];
    check(&in_doubt(), &said(SteerOutcome::NotSteerable), &refused);
    let of_agent = Message { party: Party::Agent, ..in_doubt() };
    check(&of_agent, &said(SteerOutcome::NotSteerable), &refused[1..]);
    let not_allowed = Some(Outcome::NotAddable("the owner's".to_owned()));
    let not_allowed = Facts { outcome: not_allowed, ..facts("look", Status::Working) };
    check(
        &in_doubt(),
        &not_allowed,
        &["tell dlv-in-000000000001-refused: the owner's. Your message", refused[1]],
    );
    check(&in_doubt(), &said(SteerOutcome::NoActiveTurn), &["await codex-"]);
    check(&in_doubt(), &facts("look", Status::Completed), &["save Prompt received, sealed"]);
    check(
        &in_doubt(),
        &facts("look", Status::Lost),
        &["reply Steer answered, of task, 0 added: It is not known"],
    );
    for status in [Status::Completed, Status::Failed] {
        let found = Facts { was_steered: true, ..facts("look", status) };
        check(&in_doubt(), &found, &["save Steer running, of task"]);
    }
}

#[test]
fn a_running_message_whose_task_was_removed_is_given_up() {
    let forgotten =
        |row: &str| format!("reply {row}, 0 added: Nothing could be done with this message: the task");
    let rows = [
        (running(), "Prompt dead"),
        (given(MessageKind::Steer, None), "Steer dead"),
        (in_doubt(), "Steer dead, sealed"),
    ];
    for (message, row) in rows {
        // The store takes the name of a task away from its messages when it removes the task.
        let nameless = Message { task_id: None, ..message.clone() };
        check(&nameless, &facts("look", None), &[&forgotten(row)]);
        check(&message, &facts("look", None), &[&forgotten(&format!("{row}, of task"))]);
    }
}

#[test]
fn the_end_of_a_turn_answers_its_message_and_all_that_was_added() {
    let added = given(MessageKind::Steer, None);
    let of_task = vec![added.clone(), in_doubt(), running()];
    let over = Facts { of_task, ..facts("", Status::Completed) };
    check(&running(), &over, &["reply Prompt answered, of task, 1 added: Done."]);
    check(&added, &over, &[]);
    let answered = Facts { reply_id: Some(DeliveryId("dlv-1".to_owned())), ..facts("", Status::Completed) };
    check(&added, &answered, &["save Steer answered, of task"]);
    check(&added, &facts("", Status::Working), &[]);
    check(&running(), &facts("", Status::Working), &[]);
    let mut parked = facts("", Status::Paused);
    parked.task.as_mut().unwrap().parked = Some(Parked::Login { seen: String::new(), carries_notice: false });
    let waits = ["tell dlv-in-000000000001-waits: This waits"];
    check(&running(), &parked, &waits);
    check(&added, &parked, &[]);
}

#[test]
fn where_nobody_may_decide_all_is_declined_and_else_people_hear_what_is_closed() {
    let asked = |state| {
        let mut facts = facts("", Status::Working);
        facts.requests = vec![request(state)];
        facts.told = vec![facts.requests[0].request_id.clone()];
        facts
    };
    let asking = |state| {
        let mut facts = asked(state);
        facts.task.as_mut().unwrap().asks_in = Some("chat:room".to_owned());
        facts
    };
    let (ada, bob) = (running(), Message { sender_id: "bob".to_owned(), ..running() });
    check(&ada, &asked(RequestState::Open), &["decline request-7"]);
    check(&bob, &asking(RequestState::Open), &["decline request-7"]);
    check(&ada, &asking(RequestState::Open), &[]);
    check(&ada, &asking(RequestState::Expired), &["tell dlv-request-7-closed: No longer open"]);
    check(&ada, &Facts { told: Vec::new(), ..asking(RequestState::Expired) }, &[]);
    let later = Message { updated_at: NOW, ..ada.clone() };
    check(&later, &asking(RequestState::Orphaned), &[]);
    let failed_since = Facts { begun_at: Some(0), ..asking(RequestState::Orphaned) };
    check(&later, &failed_since, &["tell dlv-request-7-closed: No longer open"]);
    let mut declined = asked(RequestState::Resolved);
    declined.requests[0].decided_by = Some(NO_APPROVER.to_owned());
    declined.task.as_mut().unwrap().status = Status::Completed;
    let told = "reply Prompt answered, of task, 0 added: Done.\n\nDeclined, since nobody here may decide";
    check(&ada, &declined, &[told]);
}

#[test]
fn only_the_very_next_message_is_added_to_a_turn_and_never_one_that_is_to_wait() {
    let behind = |next: Message, text: &str| {
        let rules = Arc::new(Rules { while_running: WhileRunning::Steer, ..rules() });
        let waiting = vec![message(MessageKind::UrgentCommand), next, prompt()];
        Facts { rules, waiting, next_text: Some(text.to_owned()), ..facts("", Status::Working) }
    };
    check(&running(), &behind(prompt(), "and this"), &["save Steer received, sealed"]);
    check(&running(), &behind(prompt(), "/queue and this"), &[]);
    check(&running(), &behind(message(MessageKind::Command), "/new"), &[]);
    let just_changed = Message { updated_at: NOW, ..running() };
    check(&just_changed, &behind(prompt(), "it was there before"), &[]);
    let failed_since = Facts { begun_at: Some(NOW - 1), ..behind(prompt(), "and this") };
    check(&just_changed, &failed_since, &["save Steer received, sealed"]);
    check(&running(), &behind(Message { task_id: Some(samples::task_id(1)), ..prompt() }, "and this"), &[]);
    check(&running(), &Facts { next_text: None, ..behind(prompt(), "") }, &[]);
    check(&running(), &Facts { is_driven: false, ..behind(prompt(), "and this") }, &[]);
    check(&running(), &Facts { rules: Arc::new(rules()), ..behind(prompt(), "and this") }, &[]);
}

#[test]
fn commands_are_answered_and_change_the_conversation_with_their_reply() {
    let urgent = message(MessageKind::UrgentCommand);
    let said = |text: &str| format!("reply UrgentCommand answered, 0 added: {text}");
    let check = |text: &str, status: Option<Status>, expected: &str| {
        super::tests::check(&urgent, &facts(text, status), &[expected]);
    };
    check("/help", None, &said("Write what Codex should do, or"));
    check("/stauts", None, &said("There is no command /stauts."));
    check("/status", None, &said("Codex has done nothing here yet."));
    let asked = Facts { last_prompt: Some("mow the lawn".to_owned()), ..facts("/status", Status::Completed) };
    let status = format!("{} in home: completed\nLast asked: mow the lawn", samples::task_id(1).short());
    super::tests::check(&urgent, &asked, &[&said(&status)]);
    check("/queue", None, &said("Nothing waits."));
    check("/project", None, &said("Codex can work in: home (here), web"));
    check("/usage", Some(Status::Completed), &said("0 turns, 0 s of work, 0 tokens"));
    check("/diff", Some(Status::Completed), &said("The last turn changed nothing."));
    check("/stop", None, &said("Codex has done nothing here yet."));
    check("/stop", Some(Status::Working), "stop codex-");
    for (command, workspace) in [("/new", None), ("/project web", Some("web"))] {
        let effects = step(&message(MessageKind::Command), &facts(command, Status::Completed), NOW);
        let [Effect::Reply(reply)] = effects.as_slice() else { panic!("{effects:?}") };
        let changed = reply.conversation.as_ref().unwrap();
        assert_eq!((changed.task_id.as_ref(), changed.workspace.as_deref()), (None, workspace), "{command}");
    }
}

#[test]
fn what_came_of_a_command_is_worded_and_an_old_one_is_not_carried_out() {
    let urgent = message(MessageKind::UrgentCommand);
    let after = |text: &str, outcome| Facts { outcome: Some(outcome), ..facts(text, Status::Working) };
    let stopped = |status| Outcome::Stopped(Some(Box::new(task(status))));
    let is = format!("reply UrgentCommand answered, 0 added: {} is cancelled.", samples::task_id(1));
    check(&urgent, &after("/stop", stopped(Status::Cancelled)), &[&is]);
    let begins =
        format!("reply UrgentCommand answered, 0 added: {} was stopped. The next", samples::task_id(1));
    check(&urgent, &after("/stop", stopped(Status::Queued)), &[&begins]);
    let nothing = "reply UrgentCommand answered, 0 added: Nothing runs.";
    check(&urgent, &after("/stop", Outcome::Stopped(None)), &[nothing]);
    let late = Message { sent_at: NOW - MOMENT_MS - 1, ..urgent };
    let too_late = "reply UrgentCommand answered, 0 added: That was written too long ago";
    for text in ["/stop", "/approve", "/deny", "/answer req-1 blue"] {
        check(&late, &facts(text, Status::Working), &[too_late]);
    }
    check(&late, &facts("/status", None), &["reply UrgentCommand answered, 0 added: Codex has done nothing"]);
}

#[test]
fn an_answer_that_takes_defaults_needs_a_form_that_was_shown_whole() {
    let urgent = message(MessageKind::UrgentCommand);
    let asked = |fields: serde_json::Value, visibility: Visibility| {
        let mut facts = facts("/answer request-7 name=x", Status::Working);
        let mut open = request(RequestState::Open);
        let ask: Ask =
            serde_json::from_value(serde_json::json!({"kind": "form", "title": "?", "fields": fields}))
                .unwrap();
        open.ask = StoredAsk { ask, ..StoredAsk::default() };
        facts.visibilities.insert(open.request_id.clone(), visibility);
        (facts.named, facts.requests) = (Named::One(Box::new(open.clone())), vec![open]);
        facts
    };
    let plain = || serde_json::json!([{"name": "name", "type": "string"}]);
    let hidden = || serde_json::json!([{"name": "name", "type": "string"}, {"name": "all", "type": "boolean", "default": true}]);
    let answered = "decide request-7: Form";
    check(&urgent, &asked(plain(), Visibility::None), &[answered]);
    check(&urgent, &asked(hidden(), Visibility::Whole), &[answered]);
    let refused = "reply UrgentCommand answered, 0 added: request-7 is not approved: it could not be";
    check(&urgent, &asked(hidden(), Visibility::Part), &[refused]);
}

#[test]
fn a_yes_in_words_needs_an_approver_and_that_the_request_was_shown_whole() {
    let urgent = message(MessageKind::UrgentCommand);
    let asked = |text: &str, visibility: Option<Visibility>| {
        let mut facts = facts(text, Status::Working);
        let open = request(RequestState::Open);
        facts.visibilities.extend(visibility.map(|visibility| (open.request_id.clone(), visibility)));
        (facts.named, facts.requests) = (Named::One(Box::new(open.clone())), vec![open]);
        facts
    };
    let said = |text: &str| format!("reply UrgentCommand answered, 0 added: {text}");
    for yes in ["/approve", "/approve request-7", "/approve request-7.0123456789abcdef"] {
        check(&urgent, &asked(yes, Some(Visibility::Whole)), &["decide request-7: Accept"]);
        check(&urgent, &asked(yes, Some(Visibility::After)), &[&said("request-7 was shown here only after")]);
        check(
            &urgent,
            &asked(yes, Some(Visibility::Part)),
            &[&said("request-7 is not approved: it could not be")],
        );
        check(&urgent, &asked(yes, None), &[&said("request-7 is not approved: it has not been shown here")]);
    }
    check(&urgent, &asked("/deny", None), &["decide request-7: Decline"]);
    let other = "/approve request-7.fedcba9876543210";
    check(
        &urgent,
        &asked(other, Some(Visibility::Whole)),
        &[&said("request-7 is not approved: this belongs to an earlier")],
    );
    let bob = Message { sender_id: "bob".to_owned(), ..urgent.clone() };
    check(&bob, &asked("/approve", Some(Visibility::Whole)), &[&said(decisions::MAY_NOT)]);
    let unknown = Facts { named: Named::Nothing, ..asked("/approve request-9", Some(Visibility::Whole)) };
    check(&urgent, &unknown, &[&said("There is no request request-9 in this conversation.")]);
    for text in ["/approve req-1", "/deny req-1", "/approve req-1.0123456789abcdef", "/answer req-1 blue"] {
        let several = Facts { named: Named::Several, ..asked(text, Some(Visibility::Whole)) };
        check(&urgent, &several, &[&said("Several requests begin with req-1: write more of the id.")]);
    }
    let none = Facts { requests: Vec::new(), ..asked("/approve", None) };
    check(&urgent, &none, &[&said("There is no open request in this conversation.")]);
    let mut two = asked("/deny", None);
    two.requests.push(request(RequestState::Open));
    check(&urgent, &two, &[&said("Several requests are open, say which one: request-7, request-7")]);
    check(&urgent, &asked("/answer request-7 blue", None), &[&said("request-7 is not a question.")]);
}

/// A reply to the message that showed the request, or a comment on it.
fn about(about: fn(crate::request::RequestName) -> About) -> Message {
    Message { about: Some(about("request-7".into())), ..message(MessageKind::Response) }
}

fn asking(text: &str, ask: serde_json::Value, state: RequestState) -> Facts {
    let mut open = request(state);
    open.ask = StoredAsk { ask: serde_json::from_value(ask).unwrap(), ..StoredAsk::default() };
    let requests = if state == RequestState::Open { vec![open.clone()] } else { Vec::new() };
    Facts { named: Named::One(Box::new(open)), requests, ..facts(text, Status::Working) }
}

#[test]
fn a_reply_to_a_question_answers_it_and_a_reply_to_an_approval_decides_nothing() {
    let question = serde_json::json!({"kind": "questions", "questions": [{"id": "colour"}]});
    let command = serde_json::json!({"kind": "command", "title": "Let Codex run a command?"});
    let reply = about(About::Reply);
    check(&reply, &asking("blue", question.clone(), RequestState::Open), &["decide request-7: Answers"]);
    let waits = "reply Response answered, 0 added: Codex waits for your decision above: Let Codex run a command? A word";
    check(&reply, &asking("yes", command.clone(), RequestState::Open), &[waits]);
    for (text, state) in [("why?", RequestState::Open), ("yes", RequestState::Resolved)] {
        check(&reply, &asking(text, command.clone(), state), &["save Prompt received, sealed"]);
    }
    let unknown = Facts { named: Named::Nothing, ..asking("blue", command, RequestState::Open) };
    check(&reply, &unknown, &["save Prompt received, sealed"]);
    let bob = Message { sender_id: "bob".to_owned(), ..reply };
    let may_not = format!("reply Response answered, 0 added: {}", decisions::MAY_NOT);
    check(&bob, &asking("blue", question, RequestState::Open), &[&may_not]);
}

#[test]
fn a_yes_while_something_is_asked_is_no_prompt_and_otherwise_one() {
    let yes = message(MessageKind::Response);
    let asked = Facts { requests: vec![request(RequestState::Open)], ..facts("yes", Status::Working) };
    check(&yes, &asked, &["reply Response answered, 0 added: Codex waits for your decision above"]);
    check(&yes, &facts("yes", Status::Working), &["save Prompt received, sealed"]);
    check(&yes, &facts("yes", None), &["save Prompt received, sealed"]);
}

/// A comment that waits to be given to Codex.
fn comment() -> Message {
    Message { about: about(About::Comment).about, ..message(MessageKind::Steer) }
}

/// A comment that was given to Codex, without a word whether Codex took it.
fn comment_in_doubt() -> Message {
    Message { about: comment().about, ..in_doubt() }
}

#[test]
fn a_comment_reaches_codex_before_its_request_is_declined() {
    let command = serde_json::json!({"kind": "command"});
    let facts = |state| asking("use the other file", command.clone(), state);
    check(&about(About::Comment), &facts(RequestState::Open), &["save Steer received, sealed"]);
    let waits = comment();
    let given = "steer Steer running, sealed, of task: use the other file";
    check(&waits, &facts(RequestState::Open), &[given]);
    let late = "reply Steer answered, 0 added: This is no longer open. Your comment was not given to Codex. Write it again";
    check(&waits, &facts(RequestState::Resolved), &[late]);
    check(&waits, &Facts { named: Named::Nothing, ..facts(RequestState::Open) }, &[late]);
    let comment = comment_in_doubt();
    let taken =
        Facts { outcome: Some(Outcome::Steered(SteerOutcome::Accepted)), ..facts(RequestState::Open) };
    check(&comment, &taken, &["save Steer running, of task", "decide request-7: Decline"]);
    let given = Message { sealed_text: None, ..comment.clone() };
    check(&given, &facts(RequestState::Open), &["decide request-7: Decline"]);
    check(&given, &facts(RequestState::Decided), &[]);
    let bob = Message { sender_id: "bob".to_owned(), ..waits };
    check(&bob, &facts(RequestState::Open), &["reply Steer answered, 0 added: You may not decide"]);
}

#[test]
fn a_new_version_replaces_what_waits_and_is_told_later() {
    let edit = Message { edits: Some("external-0".to_owned()), ..message(MessageKind::Edit) };
    let of = |original: Message, present: Option<&str>| Facts {
        edited: Some(Box::new((original, present.map(str::to_owned)))),
        ..facts("look there", Status::Working)
    };
    let taken = "reply Edit answered, 0 added: Your change was taken over: Codex gets the new text., rewritten: look there";
    check(&edit, &of(prompt(), Some("look here")), &[taken]);
    check(&edit, &of(prompt(), Some("look there")), &["save Edit answered"]);
    let late = "reply Edit answered, 0 added: Codex already has this message as it was.";
    check(&edit, &of(running(), Some("look here")), &[late]);
    check(
        &edit,
        &of(Message { state: Stored::Answered, summary: "look here".into(), ..prompt() }, None),
        &[late],
    );
    check(
        &edit,
        &of(message(MessageKind::Command), Some("/new")),
        &["reply Edit answered, 0 added: Only messages"],
    );
    let with_files = Message { attached: Attached::Files, ..prompt() };
    check(
        &edit,
        &of(with_files, Some("look here")),
        &["reply Edit answered, 0 added: A message with files cannot be changed."],
    );
    let of_bob = Message { sender_id: "bob".to_owned(), ..prompt() };
    check(&edit, &of(of_bob, Some("look here")), &["save Edit answered"]);
    let command = Facts { text: Some("/stop".to_owned()), ..of(prompt(), Some("look here")) };
    check(&edit, &command, &["reply Edit answered, 0 added: A command is not carried out"]);
    check(&edit, &facts("@bot look", None), &["save Prompt received, sealed"]);
    let limited = Arc::new(Rules { max_age: Some(Duration::from_secs(1)), ..rules() });
    let past_limit = Message { sent_at: NOW - 1_001, ..edit.clone() };
    check(&past_limit, &Facts { rules: limited, ..facts("@bot look", None) }, &[late]);
    let old = Message { sent_at: NOW - MOMENT_MS - 1, ..edit };
    check(&old, &facts("@bot look", None), &[late]);
}

#[test]
fn an_agent_is_told_nothing_of_the_versions_of_its_message() {
    let of_agent = |message: Message| Message { party: Party::Agent, ..message };
    let edit = of_agent(Message { edits: Some("external-0".to_owned()), ..message(MessageKind::Edit) });
    let of = |original: Message| Facts {
        edited: Some(Box::new((of_agent(original), Some("look here".to_owned())))),
        ..facts("look there", Status::Working)
    };
    check(&edit, &of(prompt()), &["rewrite Prompt received, sealed: look there", "save Edit answered"]);
    check(&edit, &of(running()), &["save Edit answered"]);
    check(&edit, &facts("look there", None), &["save Edit answered"]);
}

#[test]
fn what_failed_can_be_tried_again_with_its_text() {
    let text_stays = Message { sealed_text: Some(vec![1]), ..running() };
    let failed = facts("", Status::Failed);
    check(&text_stays, &failed, &["reply Prompt answered, sealed, of task, 0 added: "]);
    check(&text_stays, &facts("", Status::Completed), &["reply Prompt answered, of task, 0 added: Done."]);
    let retry = message(MessageKind::Command);
    let known =
        Facts { failed: Some(Box::new((prompt(), "look".to_owned()))), ..facts("/retry", Status::Failed) };
    check(&retry, &known, &["rewrite Prompt received, sealed: look"]);
    check(
        &retry,
        &facts("/retry", Status::Failed),
        &["reply Command answered, 0 added: Nothing that failed"],
    );
}

#[test]
fn a_conversation_chooses_among_what_the_operator_lists() {
    let changed = |text: &str, facts: Facts| {
        let effects = step(&message(MessageKind::Command), &facts, NOW);
        let [Effect::Reply(reply)] = effects.as_slice() else { panic!("{text}: {effects:?}") };
        (reply.text.clone(), reply.conversation.clone())
    };
    let listed = |text: &str| {
        let rules = Arc::new(Rules { models: vec!["gpt-small".to_owned()], ..rules() });
        Facts { rules, ..facts(text, None) }
    };
    let (_, small) = changed("model", listed("/model gpt-small"));
    assert_eq!(small.unwrap().model.as_deref(), Some("gpt-small"));
    let (text, none) = changed("model", listed("/model gpt-huge"));
    assert!(text.contains("cannot be chosen here") && text.contains("gpt-small") && none.is_none(), "{text}");
    let (_, high) = changed("effort", listed("/effort high"));
    assert_eq!(high.unwrap().effort.as_deref(), Some("high"));
    assert!(changed("effort", listed("/effort much")).1.is_none());
    let mut chosen = facts("look", None);
    chosen.conversation.as_mut().unwrap().model = Some("gpt-small".to_owned());
    let Effect::Begin(turn) = step(&prompt(), &chosen, NOW).remove(0) else { panic!() };
    assert_eq!(turn.settings.model, None, "the operator took it off the list");
    chosen.rules = listed("").rules;
    let Effect::Begin(turn) = step(&prompt(), &chosen, NOW).remove(0) else { panic!() };
    assert_eq!(turn.settings.model.as_deref(), Some("gpt-small"));
}

#[test]
fn a_conversation_goes_on_with_its_own_tasks_and_with_those_of_its_workspaces() {
    let known = |workspace: Option<&str>| KnownTask {
        task: task(Status::Completed),
        workspace: workspace.map(str::to_owned),
    };
    let of = |text: &str, known: KnownTask| Facts {
        tasks: vec![known.clone()],
        resumed: Some(known),
        ..facts(text, None)
    };
    let changed = |facts: &Facts| {
        let effects = step(&message(MessageKind::Command), facts, NOW);
        let [Effect::Reply(reply)] = effects.as_slice() else { panic!("{effects:?}") };
        let changed = reply.conversation.clone().unwrap();
        (changed.task_id, changed.workspace)
    };
    let web = || Some("web".to_owned());
    assert_eq!(changed(&of("/switch 1", known(Some("web")))), (Some(samples::task_id(1)), web()));
    let nowhere =
        "reply Command answered, 0 added: That task works in a directory that this channel does not have";
    for text in ["/switch 1", "/resume codex-1"] {
        check(&message(MessageKind::Command), &of(text, known(None)), &[nowhere]);
    }
    let there = of("/resume codex-1", known(Some("web")));
    check(&message(MessageKind::Command), &there, &[&format!("fork {}", samples::task_id(1))]);
    let branch = Task { id: samples::task_id(2), ..task(Status::Paused) };
    let forked = Facts { outcome: Some(Outcome::Forked(Ok(Box::new(branch)))), ..there.clone() };
    assert_eq!(changed(&forked), (Some(samples::task_id(2)), web()));
    let failed =
        Facts { outcome: Some(Outcome::Forked(Err("it is not finished".to_owned()))), ..there.clone() };
    let told = "reply Command answered, 0 added: This task cannot be continued here: it is not finished.";
    check(&message(MessageKind::Command), &failed, &[told]);
    let bob = Message { sender_id: "bob".to_owned(), ..message(MessageKind::Command) };
    check(&bob, &there, &["reply Command answered, 0 added: Only approvers may continue a task"]);
    check(
        &message(MessageKind::Command),
        &of("/switch 2", known(Some("web"))),
        &["reply Command answered, 0 added: There is no such number.\n1. "],
    );
    let unknown = Facts { resumed: None, ..there };
    check(
        &message(MessageKind::Command),
        &unknown,
        &["reply Command answered, 0 added: There is no such task"],
    );
}

#[test]
fn a_comment_declines_its_request_although_it_is_not_known_whether_codex_took_the_comment() {
    let asked = asking("use the other file", serde_json::json!({"kind": "command"}), RequestState::Open);
    let done = |outcome| {
        let facts = Facts { outcome, ..asked.clone() };
        step(&comment_in_doubt(), &facts, NOW).iter().map(brief).collect::<Vec<_>>()
    };
    let outcomes = [
        // The daemon died, or the connection broke, between the words and Codex's answer.
        None,
        Some(Outcome::Steered(SteerOutcome::Failed("no".to_owned()))),
        Some(Outcome::Steered(SteerOutcome::Unconfirmed("lost".to_owned()))),
        Some(Outcome::Steered(SteerOutcome::NoActiveTurn)),
    ];
    let all: Vec<_> = outcomes.into_iter().map(done).collect();
    assert!(
        all.iter().all(|effects| effects.iter().any(|one| one.starts_with("decide"))),
        "the turn waits for the decision, and the decision for the end of the turn: {all:#?}"
    );
}

#[test]
fn a_comment_on_a_request_of_another_task_reaches_neither_the_wrong_task_nor_a_turn_of_its_own() {
    // `--notify chat:room` put a request of task 2 before people; their own conversation works on task 1.
    let mut other = request(RequestState::Open);
    other.task_id = samples::task_id(2);
    let of = |status| Facts { named: Named::One(Box::new(other.clone())), ..facts("not that file", status) };
    let steer = Message { about: about(About::Comment).about, ..message(MessageKind::Steer) };
    let given: Vec<String> = step(&steer, &of(Status::Working), NOW).iter().map(brief).collect();
    let alone: Vec<String> = step(&steer, &of(Status::Completed), NOW).iter().map(brief).collect();
    assert!(
        alone.iter().any(|one| one.starts_with("decide")),
        "no turn runs here: the request stays open, and the comment becomes a prompt: {alone:#?}"
    );
    assert!(given.iter().all(|one| !one.starts_with("steer")), "into task 1: {given:#?}");
}

#[test]
fn a_comment_that_codex_refused_declines_its_request_and_its_author_is_told() {
    let asked = asking("use the other file", serde_json::json!({"kind": "command"}), RequestState::Open);
    let refused =
        [Outcome::Steered(SteerOutcome::NotSteerable), Outcome::NotAddable("the owner's".to_owned())];
    for outcome in refused {
        let facts = Facts { outcome: Some(outcome), ..asked.clone() };
        check(&comment_in_doubt(), &facts, &["save Steer received, sealed, of task"]);
    }
    let refused = Message { task_id: Some(samples::task_id(1)), ..comment() };
    check(&refused, &asked, &["decide request-7: Decline"]);
    let verdict = decisions::Verdict::Taken { text: "Declined: Codex has it.".to_owned() };
    let decided = Facts { outcome: Some(Outcome::Decided(verdict)), ..asked };
    let told = "reply Steer answered, of task, 0 added: Declined: Codex has it. Your comment was not given to Codex.";
    check(&refused, &decided, &[told]);
}

#[test]
fn a_comment_waits_for_no_other_message_and_no_other_message_for_a_comment() {
    let response = about(About::Comment);
    for comment in [&response, &comment(), &comment_in_doubt()] {
        assert!(!comment.holds_others() && !comment.waits_in_line(), "{comment:?}");
    }
}

#[test]
fn a_new_version_of_a_message_that_was_not_for_the_bot_is_the_command_that_it_says() {
    let edit = Message { edits: Some("external-0".to_owned()), ..message(MessageKind::Edit) };
    check(&edit, &facts("/stop", Status::Working), &["save UrgentCommand received"]);
    check(&edit, &facts("/steer look there", Status::Working), &["save Steer received"]);
    check(&edit, &facts("yes", Status::Working), &["save Response received"]);
}

#[test]
fn an_answer_whose_reply_was_not_stored_before_a_crash_does_not_become_a_turn() {
    let question = serde_json::json!({"kind": "questions", "questions": [{"id": "colour"}]});
    for state in [RequestState::Decided, RequestState::Resolved] {
        let mut facts = asking("blue", question.clone(), state);
        let Named::One(request) = &mut facts.named else { panic!() };
        // The decision of this very message: it is stored, and the daemon died before the reply was.
        request.decided_by = Some("chat:ada".to_owned());
        let done: Vec<String> = step(&about(About::Reply), &facts, NOW).iter().map(brief).collect();
        assert!(done.iter().all(|one| !one.starts_with("save Prompt")), "{state:?}: {done:#?}");
    }
}
