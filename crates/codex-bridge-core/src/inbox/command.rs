//! What people write to us beside prompts: `/status`, `/approve req-12ab`. Pure.

use std::borrow::Cow;

use crate::request::RequestName;

/// What can be said.
pub const HELP: &str = "Write what Codex shall do. These words do something else:\n\
    /status – what runs, and what waits\n\
    /stop – stop what runs\n\
    /steer TEXT – add to what runs\n\
    /queue [TEXT] – what waits its turn; with a text, add to it\n\
    /approve ID, /deny ID – decide on what Codex asks\n\
    /answer ID TEXT – answer what Codex wants to know\n\
    /new – begin a new conversation with Codex\n\
    /project [NAME] – where it works; with a name, work there from now on\n\
    /diff – what the last turn changed\n\
    /usage – tokens and time so far\n\
    /help – this";

/// What is said of an answer that cannot be read.
const ANSWER_NEEDS: &str = "answer needs an ID and a text";

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// What can be said.
    Help,
    /// What runs.
    Status,
    /// Stop it.
    Stop,
    /// Add this to it.
    Steer(String),
    /// What waits its turn.
    Queue,
    /// Line this up, whatever runs.
    Enqueue(String),
    /// Yes to a request; to the only one if none is named.
    Approve(Option<String>),
    /// No to a request.
    Deny(Option<String>),
    /// Words for a request.
    Answer {
        /// Which.
        request_id: RequestName,
        /// The words.
        text: String,
    },
    /// Another thread from here on.
    New,
    /// Where it works.
    Projects,
    /// Work there from here on.
    Project(String),
    /// What the last turn changed.
    Diff,
    /// What was used.
    Usage,
    /// It begins like a command and is none.
    Unknown(String),
}

impl Command {
    /// The command that a text is; none if it is a prompt. A path such as `/etc/hosts` is no command, nor is a word with
    /// more than letters in it.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let body = text.strip_prefix('/')?;
        let (word, rest) = body.split_once(char::is_whitespace).unwrap_or((body, ""));
        // In a group a bot is named: /status@codex_bot.
        let word = word.split_once('@').map_or(word, |(word, _)| word).to_ascii_lowercase();
        if word.is_empty() || !word.chars().all(|char| char.is_ascii_lowercase()) {
            return None;
        }
        let rest = rest.trim();
        let said = || Some(rest.to_owned()).filter(|rest| !rest.is_empty());
        Some(match word.as_str() {
            "help" | "start" => Self::Help,
            "status" => Self::Status,
            "stop" => Self::Stop,
            "steer" => said().map_or(Self::Unknown("steer needs a text".into()), Self::Steer),
            "queue" => said().map_or(Self::Queue, Self::Enqueue),
            "approve" => Self::Approve(said()),
            "deny" => Self::Deny(said()),
            "answer" => match rest.split_once(char::is_whitespace) {
                Some((id, text)) => Self::Answer { request_id: id.into(), text: text.trim().into() },
                None => Self::Unknown(ANSWER_NEEDS.into()),
            },
            "new" => Self::New,
            "project" => said().map_or(Self::Projects, Self::Project),
            "diff" => Self::Diff,
            "usage" => Self::Usage,
            other => Self::Unknown(format!("there is no command /{other}")),
        })
    }

    /// What is kept of a text that people can read: an answer may be a secret, whatever was asked.
    pub fn kept(text: &str) -> Cow<'_, str> {
        match Self::parse(text) {
            Some(Self::Answer { request_id, .. }) if request_id.as_str().starts_with("req-") => {
                format!("/answer {request_id} …").into()
            }
            Some(Self::Answer { .. }) => "/answer …".into(),
            // The words may stand where the name should.
            Some(Self::Unknown(what)) if what == ANSWER_NEEDS => "/answer …".into(),
            _ => text.into(),
        }
    }

    /// Whether it is carried out at once, whatever runs. The others keep their place among the messages.
    pub fn is_urgent(&self) -> bool {
        !matches!(self, Self::New | Self::Project(_) | Self::Enqueue(_))
    }

    /// Whether it is about what runs at this moment: said long ago, it means something else now.
    pub fn ages(&self) -> bool {
        matches!(self, Self::Stop | Self::Steer(_) | Self::Approve(_) | Self::Deny(_) | Self::Answer { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::Command::{self, Answer, Approve, Enqueue, Help, New, Project, Queue, Steer, Stop, Unknown};

    fn check(text: &str, expected: impl Into<Option<Command>>) {
        assert_eq!(Command::parse(text), expected.into(), "{text:?}");
    }

    #[test]
    fn commands_are_told_from_prompts() {
        check("/help", Some(Help));
        check("  /STOP@codex_bot  ", Some(Stop));
        check("/approve req-12ab", Some(Approve(Some("req-12ab".into()))));
        check("/approve", Some(Approve(None)));
        check("/steer  look at\nthe tests ", Some(Steer("look at\nthe tests".into())));
        check("/queue", Some(Queue));
        check("/queue and then this", Some(Enqueue("and then this".into())));
        check("/project web", Some(Project("web".into())));
        check("/new", Some(New));
        check("/answer req-1 in blue", Some(Answer { request_id: "req-1".into(), text: "in blue".into() }));
        check("/etc/hosts is wrong", None);
        check("/", None);
        check("fix /help please", None);
        check("/usr2", None);
        check("", None);
    }

    #[test]
    fn a_mistake_is_told_and_never_sent_to_codex() {
        assert!(matches!(Command::parse("/statsu"), Some(Unknown(_))));
        assert!(matches!(Command::parse("/steer"), Some(Unknown(_))));
        assert!(matches!(Command::parse("/answer req-1"), Some(Unknown(_))));
    }

    #[test]
    fn an_answer_is_not_kept() {
        let check = |text: &str, kept: &str| assert_eq!(Command::kept(text), kept, "{text:?}");
        check("/answer req-1 hunter2", "/answer req-1 …");
        check("/Answer@codex_bot req-1\nkey=hunter2", "/answer req-1 …");
        check("/answer hunter2 please", "/answer …");
        check("/answer hunter2", "/answer …");
        check("/approve req-1", "/approve req-1");
        check("what is /answer req-1 x?", "what is /answer req-1 x?");
    }

    #[test]
    fn what_changes_the_conversation_keeps_its_place() {
        for text in ["/new", "/project x", "/queue later"] {
            assert!(!Command::parse(text).unwrap().is_urgent(), "{text}");
        }
        for text in ["/stop", "/approve", "/status", "/steer x", "/queue"] {
            assert!(Command::parse(text).unwrap().is_urgent(), "{text}");
        }
    }
}
