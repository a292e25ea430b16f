//! A request as a card: all that the decision covers, and a form with the answers on offer.

use codex_bridge_core::Caller;
use codex_bridge_core::request::{OpenedChanges, RequestRecord, RequestState};
use codex_bridge_core::task::Task;
use codex_bridge_core::token::Role;
use codex_session::Ask;
use codex_session::ask::{Label, Offer};
use redact::plain::plain;
use serde_json::{Map, Value, json};

use super::cut;
use super::diff::{self, File};
use super::fields::Fields;
use super::form::{self, FIELD, FormOf};
use super::words::{self, Button};
use crate::calls::Decide;
use crate::failure::{Code, Failure};
use crate::transcript::decided;
use crate::view::{self, ChangeKind, Detail, Question};

/// An answer of one's own.
const OWN: &str = "own.";
/// Facts that have a place of their own on the card.
const PLACED: [Label; 5] = [Label::Careful, Label::Command, Label::Directory, Label::Reason, Label::Sandbox];

/// What stands before the outcome, for whoever has not decided.
const HEAD: &str = "No answer is needed any more";

/// A request as it is shown.
pub struct Card {
    /// What is asked.
    pub request: view::Request,
    /// What the task was to do.
    pub task_summary: String,
    /// What needs care, told before everything else.
    pub care: Option<String>,
    /// The sandbox that holds.
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
    /// Whether all of it is here.
    pub extent: Extent,
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
    /// What stands before that.
    pub head: &'static str,
    /// The tone in which it is said: `good` or `wait`.
    pub tone: &'static str,
}

/// Whether all that a decision covers is on the card.
#[derive(Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Whole,
    /// The beginning: whoever agrees opens the whole first.
    Beginning,
    /// All of it, since somebody has opened it.
    Opened,
    /// The beginning, and the rest was not kept: nobody can see what they would agree to.
    Lost,
}

impl Card {
    /// The card of a request of this task.
    pub fn new(record: &RequestRecord, task: &Task, caller: &Caller) -> Self {
        let verdict = verdict(record);
        let ask = &record.ask;
        let request = view::Request::from(record.clone());
        let detail = |label: Label| ask.detail(&label).map(str::to_owned);
        let sandbox = detail(Label::Sandbox).unwrap_or_else(|| task.settings.sandbox.as_str().to_owned());
        let takes_form = request.decisions.iter().any(|it| it == "form");
        let form = takes_form.then(|| form::form(&request.fields));
        let is_placed = |fact: &&Detail| {
            PLACED.contains(&fact.label)
                || (fact.label == Label::Fields && matches!(form, Some(FormOf::Fields(_))))
        };
        let mut buttons: Vec<Button> = request.decisions.iter().filter_map(|it| words::button(it)).collect();
        name_the_rule(&mut buttons, ask);
        name_the_dismissal(&mut buttons, &request);
        Self {
            task_summary: plain(&task.prompt_summary).into_owned(),
            care: detail(Label::Careful),
            sandbox,
            facts: request.details.iter().filter(|it| !is_placed(it)).cloned().collect(),
            files: files(&request),
            sub_agent: request.sub_agent.as_deref().map(|id| plain(id).into_owned()),
            hidden: hidden(request.hidden_secrets),
            cut: missing(&request),
            extent: extent(&request),
            whole_changes: request.whole_changes_bytes.map(cut::size),
            asked_at: words::moment(record.created_at),
            expires_at: record.expires_at.map(words::moment),
            questions: ask.questions.clone(),
            form,
            buttons,
            may_decide: caller.role >= Role::Approver,
            verdict,
            head: HEAD,
            tone: "wait",
            request,
        }
    }

    /// The same with the whole changes, and the digest that shows that they were opened.
    pub fn opened(mut self, whole: OpenedChanges) -> Self {
        let was_cut = self.extent != Extent::Whole;
        self.request.changes = Some(whole.changes);
        self.request.digest = whole.digest;
        self.files = files(&self.request);
        (self.extent, self.cut) = match extent(&self.request) {
            Extent::Whole if was_cut => (Extent::Opened, None),
            Extent::Whole => (Extent::Whole, None),
            // Longer than what is kept at most.
            _ => {
                self.request.whole_changes_bytes = None;
                (Extent::Lost, missing(&self.request))
            }
        };
        self
    }

    /// Whether agreeing has to wait for the whole to be opened, or cannot be done here at all.
    pub fn holds_back(&self, button: &Button) -> bool {
        button.is_yes() && matches!(self.extent, Extent::Beginning | Extent::Lost)
    }
}

/// Whether the changes of a request are all on its card.
pub fn extent(request: &view::Request) -> Extent {
    let is_cut = request.changes.iter().flatten().any(|change| change.cut_bytes > 0);
    match (is_cut, request.whole_changes_bytes) {
        (false, _) => Extent::Whole,
        (true, Some(_)) => Extent::Beginning,
        (true, None) => Extent::Lost,
    }
}

/// A rule for good names the commands that it covers.
fn name_the_rule(buttons: &mut [Button], ask: &Ask) {
    let prefix = ask.offers.iter().find_map(|offer| match offer {
        Offer::AcceptAlways { prefix } => Some(prefix.join(" ")),
        _ => None,
    });
    let button = buttons.iter_mut().find(|it| it.decision == "acceptAlways");
    if let (Some(button), Some(rule)) = (button, prefix) {
        button.meaning = format!("Yes, for good: every command that begins with “{rule}”, in every task");
    }
}

/// To an MCP server there is an answer that is neither yes nor no, and the turn goes on.
fn name_the_dismissal(buttons: &mut [Button], request: &view::Request) {
    let dismissal = buttons.iter_mut().find(|it| it.decision == "cancel");
    if let (Some(button), "elicitation") = (dismissal, request.kind.as_str()) {
        button.words = "Dismiss";
        "Neither yes nor no; Codex goes on without it".clone_into(&mut button.meaning);
    }
}

fn files(request: &view::Request) -> Vec<File> {
    let changes = request.changes.as_deref().unwrap_or_default();
    let shown = changes.iter().map(|change| {
        // All of it belongs to this one file, whatever its lines look like.
        let lines = diff::lines(change.without_header());
        let path = match &change.moved_to {
            Some(moved_to) => format!("{} → {moved_to}", change.path),
            None => change.path.clone(),
        };
        let mut file = File {
            path: plain(&path).into_owned(),
            fate: match change.kind {
                ChangeKind::Add => "new",
                ChangeKind::Delete => "deleted",
                _ if change.moved_to.is_some() => "moved",
                _ => "changed",
            },
            added: 0,
            removed: 0,
            shown: None,
            missing: (change.cut_bytes > 0).then(|| {
                format!("{} more of this file's diff are not shown here", cut::size(change.cut_bytes))
            }),
            lines,
            is_decided_on: true,
        };
        // What was counted before it was cut is true of the whole.
        let here = file.changed_here();
        let whole = |counted: Option<usize>, here: usize| counted.map_or(here, |counted| counted.max(here));
        (file.added, file.removed) = match change.cut_bytes {
            0 => here,
            _ => (whole(change.added_lines, here.0), whole(change.removed_lines, here.1)),
        };
        file.shown = (change.cut_bytes > 0).then_some(here);
        file
    });
    shown.collect()
}

fn missing(request: &view::Request) -> Option<String> {
    let bytes: usize = request.changes.iter().flatten().map(|change| change.cut_bytes).sum();
    let what_then = match request.whole_changes_bytes {
        Some(_) => " Open the whole diff before you approve.",
        None => " They were not kept, so this cannot be approved here: decline, and ask for smaller steps.",
    };
    (bytes > 0).then(|| {
        let missing = cut::size(bytes);
        format!(
            "Not all is shown here: {missing} more of the changes are covered by the decision.{what_then}"
        )
    })
}

fn hidden(secrets: usize) -> Option<String> {
    match secrets {
        0 => None,
        1 => Some("1 secret is hidden in what you see".to_owned()),
        count => Some(format!("{count} secrets are hidden in what you see")),
    }
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
        "form" => json!({ "form": form::filled(&record.ask.fields, fields)? }),
        word => word.into(),
    };
    let digest = fields.said("digest").map(str::to_owned);
    Ok(Decide { decision, digest, revealed: false })
}

fn answers(ask: &Ask, fields: &Fields) -> Result<Value, Failure> {
    let mut answers = Map::new();
    for question in &ask.questions {
        let own = format!("{OWN}{}", question.id);
        let chosen = format!("{FIELD}{}", question.id);
        // Words of one's own stand above a choice: whoever wrote them meant them.
        let said: Vec<&str> = match fields.said(&own) {
            Some(own) => vec![own],
            None => fields.all(&chosen).collect(),
        };
        if said.is_empty() {
            let message = format!("there is no answer to “{}”", question.text);
            return Err(Failure::new(Code::BadAnswers, message).hint("go back and answer every question"));
        }
        answers.insert(question.id.clone(), json!(said));
    }
    Ok(Value::Object(answers))
}

#[cfg(test)]
mod tests;
