//! Commands in chats: `/status`, `/approve req-12ab`. Pure.

use std::borrow::Cow;

use crate::request::RequestName;

/// The commands, for people: the name, what follows it, and what it does.
pub const COMMANDS: [(&str, &str, &str); 20] = [
    ("status", "", "what runs, and what waits"),
    ("stop", "", "stop what runs"),
    ("steer", "TEXT", "add to what runs"),
    ("queue", "[TEXT]", "what waits its turn; with a text, add to it"),
    ("approve", "ID", "approve what Codex asks"),
    ("deny", "ID", "decline what Codex asks"),
    ("answer", "ID TEXT", "answer what Codex wants to know"),
    ("retry", "", "try again what failed last"),
    ("details", "", "why it failed"),
    ("new", "", "begin a new conversation with Codex"),
    ("list", "", "the conversations with Codex that were here"),
    ("switch", "NUMBER", "go on with one of them"),
    ("resume", "TASK", "go on here with a task that was begun elsewhere"),
    ("project", "[NAME]", "where Codex works; with a name, work there from now on"),
    ("model", "[NAME]", "the model; with a name, use it from now on"),
    ("effort", "[LEVEL]", "how hard the model thinks; with a level, from now on"),
    ("diff", "", "what the last turn changed"),
    ("usage", "", "tokens and time so far"),
    ("whoami", "", "who you are here, and what you may do"),
    ("help", "", "this list"),
];

/// The list of commands, for people.
pub fn help() -> String {
    let line = |(name, arguments, what): &(&str, &str, &str)| {
        let space = if arguments.is_empty() { "" } else { " " };
        format!("\n/{name}{space}{arguments} – {what}")
    };
    let lines: String = COMMANDS.iter().map(line).collect();
    format!("Write what Codex should do, or one of these commands:{lines}")
}

/// The error for an answer that cannot be read.
const ANSWER_NEEDS: &str = "answer needs an ID and a text";

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// List the commands.
    Help,
    /// Show what runs and what waits.
    Status,
    /// Interrupt the running turn.
    Stop,
    /// Add this text to the running turn.
    Steer(String),
    /// Show what waits.
    Queue,
    /// Queue this text, even while a turn runs.
    Enqueue(String),
    /// Approve a request; the only open one if none is named.
    Approve(Option<String>),
    /// Decline a request.
    Deny(Option<String>),
    /// Answer a request.
    Answer {
        /// The request.
        request_id: RequestName,
        /// The answer.
        text: String,
    },
    /// Begin another thread.
    New,
    /// Show the workspaces.
    Projects,
    /// Change to this workspace.
    Project(String),
    /// Show what the last turn changed.
    Diff,
    /// Show tokens and time used.
    Usage,
    /// Show the model; change to this one.
    Model(Option<String>),
    /// Show the reasoning effort; change to this one.
    Effort(Option<String>),
    /// List the threads of the conversation.
    List,
    /// Continue the thread with this number of the list.
    Switch(String),
    /// Continue a task that was begun elsewhere.
    Resume(String),
    /// Show who the sender is.
    WhoAmI,
    /// Show why the last turn failed.
    Details,
    /// Give Codex the last prompt again that failed.
    Retry,
    /// A text that starts with `/` but is not a command, with the reason.
    Unknown(String),
}

impl Command {
    /// Reads a command; `None` if the text is a prompt. A path such as `/etc/hosts` is a prompt, and so is any first
    /// word with more than letters in it.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let body = text.strip_prefix('/')?;
        let (word, rest) = body.split_once(char::is_whitespace).unwrap_or((body, ""));
        // In groups a command names its bot: `/status@codex_bot`.
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
            "model" => Self::Model(said()),
            "effort" => Self::Effort(said()),
            "list" => Self::List,
            "switch" => said().map_or(Self::List, Self::Switch),
            "resume" => said().map_or(Self::Unknown("resume needs the name of a task".into()), Self::Resume),
            "whoami" => Self::WhoAmI,
            "details" => Self::Details,
            "retry" => Self::Retry,
            other => Self::Unknown(format!("there is no command /{other}")),
        })
    }

    /// The part of a text that may be stored in readable form. An answer is left out, because it may be a secret.
    pub fn kept(text: &str) -> Cow<'_, str> {
        match Self::parse(text) {
            Some(Self::Answer { request_id, .. }) if request_id.as_str().starts_with("req-") => {
                format!("/answer {request_id} …").into()
            }
            Some(Self::Answer { .. }) => "/answer …".into(),
            // The answer may be where the request's name should be.
            Some(Self::Unknown(what)) if what == ANSWER_NEEDS => "/answer …".into(),
            _ => text.into(),
        }
    }

    /// Whether the command is carried out at once. Other commands keep their place among the messages.
    pub fn is_urgent(&self) -> bool {
        match self {
            Self::New
            | Self::Project(_)
            | Self::Enqueue(_)
            | Self::Switch(_)
            | Self::Resume(_)
            | Self::Retry => false,
            Self::Model(chosen) | Self::Effort(chosen) => chosen.is_none(),
            _ => true,
        }
    }

    /// Whether the command is about what runs at that moment, so that it must not be carried out late.
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
