//! A request of Codex as a form for the client's user, and the user's answer as a decision.
//!
//! Only a person's answer counts. After a dismissed form, an answer that does not fit, or an error of the client, the
//! request stays open for others. A question that is marked secret is not passed on
//! (MCP forbids it), and permanent rules are not offered. The form of an MCP server asks what the server wants.

use std::collections::BTreeMap;
use std::time::Duration;

use codex_bridge_core::id::short;
use codex_bridge_core::request::DecisionWord;
use codex_session::Decision;
use codex_session::ask::Label;
use redact::plain::plain;
use rmcp::model::{
    ClientCapabilities, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationSchema, InputRequest, InputRequests, JsonObject, ProtocolVersion,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Map, Value, json};

use super::access::Access;
use crate::calls::decision_word;
use crate::view::{Detail, Field, Question, QuestionOption, Request, RequestKind};

/// A faster answer comes from a program that did not ask a person, so it is ignored. For example, codex 0.166 as a client
/// with the approval policy `never` answers `decline` at once; other clients may accept every form. This prevents
/// accidents, not attacks.
pub const MIN_ANSWER_TIME: Duration = Duration::from_millis(300);
/// How much of a request [`how_to_answer`] shows. A request may hold whole diffs.
const SHOWN_CHARS: usize = 1500;

/// The only field of a form for an approval.
const DECISION: &str = "decision";
/// The decisions that a form offers, with their meaning.
const DECISIONS: [(&str, &str); 4] = [
    ("accept", "approve once"),
    ("acceptForSession", "approve, and do not ask again for what is listed under Session"),
    ("decline", "decline; Codex continues without it"),
    ("cancel", "decline and end the turn"),
];

/// How the client's user can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskMethod {
    /// By a request to the client while the call runs: MCP before 2026-07-28.
    Elicit,
    /// By a result that asks for input, after which the client calls again: MCP 2026-07-28 and later.
    InputRequired,
    /// Not at all.
    Never,
}

impl AskMethod {
    /// The method for this call.
    pub fn of(access: &Access, context: &RequestContext<RoleServer>) -> Self {
        let has_forms =
            context.client_capabilities().is_some_and(|capabilities| supports_forms(&capabilities));
        match has_forms && access.may_decide {
            false => Self::Never,
            true if is_modern(context) => Self::InputRequired,
            true => Self::Elicit,
        }
    }
}

/// Whether the call uses MCP 2026-07-28 or later, where a server sends no requests.
pub fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

/// Whether the client shows forms to its user. A client that names no kind means forms, the only kind of older revisions.
fn supports_forms(capabilities: &ClientCapabilities) -> bool {
    capabilities.elicitation.as_ref().is_some_and(|kinds| kinds.form.is_some() || kinds.url.is_none())
}

/// The form for a request. `None` if a form cannot express it.
pub fn form(request: &Request) -> Option<ElicitRequestParams> {
    let schema = if request.offers(&DecisionWord::Answers) {
        question_schema(request)?
    } else if request.offers(&DecisionWord::Form) {
        field_schema(request)?
    } else {
        decision_schema(request)?
    };
    // The client shows the fields of the schema, but need not show their defaults, which are sent for fields left out.
    let has_defaults = request.fields.iter().any(|field| field.default.is_some());
    let is_shown = |detail: &Detail| detail.label != Label::Fields || has_defaults;
    Some(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message(request, is_shown),
        requested_schema: schema,
    })
}

/// The forms for all requests that have one. The client returns each answer under the name of its form.
pub fn input_requests(open: &[Request]) -> InputRequests {
    let named = |request: &Request| {
        let form = InputRequest::Elicitation(ElicitRequest::new(form(request)?));
        Some((name(request), form))
    };
    open.iter().filter_map(named).collect()
}

/// The name of a form. With the digest, an answer counts only for the request as it was shown.
pub fn name(request: &Request) -> String {
    format!("{}.{}", request.request_id, request.digest)
}

fn decision_schema(request: &Request) -> Option<ElicitationSchema> {
    // A diff that is shown in part cannot be approved.
    let is_cut = request.changes.iter().flatten().any(|change| change.cut_bytes > 0);
    if !request.offers(&DecisionWord::Accept) || is_cut {
        return None;
    }
    let offered: Vec<_> = DECISIONS.into_iter().filter(|(word, _)| request.offers(&(*word).into())).collect();
    let words: Vec<&str> = offered.iter().map(|(word, _)| *word).collect();
    let meaning = |(word, means): &(&str, &str)| match (*word, &request.kind) {
        // For an MCP server, `cancel` is neither yes nor no.
        ("cancel", RequestKind::Elicitation) => {
            "cancel: neither yes nor no; Codex continues without it".to_owned()
        }
        _ => format!("{word}: {means}"),
    };
    let meanings: Vec<String> = offered.iter().map(meaning).collect();
    let decision =
        json!({ "type": "string", "title": "Decision", "description": meanings.join("; "), "enum": words });
    schema(&Map::from_iter([(DECISION.to_owned(), decision)]), &[DECISION])
}

fn question_schema(request: &Request) -> Option<ElicitationSchema> {
    let questions = &request.questions;
    if questions.is_empty() || questions.iter().any(|question| question.is_secret) {
        return None;
    }
    let field = |question: &Question| {
        let mut field = json!({ "type": "string", "title": plain(&question.text) });
        if !question.options.is_empty() {
            let meanings: Vec<String> = question.options.iter().map(choice).collect();
            field["description"] = meanings.join("; ").into();
            if !question.is_free {
                field["enum"] = question.options.iter().map(|option| option.label.clone()).collect();
            }
        }
        field
    };
    let required: Vec<&str> = questions.iter().map(|question| question.id.as_str()).collect();
    schema(&questions.iter().map(|question| (question.id.clone(), field(question))).collect(), &required)
}

/// The form of an MCP server, as the server asked for it.
fn field_schema(request: &Request) -> Option<ElicitationSchema> {
    let shown = |text: &Option<String>| text.as_deref().map(|text| plain(text).into_owned());
    let property = |field: &Field| {
        let (title, description) = (shown(&field.title), shown(&field.description));
        Some((field.name.clone(), Field { title, description, ..field.clone() }.schema()?))
    };
    let properties: Option<JsonObject> = request.fields.iter().map(property).collect();
    let required = request.fields.iter().filter(|field| field.required).map(|field| field.name.as_str());
    schema(&properties?, &required.collect::<Vec<_>>())
}

fn choice(option: &QuestionOption) -> String {
    let (label, description) = (plain(&option.label), plain(&option.description));
    if description.is_empty() { label.into_owned() } else { format!("{label}: {description}") }
}

fn schema(fields: &JsonObject, required: &[&str]) -> Option<ElicitationSchema> {
    let whole = json!({ "type": "object", "properties": fields, "required": required });
    serde_json::from_value(whole).ok()
}

/// Everything that the decision covers, as text, except for details that the caller leaves out.
fn message(request: &Request, is_shown: impl Fn(&Detail) -> bool) -> String {
    let mut lines = vec![format!("Codex asks (task {}): {}", short(&request.task_id), plain(&request.title))];
    let details = request.details.iter().filter(|detail| is_shown(detail));
    lines.extend(details.map(|detail| fact(&plain(detail.label.as_str()), &plain(&detail.text))));
    for change in request.changes.iter().flatten() {
        lines.push(block(&plain(&change.diff)));
    }
    if request.hidden_secrets > 0 {
        lines.push(format!("Hidden secrets: {}", request.hidden_secrets));
    }
    if let Some(thread) = &request.sub_agent {
        lines.push(format!("Asked by a sub-agent, thread {}", plain(thread)));
    }
    lines.join("\n")
}

fn fact(label: &str, text: &str) -> String {
    if text.contains('\n') { format!("{label}:\n{}", block(text)) } else { format!("{label}: {text}") }
}

/// Indents foreign text, so that no line of it can imitate ours.
fn block(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// The person's decision. `None` if nothing was decided.
pub fn decision(request: &Request, answer: &ElicitResult) -> Option<Decision> {
    match answer.action {
        // The desk checks the values, and takes the defaults of those that are missing. A client that sends no values did
        // not show the form.
        ElicitationAction::Accept if request.offers(&DecisionWord::Form) => match &answer.content {
            Some(values) => Some(Decision::Form(values.clone())),
            None => request.fields.is_empty().then(|| Decision::Form(json!({}))),
        },
        ElicitationAction::Accept => chosen(request, answer.content.as_ref()?),
        ElicitationAction::Decline if request.offers(&DecisionWord::Decline) => Some(Decision::Decline),
        // Dismissed, or declined where that is not offered: a question can only be answered or left open.
        _ => None,
    }
}

fn chosen(request: &Request, content: &Value) -> Option<Decision> {
    if request.offers(&DecisionWord::Answers) {
        let answer = |question: &Question| {
            Some((question.id.clone(), vec![content.get(&question.id)?.as_str()?.to_owned()]))
        };
        let answers: Option<BTreeMap<_, _>> = request.questions.iter().map(answer).collect();
        return answers.map(Decision::Answers);
    }
    let word = content.get(DECISION)?.as_str()?;
    let is_offered = DECISIONS.iter().any(|(known, _)| *known == word) && request.offers(&word.into());
    decision_word(word).ok().filter(|_| is_offered)
}

/// Text that shows a request, shortened if it is long, and the exact commands with which somebody else can decide it.
pub fn how_to_answer(request: &Request) -> String {
    let Request { task_id, request_id, digest, .. } = request;
    // People type short ids; the JSON for programs has whole ones.
    let (task, id) = (short(task_id), short(request_id));
    let takes_answers = request.offers(&DecisionWord::Answers) || request.offers(&DecisionWord::Form);
    let (commands, answer) = if takes_answers {
        let commands = format!("codex-bridge answer {task} {id} {}", request.answer_example());
        (commands, "\"answers\": {\"KEY\": \"ANSWER\"}")
    } else {
        (format!("codex-bridge approve {task} {id}` or `codex-bridge decline {task} {id}"), "…")
    };
    let mut message = message(request, |_| true);
    for (index, question) in request.questions.iter().enumerate() {
        message.push('\n');
        message.push_str(&block(&plain(&question.lines(index + 1).join("\n"))));
    }
    let shown = match message.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => {
            format!("{}…\nThis is not all: `codex-bridge requests {task}` shows the rest.", &message[..end])
        }
        None => message,
    };
    format!(
        "{shown} Decide with `{commands}`, or pass a person's decision on with the codex_bridge tool: \
         {{\"action\": \"respond\", \"task_id\": \"{task_id}\", \"request_id\": \"{request_id}\", \
         \"digest\": \"{digest}\", {answer}}}."
    )
}

#[cfg(test)]
mod tests;
