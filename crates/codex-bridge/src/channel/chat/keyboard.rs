//! The buttons below a message. What a button does is in its data, which the platform gives back with a tap: the full id of
//! the request, which is random, and the beginning of the digest of the text above the button. The bridge binds the id to a
//! task, a conversation and its approvers. Pure.

use codex_bridge_core::chats::Choice;
use codex_bridge_core::inbox::answer;
use codex_bridge_core::outbox::Asked;
use codex_bridge_core::request::{Button, DecisionWord};
use codex_session::Decision;
use codex_session::ask::Offer;
use redact::plain::plain;
use serde::{Deserialize, Serialize};

use crate::amount::one_line;
use crate::channel::Tap;
use crate::channel::text::ShownRequest;

/// How the data of each button begins.
const APPROVE: &str = "a:";
const FOR_SESSION: &str = "s:";
const DECLINE: &str = "d:";
const COMMENT: &str = "n:";
const OPTION: &str = "q:";
const COMMAND: &str = "c:";
/// The longest label of a button, in characters.
const WORDS: usize = 40;

/// Buttons, row by row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Keyboard(pub Vec<Vec<Key>>);

/// A button.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// Its label.
    pub text: String,
    /// What the platform gives back when it is tapped.
    #[serde(alias = "callback_data")]
    pub data: String,
}

/// What a button stands for, for platforms with colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// A yes.
    Yes,
    /// A no.
    No,
    /// Anything else.
    Other,
}

impl Key {
    fn new(text: &str, data: String) -> Self {
        Self { text: one_line(&plain(text)).chars().take(WORDS).collect(), data }
    }

    /// What the button stands for.
    pub fn meaning(&self) -> Meaning {
        let begins = |start: &str| self.data.starts_with(start);
        if begins(APPROVE) {
            Meaning::Yes
        } else if begins(DECLINE) {
            Meaning::No
        } else {
            Meaning::Other
        }
    }
}

/// What a tap on a button means.
#[derive(Debug, Clone, PartialEq)]
pub enum Pressed {
    /// A decision on a request.
    Choice(Button, Choice),
    /// A command, as if the person had written it.
    Command(String),
}

impl Keyboard {
    /// No buttons.
    pub const NONE: Self = Self(Vec::new());

    /// The buttons of a request: a row to approve and a row to decline, or a row for each option of its first question.
    pub fn of_request(shown: ShownRequest<'_>) -> Self {
        let (asked, name) = (shown.asked, shown.asked.name());
        let key = |start: &str, word: &str| Key::new(word, format!("{start}{name}"));
        let decision = |start: &str, word: &DecisionWord| key(start, word.label().unwrap_or_default());
        if asked.is_question() {
            return if shown.is_whole { Self::of_question(asked, &[]) } else { Self::NONE };
        }
        let mut yes = Vec::new();
        if shown.is_whole {
            yes.push(decision(APPROVE, &DecisionWord::Accept));
            if asked.ask.offers.contains(&Offer::AcceptForSession) {
                yes.push(decision(FOR_SESSION, &DecisionWord::AcceptForSession));
            }
        }
        let no = vec![decision(DECLINE, &DecisionWord::Decline), key(COMMENT, "Decline with a comment")];
        Self([yes, no].into_iter().filter(|row| !row.is_empty()).collect())
    }

    /// The options of the question behind those whose options were chosen already. The data of each has all that was chosen.
    pub fn of_question(asked: &Asked, chosen: &[usize]) -> Self {
        let options = answer::options(&asked.ask, chosen.len());
        let before = chosen.iter().fold(String::new(), |before, number| format!("{before}{number}."));
        let key = |(number, label): (usize, &str)| {
            Key::new(label, format!("{OPTION}{}:{before}{number}", asked.name()))
        };
        Self(options.into_iter().enumerate().map(|option| vec![key(option)]).collect())
    }

    /// Buttons for commands, with their labels, in a row.
    pub fn of_commands<'a>(commands: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let key = |(label, command): (&str, &str)| Key::new(label, format!("{COMMAND}{command}"));
        let row: Vec<Key> = commands.into_iter().map(key).collect();
        if row.is_empty() { Self::NONE } else { Self(vec![row]) }
    }

    /// The label of the button that was tapped.
    pub fn label_of(&self, tap: &Tap) -> Option<&str> {
        let is_it = |key: &&Key| matches!(parse(&key.data), Some(Pressed::Choice(button, choice)) if button == tap.button && choice == tap.choice);
        self.0.iter().flatten().find(is_it).map(|key| key.text.as_str())
    }

    /// Whether there is no button.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Reads the data of a button.
pub fn parse(data: &str) -> Option<Pressed> {
    // Buttons of early versions have no digest: they can only decline.
    let choice =
        |start: &str, choice: Choice| Some(Pressed::Choice(Button::named(data.strip_prefix(start)?), choice));
    let option = || {
        let (asked, numbers) = data.strip_prefix(OPTION)?.rsplit_once(':')?;
        let numbers: Vec<usize> =
            numbers.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
        Some(Pressed::Choice(Button::named(asked), Choice::Options(numbers)))
    };
    choice(APPROVE, Decision::Accept.into())
        .or_else(|| choice(FOR_SESSION, Decision::AcceptForSession.into()))
        .or_else(|| choice(DECLINE, Decision::Decline.into()))
        .or_else(|| choice(COMMENT, Choice::Comment))
        .or_else(option)
        .or_else(|| Some(Pressed::Command(data.strip_prefix(COMMAND)?.to_owned())))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const DIGEST: &str = "0123456789abcdef0123456789abcdef";
    const SHORT: &str = "0123456789abcdef";
    const NAME: &str = "req-12ab34cd12ab34cd12ab34cd12ab34cd";
    /// Telegram's limit for the data of a button, the shortest of all.
    const MAX_BYTES: usize = 64;
    /// How many options of a question have buttons.
    const MAX_OPTIONS: usize = 10;

    fn asked(id: &str, ask: Value) -> Asked {
        let (digest, ask) = (DIGEST.to_owned(), serde_json::from_value(ask).unwrap());
        Asked { request_id: id.into(), digest, ask, is_long: false, was_shown: false, expires_at: None }
    }

    fn keyboard(asked: &Asked, is_whole: bool) -> Keyboard {
        Keyboard::of_request(ShownRequest { asked, is_whole })
    }

    fn data(keyboard: &Keyboard) -> Vec<&str> {
        keyboard.0.iter().flatten().map(|key| key.data.as_str()).collect()
    }

    fn pressed(data: &str) -> (String, Choice) {
        match parse(data) {
            Some(Pressed::Choice(button, choice)) => (button.digest, choice),
            other => panic!("{data}: {other:?}"),
        }
    }

    #[test]
    fn every_button_says_what_it_does_and_fits() {
        let offers = json!({"kind": "command", "offers": ["accept", "accept_for_session", "decline"]});
        let keyboard = keyboard(&asked(NAME, offers), true);
        let data = data(&keyboard);
        assert_eq!(data, ["a:", "s:", "d:", "n:"].map(|start| format!("{start}{NAME}.{SHORT}")));
        assert!(data.iter().all(|data| data.len() <= MAX_BYTES));
        let choices: Vec<Choice> = data.iter().map(|data| pressed(data).1).collect();
        let decisions = [Decision::Accept, Decision::AcceptForSession, Decision::Decline].map(Choice::from);
        assert_eq!(choices, [&decisions[..], &[Choice::Comment]].concat());
        assert!(data.iter().all(|data| pressed(data).0 == SHORT));
        assert_eq!(parse("x:1"), None);
        assert_eq!(pressed("a:req-12ab34cd").0, "");
        assert_eq!(keyboard.0[0][0].meaning(), Meaning::Yes);
        assert_eq!(keyboard.0[1][0].meaning(), Meaning::No);
    }

    #[test]
    fn what_was_not_shown_whole_can_only_be_declined() {
        let asked = asked("req-1", json!({"kind": "command", "offers": ["accept", "accept_for_session"]}));
        let expected = ["d:", "n:"].map(|start| format!("{start}req-1.{SHORT}"));
        assert_eq!(data(&keyboard(&asked, false)), expected);
    }

    #[test]
    fn questions_are_never_approved_and_asked_one_after_the_other() {
        let questions = |questions: Value| json!({"kind": "questions", "questions": questions});
        let options =
            |labels: &[&str]| labels.iter().map(|label| json!({"label": label})).collect::<Vec<_>>();
        let free = asked("req-1", questions(json!([{"id": "c", "options": []}])));
        assert!(keyboard(&free, true).is_empty());
        let two = json!([{"id": "c", "options": options(&["Red", "Blue"])}, {"id": "s", "options": options(&["S", "M"])}]);
        let two = asked("req-1", questions(two));
        let first = keyboard(&two, true);
        assert_eq!(data(&first), ["0", "1"].map(|number| format!("q:req-1.{SHORT}:{number}")));
        assert_eq!(first.0[1][0].text, "Blue");
        let second = Keyboard::of_question(&two, &[1]);
        assert_eq!(data(&second), ["1.0", "1.1"].map(|number| format!("q:req-1.{SHORT}:{number}")));
        assert_eq!(pressed(data(&second)[1]).1, Choice::Options(vec![1, 1]));
        let with_free = json!([{"id": "c", "options": options(&["Red"])}, {"id": "s", "options": []}]);
        assert!(keyboard(&asked("req-1", questions(with_free)), true).is_empty(), "that needs words");
        let most = json!([{"id": "a", "options": options(&["x"; MAX_OPTIONS])}]);
        let more = json!([{"id": "a", "options": options(&["x"; MAX_OPTIONS + 1])}]);
        assert!(keyboard(&asked(NAME, questions(more)), true).is_empty(), "that needs words too");
        let keyboard = keyboard(&asked(NAME, questions(most)), true);
        assert_eq!(data(&keyboard).len(), MAX_OPTIONS);
        let deep = Keyboard::of_question(
            &asked(NAME, questions(vec![json!({"id": "a", "options": options(&["x"; 10])}); 3].into())),
            &[9, 9],
        );
        assert!(data(&keyboard).iter().chain(&data(&deep)).all(|data| data.len() <= MAX_BYTES), "{deep:?}");
    }

    #[test]
    fn a_label_shows_its_characters_in_the_order_that_they_have() {
        assert_eq!(Key::new("keep \u{202e}it\u{200b}\nall", String::new()).text, "keep it all");
    }

    #[test]
    fn a_command_is_what_the_person_would_have_written() {
        let keyboard = Keyboard::of_commands([("Retry", "/retry")]);
        assert_eq!(parse(&keyboard.0[0][0].data), Some(Pressed::Command("/retry".to_owned())));
    }
}
