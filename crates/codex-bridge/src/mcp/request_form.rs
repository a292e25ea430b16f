//! A request of Codex's as a form for the client's user, and their answer as a decision.
//!
//! Only what a person said counts. A form that was dismissed, an answer that does not fit and an error of the client
//! decide nothing: the request stays open for someone else. Secrets are not asked for by a form (MCP forbids it), and
//! rules for good are not on offer here.

use std::collections::BTreeMap;
use std::time::Duration;

use codex_bridge_core::id::short;
use codex_session::Decision;
use redact::plain::plain;
use rmcp::model::{
    ClientCapabilities, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationSchema, InputRequest, InputRequests, JsonObject, ProtocolVersion,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Map, Value, json};

use super::access::Access;
use crate::calls::decision_word;
use crate::view::{Question, QuestionOption, Request};

/// Nobody reads a form and answers it in less time than this. What comes sooner comes from a program that asked nobody and
/// decides nothing, yes or no: codex 0.166 as a client, under the approval policy `never`, answers `decline` at once, and a
/// client that fills in every form would answer `accept`. It is no lock: a program that shall decide has other ways, which
/// say so. It keeps one from deciding by accident.
pub const FASTEST: Duration = Duration::from_millis(300);
/// Of what is asked, so much is told to those who cannot be asked. It may hold whole diffs, which are to be had elsewhere.
const TOLD_CHARS: usize = 1500;

/// The form's one field for an approval.
const DECISION: &str = "decision";
/// What may be decided by a form, with what it means.
const WORDS: [(&str, &str); 4] = [
    ("accept", "yes, once"),
    ("acceptForSession", "yes, and what stands under Session, without asking again"),
    ("decline", "no, Codex goes on without it"),
    ("cancel", "no, and the turn ends"),
];

/// How the client's user can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// By a request of ours, while the call runs: revisions before 2026-07-28.
    Elicit,
    /// By a result that asks for input, after which the client calls again: 2026-07-28 and later.
    InputRequired,
    /// Not at all.
    Never,
}

impl Manner {
    /// How it is with this call.
    pub fn of(access: &Access, context: &RequestContext<RoleServer>) -> Self {
        let asks = context.client_capabilities().is_some_and(|capabilities| asks_people(&capabilities));
        match asks && access.may_decide {
            false => Self::Never,
            true if is_modern(context) => Self::InputRequired,
            true => Self::Elicit,
        }
    }
}

/// Whether the call is of 2026-07-28 or later, where a server sends no requests.
pub fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

/// Whether the client shows forms to its user. One that names no kind means forms, as before there were others.
fn asks_people(capabilities: &ClientCapabilities) -> bool {
    capabilities.elicitation.as_ref().is_some_and(|can| can.form.is_some() || can.url.is_none())
}

/// The form for a request; none if it cannot be asked by one.
pub fn form(request: &Request) -> Option<ElicitRequestParams> {
    let schema = if offers(request, "answers") { question_schema(request)? } else { word_schema(request)? };
    Some(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message(request),
        requested_schema: schema,
    })
}

/// The forms for all requests that can be asked by one, under the names that their answers come back with.
pub fn input_requests(open: &[Request]) -> InputRequests {
    let asked = |request: &Request| {
        let form = InputRequest::Elicitation(ElicitRequest::new(form(request)?));
        Some((name(request), form))
    };
    open.iter().filter_map(asked).collect()
}

/// What a form is about: an answer under this name is to what was shown, and to nothing else.
pub fn name(request: &Request) -> String {
    format!("{}.{}", request.request_id, request.digest)
}

fn offers(request: &Request, decision: &str) -> bool {
    request.decisions.iter().any(|offered| offered == decision)
}

fn word_schema(request: &Request) -> Option<ElicitationSchema> {
    // A form of an MCP server, or a page to visit, is more than a yes or a no. And nobody agrees to a diff by its beginning.
    let is_cut = request.changes.iter().flatten().any(|change| change.cut_bytes > 0);
    if offers(request, "form") || !offers(request, "accept") || is_cut {
        return None;
    }
    let offered: Vec<_> = WORDS.into_iter().filter(|(word, _)| offers(request, word)).collect();
    let words: Vec<&str> = offered.iter().map(|(word, _)| *word).collect();
    let meanings: Vec<String> = offered.iter().map(|(word, means)| format!("{word}: {means}")).collect();
    let decision =
        json!({ "type": "string", "title": "Decision", "description": meanings.join("; "), "enum": words });
    schema(&Map::from_iter([(DECISION.to_owned(), decision)]))
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
    schema(&questions.iter().map(|question| (question.id.clone(), field(question))).collect())
}

fn choice(option: &QuestionOption) -> String {
    let (label, description) = (plain(&option.label), plain(&option.description));
    if description.is_empty() { label.into_owned() } else { format!("{label}: {description}") }
}

fn schema(fields: &JsonObject) -> Option<ElicitationSchema> {
    let required: Vec<String> = fields.keys().cloned().collect();
    let whole = json!({ "type": "object", "properties": fields, "required": required });
    serde_json::from_value(whole).ok()
}

/// All that the decision covers, in words.
fn message(request: &Request) -> String {
    let mut lines = vec![format!("Codex asks (task {}): {}", short(&request.task_id), plain(&request.title))];
    lines.extend(request.details.iter().map(|it| fact(&plain(it.label.as_str()), &plain(&it.text))));
    for change in request.changes.iter().flatten() {
        lines.push(block(&plain(&change.diff)));
    }
    if request.hidden_secrets > 0 {
        lines.push(format!("Secrets that are hidden in this: {}", request.hidden_secrets));
    }
    if let Some(thread) = &request.sub_agent {
        lines.push(format!("Asked by a sub-agent, thread {}", plain(thread)));
    }
    lines.join("\n")
}

fn fact(label: &str, text: &str) -> String {
    if text.contains('\n') { format!("{label}:\n{}", block(text)) } else { format!("{label}: {text}") }
}

/// Lines of others are set off: none of them can pose as one of ours.
fn block(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// What a person decided; none if they did not.
pub fn decision(request: &Request, answer: &ElicitResult) -> Option<Decision> {
    match answer.action {
        ElicitationAction::Accept => chosen(request, answer.content.as_ref()?),
        ElicitationAction::Decline if offers(request, "decline") => Some(Decision::Decline),
        // Dismissed without a choice; or a no that is not on offer, as with questions that can only be left open.
        _ => None,
    }
}

fn chosen(request: &Request, content: &Value) -> Option<Decision> {
    if offers(request, "answers") {
        let answer = |question: &Question| {
            Some((question.id.clone(), vec![content.get(&question.id)?.as_str()?.to_owned()]))
        };
        let answers: Option<BTreeMap<_, _>> = request.questions.iter().map(answer).collect();
        return answers.map(Decision::Answers);
    }
    let word = content.get(DECISION)?.as_str()?;
    let is_on_offer = WORDS.iter().any(|(known, _)| *known == word) && offers(request, word);
    decision_word(word).ok().filter(|_| is_on_offer)
}

/// How someone else can answer, to the letter, and what it is about, if that is long only in part.
pub fn how_to_answer(request: &Request) -> String {
    let Request { task_id, request_id, digest, .. } = request;
    // Commands are for people, the call is for a program.
    let (task, id) = (short(task_id), short(request_id));
    let by_hand = if offers(request, "answers") || offers(request, "form") {
        format!("codex-bridge answer {task} {id} KEY=ANSWER")
    } else {
        format!("codex-bridge approve {task} {id}` or `codex-bridge decline {task} {id}")
    };
    let whole = message(request);
    let asked = match whole.char_indices().nth(TOLD_CHARS) {
        Some((end, _)) => {
            format!("{}…\nThis is not all: `codex-bridge requests {task}` shows the rest.", &whole[..end])
        }
        None => whole,
    };
    format!(
        "{asked} Answer with `{by_hand}`, or pass a person's decision on by the codex_bridge tool: \
         {{\"action\": \"respond\", \"task_id\": \"{task_id}\", \"request_id\": \"{request_id}\", \
         \"digest\": \"{digest}\", …}}."
    )
}

#[cfg(test)]
mod tests;
