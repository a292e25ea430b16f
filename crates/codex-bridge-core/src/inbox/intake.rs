//! Decides whether a message from an allowed sender is taken. Pure.

use std::borrow::Cow;

use super::{
    About, Arrival, Command, Context, Message, MessageId, MessageKind, MessageState, Party, Quoted, Rules,
    WhenFull, hops,
};
use crate::task::TimeMs;

/// The longest message that is taken.
pub const TEXT_BYTES: usize = 256 * 1024;
/// How long the messages of one agent count against its limit.
pub const HOUR_MS: TimeMs = 60 * 60 * 1000;
/// The error of a message in a conversation that agents have kept going for too long.
const ENDLESS: &str =
    "agents have written here for too long without a person: this is not answered, so that it ends";
/// How the error of a message begins that is too old.
const TOO_OLD: &str = "it was too old";
/// The longest quotation that is given to Codex, in characters.
const QUOTE_CHARS: usize = 2_000;
/// Words that may be meant as a decision. Never a decision by themselves: nothing says what they decide.
const SHORT_WORDS: [&str; 44] = [
    "yes",
    "y",
    "yeah",
    "yep",
    "yup",
    "ok",
    "okay",
    "k",
    "sure",
    "go",
    "go ahead",
    "do it",
    "fine",
    "please do",
    "accept",
    "approve",
    "approved",
    "allow",
    "confirm",
    "no",
    "n",
    "nope",
    "nah",
    "don't",
    "dont",
    "do not",
    "deny",
    "decline",
    "reject",
    "cancel",
    "ja",
    "nein",
    "oui",
    "non",
    "si",
    "sí",
    "да",
    "нет",
    "是",
    "好",
    "不",
    "👍",
    "👎",
    "✅",
];
/// The reply to the first such message.
const NO_ANSWER: &str = "Agents have written to each other here for a long time, and no person has. This message is not worked \
    on, nor are later ones, until a person writes here or an hour has passed.";

/// What the intake needs to know beside the message. A fact that cannot matter stays empty.
#[derive(Debug, Clone, Default)]
pub struct IntakeFacts {
    /// The limit for a message.
    pub limit_bytes: usize,
    /// How many messages of this agent were worked on within the last hour.
    pub of_agent_lately: u64,
    /// How many messages of agents in a row were worked on in this conversation.
    pub of_agents_in_a_row: usize,
    /// Why the previous message of the conversation was refused, if it was and that matters.
    pub last_error: Option<String>,
    /// How many messages wait in the conversation.
    pub waiting_here: u64,
    /// How many messages wait in the channel.
    pub waiting_in_all: u64,
    /// Whether an earlier message of the conversation was deferred.
    pub is_behind: bool,
}

/// What happens to a message that came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// Take the message.
    Take,
    /// Store the message, but do not work on it.
    Refuse {
        /// The reason.
        why: String,
        /// The reply to the sender; `None` means no reply.
        said: Option<String>,
        /// Whether to keep the text for a retry.
        keeps_text: bool,
    },
    /// There is no room: the source must offer the message again.
    Defer,
}

/// Decides about a message of `bytes` bytes.
pub fn admit(message: &Message, bytes: usize, rules: &Rules, facts: &IntakeFacts, now: TimeMs) -> Admission {
    let refuse = |why: String, said: Option<String>| Admission::Refuse { why, said, keeps_text: true };
    // A new version has the time of its message, and changes nothing but what waits.
    if let Some(age) = too_old(message, rules, now).filter(|_| message.kind != MessageKind::Edit) {
        // Only the first message gets a reply.
        let is_told = facts.last_error.as_ref().is_some_and(|error| error.starts_with(TOO_OLD));
        let limit = rules.max_age.unwrap_or_default().as_secs();
        let said = format!(
            "This reached me too late: it was written {age} s before, and the limit is {limit} s. Send it again if it \
             still applies."
        );
        let is_heard = message.party == Party::Person && !is_told;
        return refuse(
            format!("{TOO_OLD}: {age} s when it came in; the limit is {limit} s"),
            is_heard.then_some(said),
        );
    }
    if let Some(why) = unwanted(message, rules, facts) {
        return refuse(why, None);
    }
    let is_agent = message.party == Party::Agent;
    if is_agent && facts.of_agents_in_a_row >= rules.agent_turns_in_a_row as usize {
        // Only the first message gets a reply.
        let is_told = facts.last_error.as_deref() == Some(ENDLESS);
        return refuse(ENDLESS.to_owned(), (!is_told).then(|| NO_ANSWER.to_owned()));
    }
    if bytes > facts.limit_bytes {
        // Refused whole, because half a message may mean the opposite.
        let why = format!("it has {bytes} bytes; the limit is {}", facts.limit_bytes);
        let said = format!("This message was not taken: {why}. Put it in a file, or send less of it.");
        return Admission::Refuse { why, said: Some(said), keeps_text: false };
    }
    let is_full = facts.waiting_in_all >= u64::from(rules.most_waiting_in_all)
        || facts.waiting_here >= u64::from(rules.most_waiting);
    if may_be_deferred(message, rules) && (facts.is_behind || is_full) {
        return Admission::Defer;
    }
    Admission::Take
}

/// Whether a message may be deferred. An urgent command is not: it may free the queue. A source that is polled is not
/// deferred either: polling just stops.
pub fn may_be_deferred(message: &Message, rules: &Rules) -> bool {
    rules.when_full == WhenFull::PutOff && message.kind != MessageKind::UrgentCommand
}

/// The age in seconds of a message that is too old to be worked on.
pub fn too_old(message: &Message, rules: &Rules, now: TimeMs) -> Option<u64> {
    let age = u64::try_from(now - message.sent_at).unwrap_or_default();
    rules.max_age.filter(|max_age| u128::from(age) > max_age.as_millis()).map(|_| age / 1000)
}

/// Why a message is not worked on and gets no reply.
fn unwanted(message: &Message, rules: &Rules, facts: &IntakeFacts) -> Option<String> {
    if message.party == Party::Person {
        return None;
    }
    if message.hops >= rules.max_hops {
        return Some(format!(
            "it was already forwarded by {} bridges; the limit is {}",
            message.hops, rules.max_hops
        ));
    }
    let (lately, limit) = (facts.of_agent_lately, u64::from(rules.agent_turns_per_hour));
    (lately >= limit)
        .then(|| format!("this agent has written {lately} times within an hour; the limit is {limit}"))
}

/// Builds a message from an arrival. `summary` redacts what people may read.
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
        summary: summary(&kept(text, arrival)),
        sealed_text: Some(sealed_text),
        kind: match &arrival.context {
            Context { edits: Some(_), .. } => MessageKind::Edit,
            // Only people can give commands.
            _ if is_agent => MessageKind::Prompt,
            Context { about, .. } => kind(text, about.as_ref()),
        },
        about: arrival.context.about.clone(),
        edits: arrival.context.edits.clone(),
        state: MessageState::Received,
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

/// The part of a text that may be stored in readable form. A reply to a request is left out, because it may be a secret.
fn kept<'a>(text: &'a str, arrival: &Arrival) -> Cow<'a, str> {
    match &arrival.context.about {
        // Only people can give commands.
        _ if arrival.sender.party == Party::Agent => text.into(),
        Some(About::Reply(request)) if Command::parse(text).is_none() => {
            format!("(reply to {request}) …").into()
        }
        _ => Command::kept(text),
    }
}

/// Whether a message is wanted before its sender is looked at: it was written to the bot, or is a new version of one that
/// was. `original` is the stored message of which it is a new version. Of an agent's message only versions that come while
/// it waits are of use.
pub fn is_for_bot(arrival: &Arrival, original: Option<&Message>, rules: &Rules) -> bool {
    let context = &arrival.context;
    if context.edits.is_some() && arrival.sender.party == Party::Agent {
        return original.is_some_and(|original| original.state == MessageState::Received);
    }
    !context.is_overheard || context.about.is_some() || original.is_some() || !rules.mention_only
}

/// The text up to the limit for a message.
pub fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES)]
}

/// The text for Codex, below what it quotes. Of commands only those have a quotation that are given to Codex.
pub fn with_quotation(arrival: &Arrival) -> Cow<'_, str> {
    let text = beginning(&arrival.text);
    let Some(quoted) = arrival.context.quoted.as_ref().filter(|_| arrival.context.about.is_none()) else {
        return text.into();
    };
    match Command::parse(text).filter(|_| arrival.sender.party == Party::Person) {
        None => format!("{}{text}", quotation(quoted)).into(),
        Some(Command::Enqueue(rest)) => format!("/queue {}{rest}", quotation(quoted)).into(),
        Some(Command::Steer(rest)) => format!("/steer {}{rest}", quotation(quoted)).into(),
        Some(_) => text.into(),
    }
}

fn quotation(Quoted { author, text }: &Quoted) -> String {
    // With one kind of line break, so that no line of it is left unmarked.
    let text = redact::plain::plain(text);
    let mut shown: String = text.chars().take(QUOTE_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    let head = if author.is_empty() { "In reply to:".to_owned() } else { format!("In reply to {author}:") };
    let lines: String = shown.lines().map(|line| format!("\n> {line}")).collect();
    format!("{head}{lines}\n\n")
}

/// Whether a text says hardly more than yes or no, such as "Yes, do it!".
pub fn is_short_word(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut words =
        text.split(['.', ',', '!', '?']).map(str::trim).filter(|word| !word.is_empty()).peekable();
    words.peek().is_some() && words.all(|word| SHORT_WORDS.contains(&word))
}

/// What to do with a person's message that is no new version of another.
pub fn kind(text: &str, about: Option<&About>) -> MessageKind {
    match Command::parse(text) {
        None if about.is_some() || is_short_word(text) => MessageKind::Response,
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

    fn arrival(party: Party, text: &str, context: Context) -> Arrival {
        let sender = super::super::Sender { id: "42".to_owned(), name: "Ada".to_owned(), party };
        Arrival {
            external_id: "-1001/5".to_owned(),
            conversation: "room".into(),
            sender,
            room: super::super::Room::Shared,
            text: text.to_owned(),
            reply_to: "chat:room".to_owned(),
            context,
            position: None,
            sent_at: NOW,
        }
    }

    fn stored(arrival: &Arrival) -> Message {
        let rules = Rules::new("chat", Vec::new(), BTreeMap::new());
        message("in-1".into(), &rules, arrival, Vec::new(), str::to_owned, NOW)
    }

    #[test]
    fn a_new_version_of_an_agents_message_is_no_message_of_its_own() {
        let context = Context { edits: Some("-1001/5".to_owned()), ..Context::default() };
        let edit = arrival(Party::Agent, "Working · 5 s", context);
        assert_eq!(stored(&edit).kind, MessageKind::Edit);
        let rules = Rules::new("chat", Vec::new(), BTreeMap::new());
        let original = stored(&arrival(Party::Agent, "Working", Context::default()));
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
        let about = Some(super::super::About::Reply("req-1".into()));
        let kept = stored(&arrival(
            Party::Person,
            "my mother's maiden name",
            Context { about, ..Context::default() },
        ));
        assert!(!kept.summary.contains("maiden"), "{}", kept.summary);
    }
}
