use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::inbox::{Context, Room, Sender};
use crate::store::conformance::samples;

const NOW: TimeMs = 10_000;

/// A message of an agent on a channel that puts messages off, just sent.
fn of_agent() -> (Message, Rules, IntakeFacts) {
    let rules = Rules { when_full: WhenFull::PutOff, ..Rules::new("chat", Vec::new(), BTreeMap::new()) };
    let message = Message { hops: 0, sent_at: NOW, ..samples::message(1, "room") };
    (message, rules, IntakeFacts { limit_bytes: 100, ..IntakeFacts::default() })
}

fn check(change: impl FnOnce(&mut Message, &mut Rules, &mut IntakeFacts), bytes: usize, expected: &str) {
    let (mut message, mut rules, mut facts) = of_agent();
    change(&mut message, &mut rules, &mut facts);
    let admission = format!("{:?}", admit(&message, bytes, &rules, &facts, NOW));
    assert!(admission.contains(expected), "{admission} is not {expected}");
}

#[test]
fn what_is_old_far_travelled_or_one_too_many_is_kept_in_silence() {
    check(|_, _, _| {}, 100, "Take");
    check(|_, rules, _| rules.max_age = Some(Duration::ZERO), 1, "Take");
    let old = |message: &mut Message, rules: &mut Rules, _: &mut IntakeFacts| {
        (message.sent_at, rules.max_age) = (NOW - 3_001, Some(Duration::from_secs(3)));
    };
    check(old, 1, "it was too old: 3 s when it came in; the limit is 3 s\", said: None");
    check(|message, _, _| message.hops = 2, 1, "it was already forwarded by 2 bridges");
    check(|_, _, facts| facts.of_agent_lately = 30, 1, "30 times within an hour; the limit is 30");
    let of_person = |message: &mut Message, _: &mut Rules, facts: &mut IntakeFacts| {
        (message.party, message.hops) = (Party::Person, 9);
        (facts.of_agent_lately, facts.of_agents_in_a_row) = (99, 999);
    };
    check(of_person, 1, "Take");
}

#[test]
fn agents_that_go_on_too_long_are_told_once() {
    check(|_, _, facts| facts.of_agents_in_a_row = 100, 1, "said: Some(\"Agents have written");
    let again = |_: &mut Message, _: &mut Rules, facts: &mut IntakeFacts| {
        (facts.of_agents_in_a_row, facts.last_error) = (100, Some(ENDLESS.to_owned()));
    };
    check(again, 1, "said: None, keeps_text: true");
}

#[test]
fn what_is_too_long_is_refused_whole_and_its_sender_hears_why() {
    check(|_, _, _| {}, 101, "was not taken: it has 101 bytes; the limit is 100");
    check(|_, _, _| {}, 101, "keeps_text: false");
}

#[test]
fn without_room_a_message_is_put_off_unless_it_is_urgent_or_its_source_waits() {
    let full = |facts: &mut IntakeFacts| facts.waiting_here = 200;
    check(|_, _, facts| full(facts), 1, "Defer");
    check(|_, _, facts| facts.waiting_in_all = 5_000, 1, "Defer");
    check(|_, _, facts| facts.is_behind = true, 1, "Defer");
    let urgent = |message: &mut Message, _: &mut Rules, facts: &mut IntakeFacts| {
        message.kind = MessageKind::UrgentCommand;
        full(facts);
    };
    check(urgent, 1, "Take");
    let read = |_: &mut Message, rules: &mut Rules, facts: &mut IntakeFacts| {
        rules.when_full = WhenFull::ReadLater;
        full(facts);
    };
    check(read, 1, "Take");
}

fn arrival(text: &str, context: Context) -> Arrival {
    let far = Content::AtSource { reference: "f".into(), bytes: None, is_speech: false };
    Arrival {
        external_id: "m-1".into(),
        conversation: "room".into(),
        sender: Sender { id: "ada".into(), name: "Ada".into(), party: Party::Person },
        room: Room::Direct,
        text: text.into(),
        reply_to: "chat:room".into(),
        position: None,
        sent_at: NOW,
        context,
        attachments: vec![Attachment { kind: "photo".into(), name: String::new(), content: far }],
    }
}

#[test]
fn a_message_with_files_is_a_prompt_unless_it_is_a_command_or_an_answer() {
    let about = || Context { about: Some(About::Reply("req-1".into())), ..Context::default() };
    let check = |text: &str, context: Context, expected: MessageKind| {
        assert_eq!(kind_of(&arrival(text, context)), expected, "{text}");
    };
    check("", Context::default(), MessageKind::Prompt);
    check("yes", Context::default(), MessageKind::Prompt);
    check("/steer look", Context::default(), MessageKind::Prompt);
    check("/queue look", Context::default(), MessageKind::Prompt);
    check("/status", Context::default(), MessageKind::UrgentCommand);
    check("/new", Context::default(), MessageKind::Command);
    check("the blue one", about(), MessageKind::Response);
    check("", about(), MessageKind::Prompt);
    let edits = Context { edits: Some("m-0".into()), ..Context::default() };
    check("look", edits, MessageKind::Edit);
}

#[test]
fn files_are_fetched_only_for_who_may_write_and_only_for_what_is_worked_on() {
    let allow = vec![crate::inbox::Allowed::parse("ada").unwrap()];
    let max_age = Some(Duration::from_secs(3));
    let rules = Rules { max_age, ..Rules::new("chat", allow, BTreeMap::new()) };
    let wants = |arrival: &Arrival| wants_files(arrival, &rules, NOW);
    let look = arrival("look", Context::default());
    assert!(wants(&look));
    let sender = Sender { id: "eve".into(), ..look.sender.clone() };
    assert!(!wants(&Arrival { sender, ..look.clone() }));
    assert!(!wants(&Arrival { sent_at: NOW - 4_000, ..look.clone() }));
    assert!(!wants(&Arrival { text: "/status".into(), ..look.clone() }));
    let context = Context { is_overheard: true, ..Context::default() };
    assert!(!wants(&Arrival { context, ..look }));
}

#[test]
fn a_quotation_without_words_of_ones_own_is_nothing_said() {
    let quoted = Quoted { author: "Bob".into(), text: "one\ntwo".into() };
    let context = Context { quoted: Some(quoted), ..Context::default() };
    let mut said = arrival("", context);
    let text = with_quotation(&said).into_owned();
    assert_eq!(text, "In reply to Bob:\n> one\n> two\n\n", "a file that is readable is about it");
    assert_eq!(without_lone_quotation(&text), "");
    assert_eq!(without_lone_quotation("In reply to Bob:\n> one\n\nno"), "In reply to Bob:\n> one\n\nno");
    said.attachments[0].content = Content::Unreadable("it is a film".into());
    assert_eq!(with_quotation(&said), "");
}

fn arrival_of(party: Party, text: &str, context: Context) -> Arrival {
    let arrival = arrival(text, context);
    Arrival { sender: Sender { party, ..arrival.sender }, ..arrival }
}

fn stored(arrival: &Arrival) -> Message {
    let rules = Rules::new("chat", Vec::new(), BTreeMap::new());
    message("in-1".into(), &rules, arrival, Vec::new(), str::to_owned, NOW)
}

#[test]
fn a_new_version_of_an_agents_message_is_no_message_of_its_own() {
    let context = Context { edits: Some("-1001/5".to_owned()), ..Context::default() };
    let edit = arrival_of(Party::Agent, "Working · 5 s", context);
    assert_eq!(stored(&edit).kind, MessageKind::Edit);
    let rules = Rules::new("chat", Vec::new(), BTreeMap::new());
    let original = stored(&arrival_of(Party::Agent, "Working", Context::default()));
    let begun = Message { state: MessageState::Running, ..original.clone() };
    let is_wanted = [Some(&original), Some(&begun), None].map(|one| is_for_bot(&edit, one, &rules));
    assert_eq!(is_wanted, [true, false, false]);
}

#[test]
fn a_text_that_says_only_yes_or_no_is_told_from_one_that_says_more() {
    for text in ["yes", " Ok! ", "Yes, do it.", "👍"] {
        assert!(is_short_word(text), "{text}");
    }
    for text in ["", "...", "no, use the other file", "why?"] {
        assert!(!is_short_word(text), "{text}");
    }
}

#[test]
fn each_line_of_a_quotation_is_marked() {
    let quoted = Quoted { author: String::new(), text: "a\rb\u{2028}c\r\nd\ne".to_owned() };
    assert_eq!(quotation(&quoted), "In reply to:\n> a\n> b\n> c\n> d\n> e\n\n");
}

#[test]
fn a_new_version_of_an_old_message_is_taken() {
    let old = |kind| {
        move |message: &mut Message, rules: &mut Rules, _: &mut IntakeFacts| {
            (message.party, message.kind, message.sent_at) = (Party::Person, kind, 0);
            rules.max_age = Some(Duration::from_secs(3));
        }
    };
    check(old(MessageKind::Edit), 1, "Take");
    check(old(MessageKind::Prompt), 1, "Refuse");
}

#[test]
fn the_inbox_keeps_nothing_of_an_answer_that_is_a_reply() {
    let about = Some(About::Reply("req-1".into()));
    let kept = stored(&arrival_of(
        Party::Person,
        "my mother's maiden name",
        Context { about, ..Context::default() },
    ));
    assert!(!kept.summary.contains("maiden"), "{}", kept.summary);
}
