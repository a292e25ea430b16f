//! Decisions on requests, and their translation to answers.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use codex_wire::answer::{Answer, CommandDecision, ElicitationAction, GrantScope, Verdict};
use codex_wire::request::{
    FileSystemPermissions, Permissions, PermissionsApproval, ServerRequest, UserInputRequest,
};
use codex_wire::{Epoch, RequestId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::ask::question_key;

/// The key of a request: its id is unique only within one epoch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestKey {
    /// The epoch of the host that asked.
    pub epoch: Epoch,
    /// The id that the answer must carry.
    pub id: RequestId,
}

/// A decision of a person or a policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Yes, once.
    Accept,
    /// Yes, and the same again in this thread without asking.
    AcceptForSession,
    /// Yes, permanently in every thread. Without the operator's permission it counts as a single yes.
    AcceptAlways,
    /// Declined; the turn continues.
    Decline,
    /// Declined, and the turn ends.
    Cancel,
    /// These permissions; those that were not requested are left out.
    Grant {
        /// What is granted.
        permissions: Permissions,
        /// For how long.
        scope: GrantScope,
    },
    /// Answers to questions, by question id.
    Answers(BTreeMap<String, Vec<String>>),
    /// A filled form.
    Form(Value),
}

impl Decision {
    /// The same without typed answers.
    #[must_use]
    pub fn without_answers(self) -> Self {
        match self {
            Self::Answers(_) => Self::Answers(BTreeMap::new()),
            Self::Form(_) => Self::Form(Value::Null),
            decision => decision,
        }
    }
}

impl FromStr for Decision {
    type Err = Infallible;

    /// Reads what people type. Anything that is not clearly an approval declines; `always` lasts for the session only.
    ///
    /// ```
    /// use codex_session::Decision;
    ///
    /// assert_eq!("once".parse(), Ok(Decision::Accept));
    /// assert_eq!("always".parse(), Ok(Decision::AcceptForSession));
    /// assert_eq!("hm".parse(), Ok(Decision::Decline));
    /// ```
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.trim().to_ascii_lowercase().as_str() {
            "once" | "accept" | "approve" | "yes" | "y" => Self::Accept,
            "session" | "always" | "acceptforsession" => Self::AcceptForSession,
            "cancel" | "abort" => Self::Cancel,
            _ => Self::Decline,
        })
    }
}

/// Who decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "by", content = "detail")]
pub enum Decider {
    /// A person, with the name that the interface knows.
    Person(String),
    /// The operator's settings, with the reason.
    Policy(String),
    /// Nobody answered in time.
    TimeLimit,
}

impl fmt::Display for Decider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person(name) => f.write_str(name),
            Self::Policy(reason) => write!(f, "policy: {reason}"),
            Self::TimeLimit => f.write_str("nobody answered in time"),
        }
    }
}

/// The answer that tells Codex what was decided.
pub fn answer(request: &ServerRequest, decision: &Decision, allow_permanent_rules: bool) -> Answer {
    match request {
        ServerRequest::Command(command) => {
            let rule = command.permanent_rule().filter(|_| allow_permanent_rules);
            match (decision, rule) {
                (Decision::AcceptAlways, Some(prefix)) => {
                    Answer::Command(CommandDecision::AmendExecpolicy(prefix.to_vec()))
                }
                _ => Answer::Command(CommandDecision::Plain(verdict(decision))),
            }
        }
        ServerRequest::FileChange(_) => Answer::FileChange(verdict(decision)),
        ServerRequest::Permissions(asked) => grant(asked, decision),
        ServerRequest::UserInput(asked) => match decision {
            Decision::Answers(answers) => Answer::UserInput(by_own_ids(asked, answers)),
            _ => Answer::UserInput(BTreeMap::new()),
        },
        ServerRequest::Elicitation(asked) => {
            let (action, content) = match decision {
                Decision::Accept | Decision::AcceptForSession | Decision::AcceptAlways => {
                    (ElicitationAction::Accept, None)
                }
                Decision::Form(content) => (ElicitationAction::Accept, Some(content.clone())),
                Decision::Cancel => (ElicitationAction::Cancel, None),
                _ => (ElicitationAction::Decline, None),
            };
            let for_session = *decision == Decision::AcceptForSession && asked.is_tool_approval();
            Answer::Elicitation { action, content, meta: for_session.then(|| json!({"persist": "session"})) }
        }
        ServerRequest::ToolCall(_) | ServerRequest::CurrentTime | ServerRequest::Unknown { .. } => {
            Answer::fail_closed(request)
        }
    }
}

/// The answers by Codex's ids of the questions. An unknown key is passed on unchanged.
fn by_own_ids(
    asked: &UserInputRequest,
    answers: &BTreeMap<String, Vec<String>>,
) -> BTreeMap<String, Vec<String>> {
    let own_id = |key: &String| {
        let mut questions = asked.questions.iter().enumerate();
        let question = questions.find(|(index, question)| question_key(*index, &question.id) == *key);
        question.map_or_else(|| key.clone(), |(_, question)| question.id.clone())
    };
    answers.iter().map(|(key, words)| (own_id(key), words.clone())).collect()
}

fn verdict(decision: &Decision) -> Verdict {
    match decision {
        Decision::Accept | Decision::AcceptAlways => Verdict::Accept,
        Decision::AcceptForSession => Verdict::AcceptForSession,
        Decision::Cancel => Verdict::Cancel,
        Decision::Decline | Decision::Grant { .. } | Decision::Answers(_) | Decision::Form(_) => {
            Verdict::Decline
        }
    }
}

fn grant(asked: &PermissionsApproval, decision: &Decision) -> Answer {
    let (granted, scope) = match decision {
        Decision::Accept | Decision::AcceptAlways => (asked.permissions.clone(), GrantScope::Turn),
        Decision::AcceptForSession => (asked.permissions.clone(), GrantScope::Session),
        Decision::Grant { permissions, scope } => (common(&asked.permissions, permissions), *scope),
        _ => (Permissions::default(), GrantScope::Turn),
    };
    Answer::Permissions { granted, scope }
}

/// The permissions that are both requested and granted.
fn common(asked: &Permissions, granted: &Permissions) -> Permissions {
    let network = asked.network.clone().filter(|network| Some(network) == granted.network.as_ref());
    let file_system = match (&asked.file_system, &granted.file_system) {
        (Some(asked), Some(granted)) => {
            let both = FileSystemPermissions {
                read: overlap(asked.read.as_ref(), granted.read.as_ref()),
                write: overlap(asked.write.as_ref(), granted.write.as_ref()),
                entries: overlap(asked.entries.as_ref(), granted.entries.as_ref()),
            };
            (both != FileSystemPermissions::default()).then_some(both)
        }
        _ => None,
    };
    Permissions { file_system, network }
}

fn overlap<T: PartialEq + Clone>(asked: Option<&Vec<T>>, granted: Option<&Vec<T>>) -> Option<Vec<T>> {
    let both: Vec<T> =
        asked?.iter().filter(|entry| granted.is_some_and(|it| it.contains(entry))).cloned().collect();
    (!both.is_empty()).then_some(both)
}

#[cfg(test)]
mod tests;
