//! Whether a message of somebody who may write is taken. Pure.

use super::{Arrival, Command, Message, MessageId, MessageKind, Party, Rules, State, WhenFull, hops};
use crate::task::TimeMs;

/// The longest message that is taken; more is no message.
pub const TEXT_BYTES: usize = 256 * 1024;
/// How long the messages of one agent count.
pub const HOUR_MS: TimeMs = 60 * 60 * 1000;
/// Why a message is not worked on that agents have gone on too long for.
const ENDLESS: &str =
    "agents have gone on here without a person for too long: it is not answered, so that this ends";
/// What the first of them is told.
const NO_ANSWER: &str = "Agents have written to each other here for long, and no person has: this message is not worked \
    on, nor is what follows, until a person writes here, or for an hour.";

/// What the intake has to know beside the message. What cannot matter for it stays empty.
#[derive(Debug, Clone, Default)]
pub struct Standing {
    /// How many bytes a message may have.
    pub limit_bytes: usize,
    /// How many messages of this agent were worked on within an hour.
    pub of_agent_lately: u64,
    /// How many messages of agents were worked on one after the other here.
    pub of_agents_in_a_row: usize,
    /// Why the message before it in the conversation was refused, if it was.
    pub last_error: Option<String>,
    /// How many messages wait in its conversation.
    pub waiting_here: u64,
    /// How many messages wait in its channel.
    pub waiting_in_all: u64,
    /// Whether one that was written before it in its conversation was put off.
    pub is_behind: bool,
}

/// What becomes of a message that came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// It is taken.
    Take,
    /// It is kept, and not worked on.
    Refuse {
        /// Why.
        why: String,
        /// What its sender is told; none is nothing.
        said: Option<String>,
        /// Whether its words are kept for whoever takes it up.
        keeps_text: bool,
    },
    /// There is no room for it: its source offers it again.
    Defer,
}

/// What becomes of a message with so many bytes.
pub fn admit(message: &Message, bytes: usize, rules: &Rules, standing: &Standing, now: TimeMs) -> Admission {
    let refuse = |why: String, said: Option<String>| Admission::Refuse { why, said, keeps_text: true };
    if let Some(why) = unwanted(message, rules, standing, now) {
        return refuse(why, None);
    }
    let is_agent = message.party == Party::Agent;
    if is_agent && standing.of_agents_in_a_row >= rules.agent_turns_in_a_row as usize {
        // The first is told; those that follow it are kept, too.
        let is_told = standing.last_error.as_deref() == Some(ENDLESS);
        return refuse(ENDLESS.to_owned(), (!is_told).then(|| NO_ANSWER.to_owned()));
    }
    if bytes > standing.limit_bytes {
        // A part of what somebody wants may be the opposite of it: all of it is refused.
        let why = format!("it has {bytes} bytes; the limit is {}", standing.limit_bytes);
        let said = format!("This message was not taken: {why}. Put it in a file, or send less of it.");
        return Admission::Refuse { why, said: Some(said), keeps_text: false };
    }
    let is_full = standing.waiting_in_all >= u64::from(rules.most_waiting_in_all)
        || standing.waiting_here >= u64::from(rules.most_waiting);
    if may_be_deferred(message, rules) && (standing.is_behind || is_full) {
        return Admission::Defer;
    }
    Admission::Take
}

/// Whether a message has to wait for room. What is to be done at once waits behind nothing and may be what ends the waiting;
/// and a source that is read is not read on instead.
pub fn may_be_deferred(message: &Message, rules: &Rules) -> bool {
    rules.when_full == WhenFull::PutOff && message.kind != MessageKind::UrgentCommand
}

/// Why nothing is done with a message, and nothing said.
fn unwanted(message: &Message, rules: &Rules, standing: &Standing, now: TimeMs) -> Option<String> {
    let age = u128::try_from(now - message.sent_at).unwrap_or_default();
    if let Some(max_age) = rules.max_age.filter(|max_age| age > max_age.as_millis()) {
        let (age, limit) = (age / 1000, max_age.as_secs());
        return Some(format!("it was {age} s old when it came in; the limit is {limit} s"));
    }
    if message.party == Party::Person {
        return None;
    }
    if message.hops >= rules.max_hops {
        return Some(format!("it has passed {} of us: it is not answered, so that this ends", message.hops));
    }
    let (lately, limit) = (standing.of_agent_lately, u64::from(rules.agent_turns_per_hour));
    (lately >= limit)
        .then(|| format!("this agent has written {lately} times within an hour; the limit is {limit}"))
}

/// An arrival as a message, with its sealed text and what people may read of its sender and its text.
pub fn message(
    id: MessageId,
    rules: &Rules,
    arrival: &Arrival,
    sealed_text: Vec<u8>,
    summary: impl Fn(&str) -> String,
    now: TimeMs,
) -> Message {
    let text = beginning(&arrival.text);
    let is_agent = arrival.sender.party == Party::Agent;
    Message {
        id,
        channel: rules.channel.clone(),
        external_id: arrival.external_id.clone(),
        conversation: arrival.conversation.clone(),
        sender_id: arrival.sender.id.clone(),
        sender_name: summary(&arrival.sender.name),
        party: arrival.sender.party,
        room: arrival.room,
        hops: if is_agent { hops::of(text) } else { 0 },
        reply_to: arrival.reply_to.clone(),
        position: arrival.position,
        // Only people command.
        summary: summary(&if is_agent { text.into() } else { Command::kept(text) }),
        sealed_text: Some(sealed_text),
        kind: if is_agent { MessageKind::Prompt } else { kind(text) },
        state: State::Received,
        attempts: 0,
        next_at: now,
        task_id: None,
        reply_id: None,
        error: None,
        sent_at: arrival.sent_at,
        received_at: now,
        acknowledged_at: None,
        updated_at: now,
    }
}

/// As much of a text as a message may have.
pub fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES)]
}

fn kind(text: &str) -> MessageKind {
    match Command::parse(text) {
        None | Some(Command::Enqueue(_)) => MessageKind::Prompt,
        Some(Command::Steer(_)) => MessageKind::Steer,
        Some(command) if command.is_urgent() => MessageKind::UrgentCommand,
        Some(_) => MessageKind::Command,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::store::conformance::samples;

    const NOW: TimeMs = 10_000;

    /// A message of an agent on a channel that puts messages off, just sent.
    fn of_agent() -> (Message, Rules, Standing) {
        let rules = Rules { when_full: WhenFull::PutOff, ..Rules::new("chat", Vec::new(), BTreeMap::new()) };
        let message = Message { hops: 0, sent_at: NOW, ..samples::message(1, "room") };
        (message, rules, Standing { limit_bytes: 100, ..Standing::default() })
    }

    fn check(change: impl FnOnce(&mut Message, &mut Rules, &mut Standing), bytes: usize, expected: &str) {
        let (mut message, mut rules, mut standing) = of_agent();
        change(&mut message, &mut rules, &mut standing);
        let admission = format!("{:?}", admit(&message, bytes, &rules, &standing, NOW));
        assert!(admission.contains(expected), "{admission} is not {expected}");
    }

    #[test]
    fn what_is_old_far_travelled_or_one_too_many_is_kept_in_silence() {
        check(|_, _, _| {}, 100, "Take");
        check(|_, rules, _| rules.max_age = Some(Duration::ZERO), 1, "Take");
        let old = |message: &mut Message, rules: &mut Rules, _: &mut Standing| {
            (message.sent_at, rules.max_age) = (NOW - 3_001, Some(Duration::from_secs(3)));
        };
        check(old, 1, "it was 3 s old when it came in; the limit is 3 s\", said: None");
        check(|message, _, _| message.hops = 2, 1, "it has passed 2 of us");
        check(|_, _, standing| standing.of_agent_lately = 30, 1, "30 times within an hour; the limit is 30");
        let of_person = |message: &mut Message, _: &mut Rules, standing: &mut Standing| {
            (message.party, message.hops) = (Party::Person, 9);
            (standing.of_agent_lately, standing.of_agents_in_a_row) = (99, 999);
        };
        check(of_person, 1, "Take");
    }

    #[test]
    fn agents_that_go_on_too_long_are_told_once() {
        check(|_, _, standing| standing.of_agents_in_a_row = 100, 1, "said: Some(\"Agents have written");
        let again = |_: &mut Message, _: &mut Rules, standing: &mut Standing| {
            (standing.of_agents_in_a_row, standing.last_error) = (100, Some(ENDLESS.to_owned()));
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
        let full = |standing: &mut Standing| standing.waiting_here = 200;
        check(|_, _, standing| full(standing), 1, "Defer");
        check(|_, _, standing| standing.waiting_in_all = 5_000, 1, "Defer");
        check(|_, _, standing| standing.is_behind = true, 1, "Defer");
        let urgent = |message: &mut Message, _: &mut Rules, standing: &mut Standing| {
            message.kind = MessageKind::UrgentCommand;
            full(standing);
        };
        check(urgent, 1, "Take");
        let read = |_: &mut Message, rules: &mut Rules, standing: &mut Standing| {
            rules.when_full = WhenFull::ReadLater;
            full(standing);
        };
        check(read, 1, "Take");
    }
}
