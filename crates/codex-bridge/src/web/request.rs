//! A request as a card: all that the decision covers, and a form with the answers on offer.

use codex_bridge_core::request::{RequestRecord, RequestState};
use codex_bridge_core::task::Task;
use redact::plain::plain;
use serde_json::{Map, Value, json};

use super::cut;
use super::diff::{self, File};
use super::fields::Fields;
use super::words::{self, Button};
use crate::calls::Decide;
use crate::cli::render::story::decided;
use crate::failure::Failure;
use crate::http::{Caller, Role};
use crate::view::{self, Detail};

/// Fields of a form begin so: no field of ours can be taken for one of theirs.
const FIELD: &str = "field.";
/// An answer of one's own.
const OWN: &str = "own.";
/// Facts that have a place of their own on the card.
const PLACED: [&str; 5] = ["Command", "Directory", "Reason", "Sandbox", "Fields"];

/// A request as it is shown.
pub struct Card {
    /// What is asked.
    pub request: view::Request,
    /// What the task was to do.
    pub task_summary: String,
    /// The sandbox that holds, and what accepting may do beyond it.
    pub sandbox: String,
    /// Everything else that the decision covers.
    pub facts: Vec<Detail>,
    /// The files that would change.
    pub files: Vec<File>,
    /// The thread of the sub-agent that asks, if it is one.
    pub sub_agent: Option<String>,
    /// How many secrets are hidden, in words.
    pub hidden: Option<String>,
    /// How much of the changes is missing here, in words.
    pub cut: Option<String>,
    /// How much the whole changes are, if they can be had.
    pub whole_changes: Option<String>,
    /// When it was asked.
    pub asked_at: String,
    /// When nobody may answer any more.
    pub expires_at: Option<String>,
    /// What is asked of the person.
    pub questions: Vec<Question>,
    /// The form of an MCP server.
    pub form: Option<FormOf>,
    /// What can be pressed.
    pub buttons: Vec<Button>,
    /// Whether whoever looks may decide.
    pub may_decide: bool,
    /// What came of it; none while it is open.
    pub verdict: Option<String>,
}

/// A question with its choices.
pub struct Question {
    /// The key of its answer.
    pub id: String,
    /// What is asked.
    pub text: String,
    /// The choices with what they mean.
    pub options: Vec<(String, String)>,
    /// Whether an answer of one's own will do.
    pub is_free: bool,
    /// Whether the answer is a secret.
    pub is_secret: bool,
}

/// The form of an MCP server.
pub enum FormOf {
    /// Fields that are understood.
    Fields(Vec<Field>),
    /// Anything else is answered as JSON.
    Json,
}

/// One field of a form.
#[derive(Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name, which is its key.
    pub name: String,
    /// `string`, `number`, `integer` or `boolean`.
    pub kind: String,
    /// Whether it must be filled in.
    pub is_required: bool,
    /// What it means.
    pub meaning: String,
}

impl Card {
    /// The card of a request of this task.
    pub fn new(record: &RequestRecord, task: &Task, caller: &Caller) -> Self {
        let verdict = verdict(record);
        let ask = record.ask.clone();
        let request = view::Request::from(record.clone());
        let detail =
            |label: &str| request.details.iter().find(|it| it.label == label).map(|it| it.text.clone());
        let sandbox = detail("Sandbox").unwrap_or_else(|| task.settings.sandbox.as_str().to_owned());
        let is_placed = |fact: &&Detail| PLACED.contains(&fact.label.as_str());
        let mut buttons: Vec<Button> = request.decisions.iter().filter_map(|it| words::button(it)).collect();
        name_the_rule(&mut buttons, &ask);
        Self {
            task_summary: plain(&task.prompt_summary).into_owned(),
            sandbox,
            facts: request.details.iter().filter(|it| !is_placed(it)).cloned().collect(),
            files: files(&request),
            sub_agent: ask["asked_by"]["sub_agent"]["thread_id"].as_str().map(|id| plain(id).into_owned()),
            hidden: hidden(request.hidden_secrets),
            cut: missing(&request),
            whole_changes: request.whole_changes_bytes.map(size),
            asked_at: words::moment(record.created_at),
            expires_at: record.expires_at.map(words::moment),
            questions: questions(&ask),
            form: request.decisions.iter().any(|it| it == "form").then(|| form(detail("Fields").as_deref())),
            buttons,
            may_decide: caller.role >= Role::Approver,
            verdict,
            request,
        }
    }
}

/// A rule for good names the commands that it covers.
fn name_the_rule(buttons: &mut [Button], ask: &Value) {
    let offers = ask["offers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let prefix = offers.iter().find_map(|offer| offer["accept_always"]["prefix"].as_array());
    let words: Vec<&str> = prefix.into_iter().flatten().filter_map(Value::as_str).collect();
    if let (Some(button), false) =
        (buttons.iter_mut().find(|it| it.decision == "acceptAlways"), words.is_empty())
    {
        let rule = words.join(" ");
        button.meaning = format!("Yes, for good: every command that begins with “{rule}”, in every task");
    }
}

fn files(request: &view::Request) -> Vec<File> {
    let changes = request.changes.as_deref().unwrap_or_default();
    let shown = changes.iter().map(|change| {
        // All of it belongs to this one file, whatever its lines look like.
        let lines = diff::lines(change.without_header());
        let count = |class| lines.iter().filter(|line| line.class == class).count();
        let path = match &change.moved_to {
            Some(moved_to) => format!("{} → {moved_to}", change.path),
            None => change.path.clone(),
        };
        File {
            path: plain(&path).into_owned(),
            fate: match change.kind.as_str() {
                "add" => "new",
                "delete" => "deleted",
                _ if change.moved_to.is_some() => "moved",
                _ => "changed",
            },
            added: count("add"),
            removed: count("del"),
            missing: (change.cut_bytes > 0)
                .then(|| format!("{} more of this file's diff are not shown here", size(change.cut_bytes))),
            lines,
        }
    });
    shown.collect()
}

fn missing(request: &view::Request) -> Option<String> {
    let bytes: u64 = request.changes.iter().flatten().map(|change| change.cut_bytes).sum();
    let what_then = match request.whole_changes_bytes {
        Some(_) => "",
        None => " They were not kept: to see all of it, decline and ask for smaller steps.",
    };
    (bytes > 0).then(|| {
        let missing = size(bytes);
        format!(
            "Not all is shown here: {missing} more of the changes are covered by the decision.{what_then}"
        )
    })
}

fn size(bytes: u64) -> String {
    cut::size(usize::try_from(bytes).unwrap_or(usize::MAX))
}

fn hidden(secrets: u64) -> Option<String> {
    match secrets {
        0 => None,
        1 => Some("1 secret is hidden in what you see".to_owned()),
        count => Some(format!("{count} secrets are hidden in what you see")),
    }
}

fn questions(ask: &Value) -> Vec<Question> {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let option = |option: &Value| (text(option, "label"), text(option, "description"));
    let question = |question: &Value| Question {
        id: text(question, "id"),
        text: text(question, "text"),
        options: list(&question["options"]).iter().map(option).collect(),
        is_free: question["is_free"] == true,
        is_secret: question["is_secret"] == true,
    };
    list(&ask["questions"]).iter().map(question).collect()
}

/// The fields of a form, from the lines that describe them: `name (string, required): what it is`.
fn form(described: Option<&str>) -> FormOf {
    let lines = described.unwrap_or_default().lines().filter(|line| !line.trim().is_empty());
    let fields: Option<Vec<Field>> = lines.map(|line| field(line.trim())).collect();
    match fields {
        Some(fields) if !fields.is_empty() => FormOf::Fields(fields),
        _ => FormOf::Json,
    }
}

fn field(line: &str) -> Option<Field> {
    let (name, rest) = line.split_once(" (")?;
    let (kind, meaning) = rest.split_once(')')?;
    let (kind, is_required) = match kind.strip_suffix(", required") {
        Some(kind) => (kind, true),
        None => (kind, false),
    };
    let is_known = matches!(kind, "string" | "number" | "integer" | "boolean");
    let meaning = meaning.strip_prefix(": ").unwrap_or(meaning).to_owned();
    (is_known && !name.contains(char::is_whitespace)).then(|| Field {
        name: name.to_owned(),
        kind: kind.to_owned(),
        is_required,
        meaning,
    })
}

/// What came of a request that is open no more: by whom, and when.
fn verdict(record: &RequestRecord) -> Option<String> {
    let by = record.decided_by.as_deref().unwrap_or("somebody");
    let when = record.decided_at.or(record.closed_at).map(words::moment).unwrap_or_default();
    let said = decided(record.decision.as_deref().unwrap_or_default());
    Some(match record.state {
        RequestState::Open => return None,
        RequestState::Decided => format!("{said} by {by} at {when}; on its way to Codex"),
        RequestState::Resolved => format!("{said} by {by} at {when}"),
        RequestState::AnsweredElsewhere => {
            format!("answered at {when} by another program that talks to Codex")
        }
        RequestState::Expired => format!("nobody answered in time: declined at {when}"),
        RequestState::Orphaned if record.decided_by.is_some() => {
            format!("{said} by {by} at {when}, but the turn or its host ended before Codex took it")
        }
        RequestState::Orphaned => {
            format!("gone at {when}: the turn or its host ended before anyone answered")
        }
    })
}

/// The decision that a form says.
pub fn decision(record: &RequestRecord, fields: &Fields) -> Result<Decide, Failure> {
    let pressed = fields.said("decision").unwrap_or_default();
    let decision = match pressed {
        "answers" => json!({ "answers": answers(&record.ask, fields)? }),
        "form" => json!({ "form": filled(record, fields)? }),
        word => word.into(),
    };
    let digest = fields.said("digest").map(str::to_owned);
    Ok(Decide { decision, digest })
}

fn answers(ask: &Value, fields: &Fields) -> Result<Value, Failure> {
    let mut answers = Map::new();
    for question in questions(ask) {
        let own = format!("{OWN}{}", question.id);
        let chosen = format!("{FIELD}{}", question.id);
        // Words of one's own stand above a choice: whoever wrote them meant them.
        let said: Vec<&str> = match fields.said(&own) {
            Some(own) => vec![own],
            None => fields.all(&chosen).collect(),
        };
        if said.is_empty() {
            let message = format!("there is no answer to “{}”", question.text);
            return Err(Failure::new("bad_answers", message).hint("go back and answer every question"));
        }
        answers.insert(question.id, json!(said));
    }
    Ok(Value::Object(answers))
}

fn filled(record: &RequestRecord, fields: &Fields) -> Result<Value, Failure> {
    let details: Vec<Detail> = serde_json::from_value(record.ask["details"].clone()).unwrap_or_default();
    let described = details.iter().find(|it| it.label == "Fields").map(|it| it.text.as_str());
    let FormOf::Fields(known) = form(described) else {
        let text = fields.said("json").unwrap_or("{}");
        let wrong =
            |error: serde_json::Error| Failure::new("bad_answers", format!("this is no JSON: {error}"));
        return serde_json::from_str(text).map_err(wrong);
    };
    let mut object = Map::new();
    for field in known {
        let said = fields.said(&format!("{FIELD}{}", field.name));
        if let Some(value) = value_of(&field, said)? {
            object.insert(field.name, value);
        }
    }
    Ok(Value::Object(object))
}

fn value_of(field: &Field, said: Option<&str>) -> Result<Option<Value>, Failure> {
    let wrong = |what: &str| Failure::new("bad_answers", format!("{} must be {what}", field.name));
    Ok(match (field.kind.as_str(), said) {
        ("boolean", said) => Some(said.is_some().into()),
        (_, None) if field.is_required => return Err(wrong("filled in")),
        (_, None) => None,
        ("integer", Some(text)) => {
            Some(text.trim().parse::<i64>().map_err(|_| wrong("a whole number"))?.into())
        }
        ("number", Some(text)) => Some(text.trim().parse::<f64>().map_err(|_| wrong("a number"))?.into()),
        (_, Some(text)) => Some(text.into()),
    })
}

#[cfg(test)]
mod tests;
