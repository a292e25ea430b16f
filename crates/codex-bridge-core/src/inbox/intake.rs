//! Decides whether a message from an allowed sender is taken. Pure.

use std::borrow::Cow;

use super::{
    About, Arrival, Attached, Attachment, Command, Content, Message, MessageId, MessageKind, MessageState,
    Party, Quoted, Rules, WhenFull, hops,
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
        summary: summary(&with_names(kept(text, arrival), arrival)),
        sealed_text: Some(sealed_text),
        kind: kind_of(arrival),
        about: arrival.context.about.clone(),
        edits: arrival.context.edits.clone(),
        attached: Attached::of(&arrival.attachments),
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
    let is_unreadable = |file: &Attachment| matches!(file.content, Content::Unreadable(_));
    if text.trim().is_empty() && arrival.attachments.iter().all(is_unreadable) {
        // Nothing is said about the quotation.
        return text.into();
    }
    match Command::parse(text).filter(|_| arrival.sender.party == Party::Person) {
        None => format!("{}{text}", quotation(quoted)).into(),
        Some(Command::Enqueue(rest)) => format!("/queue {}{rest}", quotation(quoted)).into(),
        Some(Command::Steer(rest)) => format!("/steer {}{rest}", quotation(quoted)).into(),
        Some(_) => text.into(),
    }
}

/// The text, unless it is only a quotation, of which nothing is said.
pub fn without_lone_quotation(text: &str) -> &str {
    let is_head = |line: &str| line.starts_with("In reply to") && line.ends_with(':');
    let mut lines = text.trim().lines();
    let is_lone = lines.next().is_some_and(is_head) && lines.all(|line| line.starts_with("> "));
    if is_lone { "" } else { text }
}

/// The text, and the names of the files that came with it.
fn with_names<'a>(text: Cow<'a, str>, arrival: &Arrival) -> Cow<'a, str> {
    if arrival.attachments.is_empty() {
        return text;
    }
    let names: Vec<String> = arrival.attachments.iter().map(|file| format!("[{}]", file.label())).collect();
    let gap = if text.trim().is_empty() { "" } else { " " };
    format!("{text}{gap}{}", names.join(" ")).into()
}

fn quotation(Quoted { author, text }: &Quoted) -> String {
    // With one kind of line break, so that no line of it is left unmarked.
    let text = redact::plain::plain(text);
    let mut shown: String = text.chars().take(QUOTE_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    let head = if author.is_empty() { "In reply to:".to_owned() } else { format!("In reply to {author}:") };
    let lines: Vec<&str> = shown.lines().collect();
    format!("{head}\n> {}\n\n", lines.join("\n> "))
}

/// Whether a text says hardly more than yes or no, such as "Yes, do it!".
pub fn is_short_word(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut words =
        text.split(['.', ',', '!', '?']).map(str::trim).filter(|word| !word.is_empty()).peekable();
    words.peek().is_some() && words.all(|word| SHORT_WORDS.contains(&word))
}

/// Whether files of such a message are kept. A command has none.
pub fn takes_files(kind: MessageKind) -> bool {
    matches!(kind, MessageKind::Prompt | MessageKind::Response | MessageKind::Edit)
}

/// Whether the files of a message are worth being fetched: its sender may write, and it will be worked on.
pub fn wants_files(arrival: &Arrival, rules: &Rules, now: TimeMs) -> bool {
    let context = &arrival.context;
    let is_overheard = context.is_overheard && context.about.is_none() && rules.mention_only;
    let sender = &arrival.sender;
    let age = u128::try_from(now - arrival.sent_at).unwrap_or_default();
    !is_overheard
        && rules.role(&sender.id, sender.party, &arrival.conversation).is_some()
        && rules.max_age.is_none_or(|max_age| age <= max_age.as_millis())
        && takes_files(kind_of(arrival))
}

/// What to do with a message.
fn kind_of(arrival: &Arrival) -> MessageKind {
    if arrival.context.edits.is_some() {
        return MessageKind::Edit;
    }
    // Only people can give commands.
    if arrival.sender.party == Party::Agent {
        return MessageKind::Prompt;
    }
    match kind(beginning(&arrival.text), arrival.context.about.as_ref()) {
        // Only words can be added to a turn.
        MessageKind::Steer if !arrival.attachments.is_empty() => MessageKind::Prompt,
        // A file answers nothing.
        MessageKind::Response
            if !arrival.attachments.is_empty()
                && (arrival.context.about.is_none() || arrival.text.trim().is_empty()) =>
        {
            MessageKind::Prompt
        }
        kind => kind,
    }
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
mod tests;
