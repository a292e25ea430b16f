//! A request as a card: everything that the decision covers, and a form to decide it.

use codex_bridge_core::Caller;
use codex_bridge_core::desk::Verb;
use codex_bridge_core::request::{DecisionWord, OpenedChanges, RequestRecord, RequestState};
use codex_bridge_core::task::Task;
use codex_session::Ask;
use codex_session::ask::{Label, Offer};
use redact::plain::plain;
use serde_json::{Map, Value, json};

use super::cut;
use super::diff::{self, File};
use super::fields::Fields;
use super::form::{self, FIELD, McpForm};
use super::words::{self, Button};
use crate::calls::Decide;
use crate::failure::Failure;
use crate::view::{self, ChangeKind, Detail, Question, RequestKind};

/// The prefix of the field for an answer in one's own words.
const OWN: &str = "own.";
/// Details that the card shows in a place of their own.
const PLACED: [Label; 5] = [Label::Careful, Label::Command, Label::Directory, Label::Reason, Label::Sandbox];

/// Stands before the outcome of a closed request.
const CLOSED: &str = "This request is closed";

/// A request on a page.
pub struct Card {
    /// The request.
    pub request: view::Request,
    /// The beginning of the task's first prompt.
    pub task_summary: String,
    /// A warning, shown before everything else.
    pub warning: Option<String>,
    /// The sandbox.
    pub sandbox: String,
    /// The other details that the decision covers.
    pub facts: Vec<Detail>,
    /// The files that would change.
    pub files: Vec<File>,
    /// The thread of the sub-agent that asks, if a sub-agent does.
    pub sub_agent: Option<String>,
    /// A sentence about hidden secrets.
    pub hidden: Option<String>,
    /// A sentence about changes that are not shown.
    pub cut: Option<String>,
    /// The size of the whole changes, if they were stored.
    pub whole_changes: Option<String>,
    /// Whether all changes are shown.
    pub extent: Extent,
    /// When Codex asked.
    pub asked_at: String,
    /// When the request expires.
    pub expires_at: Option<String>,
    /// The questions.
    pub questions: Vec<Question>,
    /// The form of an MCP server.
    pub form: Option<McpForm>,
    /// The buttons.
    pub buttons: Vec<Button>,
    /// Whether the caller may decide.
    pub may_decide: bool,
    /// The outcome. `None` while the request is open.
    pub outcome: Option<String>,
    /// Stands before the outcome.
    pub outcome_title: &'static str,
    /// The tone of the outcome: `good` or `wait`.
    pub outcome_tone: &'static str,
}

/// How much of the changes the card shows.
#[derive(Debug, PartialEq, Eq)]
pub enum Extent {
    /// All changes.
    Whole,
    /// The beginning. The whole must be opened before an approval.
    Beginning,
    /// All changes, after they were opened.
    Opened,
    /// The beginning. The rest was not stored, so the request cannot be approved.
    Lost,
}

impl Card {
    /// The card of a request.
    pub fn new(record: &RequestRecord, task: &Task, caller: &Caller) -> Self {
        let outcome = outcome(record);
        let ask = &record.ask;
        let request = view::Request::from(record.clone());
        let detail = |label: Label| ask.detail(&label).map(str::to_owned);
        let sandbox = detail(Label::Sandbox).unwrap_or_else(|| task.settings.sandbox.as_str().to_owned());
        let form = request.offers(&DecisionWord::Form).then(|| form::form(&request.fields));
        let is_placed = |fact: &&Detail| {
            PLACED.contains(&fact.label)
                || (fact.label == Label::Fields && matches!(form, Some(McpForm::Fields(_))))
        };
        let mut buttons: Vec<Button> = request.decisions.iter().filter_map(words::button).collect();
        describe_rule(&mut buttons, ask);
        describe_dismissal(&mut buttons, &request);
        Self {
            task_summary: plain(&task.prompt_summary).into_owned(),
            warning: detail(Label::Careful),
            sandbox,
            facts: request.details.iter().filter(|fact| !is_placed(fact)).cloned().collect(),
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
            may_decide: caller.may(Verb::Decide).is_ok(),
            outcome,
            outcome_title: CLOSED,
            outcome_tone: "wait",
            request,
        }
    }

    /// The card with the whole changes, and with the digest that allows an approval.
    pub fn opened(mut self, whole: OpenedChanges) -> Self {
        let was_cut = self.extent != Extent::Whole;
        self.request.changes = Some(whole.changes);
        self.request.digest = whole.digest;
        self.files = files(&self.request);
        (self.extent, self.cut) = match extent(&self.request) {
            Extent::Whole if was_cut => (Extent::Opened, None),
            Extent::Whole => (Extent::Whole, None),
            // Longer than the limit for stored changes.
            _ => {
                self.request.whole_changes_bytes = None;
                (Extent::Lost, missing(&self.request))
            }
        };
        self
    }

    /// Whether a button is disabled because not all changes are shown.
    pub fn is_disabled(&self, button: &Button) -> bool {
        button.is_approval() && matches!(self.extent, Extent::Beginning | Extent::Lost)
    }
}

/// How much of the changes a request has.
pub fn extent(request: &view::Request) -> Extent {
    let is_cut = request.changes.iter().flatten().any(|change| change.cut_bytes > 0);
    match (is_cut, request.whole_changes_bytes) {
        (false, _) => Extent::Whole,
        (true, Some(_)) => Extent::Beginning,
        (true, None) => Extent::Lost,
    }
}

/// Adds the covered commands to the button for a permanent rule.
fn describe_rule(buttons: &mut [Button], ask: &Ask) {
    let prefix = ask.offers.iter().find_map(|offer| match offer {
        Offer::AcceptAlways { prefix } => Some(prefix.join(" ")),
        _ => None,
    });
    let button = buttons.iter_mut().find(|button| button.decision == DecisionWord::AcceptAlways);
    if let (Some(button), Some(rule)) = (button, prefix) {
        button.meaning = format!("Yes, always, in every thread: every command that begins with “{rule}”");
    }
}

/// For an MCP server, `cancel` is neither yes nor no, and the turn continues.
fn describe_dismissal(buttons: &mut [Button], request: &view::Request) {
    let dismissal = buttons.iter_mut().find(|button| button.decision == DecisionWord::Cancel);
    if let (Some(button), RequestKind::Elicitation) = (dismissal, request.kind) {
        button.label = "Dismiss";
        "Neither yes nor no. Codex continues without it".clone_into(&mut button.meaning);
    }
}

fn files(request: &view::Request) -> Vec<File> {
    let changes = request.changes.as_deref().unwrap_or_default();
    let files = changes.iter().map(|change| {
        // Every line belongs to this file, even one that looks like a header.
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
            is_in_request: true,
        };
        // The stored counts are those of the whole diff.
        let shown = file.shown_changes();
        let whole = |stored: Option<usize>, shown: usize| stored.map_or(shown, |stored| stored.max(shown));
        (file.added, file.removed) = match change.cut_bytes {
            0 => shown,
            _ => (whole(change.added_lines, shown.0), whole(change.removed_lines, shown.1)),
        };
        file.shown = (change.cut_bytes > 0).then_some(shown);
        file
    });
    files.collect()
}

fn missing(request: &view::Request) -> Option<String> {
    let bytes: usize = request.changes.iter().flatten().map(|change| change.cut_bytes).sum();
    let advice = match request.whole_changes_bytes {
        Some(_) => " Open the whole diff before you approve.",
        None => {
            " They were not stored, so the request cannot be approved here. Decline it, and ask Codex for smaller steps."
        }
    };
    (bytes > 0).then(|| {
        let missing = cut::size(bytes);
        format!(
            "Not all changes are shown: {missing} more of the changes are covered by the decision.{advice}"
        )
    })
}

fn hidden(secrets: usize) -> Option<String> {
    match secrets {
        0 => None,
        1 => Some("1 secret is hidden".to_owned()),
        count => Some(format!("{count} secrets are hidden")),
    }
}

/// The outcome of a closed request: the decision, by whom, and when.
fn outcome(record: &RequestRecord) -> Option<String> {
    let by = record.decided_by.as_deref().unwrap_or("somebody");
    let when = record.decided_at.or(record.closed_at).map(words::moment).unwrap_or_default();
    let decision = record.decision.as_ref().map_or("answered", DecisionWord::past_tense);
    Some(match record.state {
        RequestState::Open => return None,
        RequestState::Decided => format!("{decision} by {by} at {when}; not yet confirmed by Codex"),
        RequestState::Resolved => format!("{decision} by {by} at {when}"),
        RequestState::AnsweredElsewhere => {
            format!("answered at {when} by another client of Codex")
        }
        RequestState::Expired => format!("declined at {when}: nobody answered in time"),
        RequestState::Orphaned if record.decided_by.is_some() => {
            format!("{decision} by {by} at {when}, but the turn or its host ended before Codex received it")
        }
        RequestState::Orphaned => {
            format!("closed at {when}: the turn or its host ended before anybody answered")
        }
    })
}

/// The decision of a submitted form.
pub fn decision(record: &RequestRecord, fields: &Fields) -> Result<Decide, Failure> {
    let pressed = DecisionWord::from(fields.value("decision").unwrap_or_default());
    let decision = match pressed {
        DecisionWord::Answers => json!({ "answers": answers(&record.ask, fields) }),
        DecisionWord::Form => json!({ "form": form::filled(&record.ask.fields, fields)? }),
        word => word.as_str().into(),
    };
    let digest = fields.value("digest").map(str::to_owned);
    Ok(Decide { decision, digest, revealed: false })
}

fn answers(ask: &Ask, fields: &Fields) -> Value {
    let mut answers = Map::new();
    for question in &ask.questions {
        let own = format!("{OWN}{}", question.id);
        let chosen = format!("{FIELD}{}", question.id);
        // A typed answer overrides a choice.
        let given: Vec<&str> = match fields.value(&own) {
            Some(own) => vec![own],
            None => fields.values(&chosen).collect(),
        };
        answers.insert(question.id.clone(), json!(given));
    }
    Value::Object(answers)
}

#[cfg(test)]
mod tests;
