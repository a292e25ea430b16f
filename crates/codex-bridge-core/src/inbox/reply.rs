//! The texts of replies. Pure; everything in them is already redacted.

use codex_session::failure::STDERR;

use super::{Message, Party, hops};
use crate::outbox::notice::{Content, Reply, Suggestion, TextFormat};
use crate::outbox::{Delivery, DeliveryId, Notice};
use crate::request::RequestRecord;
use crate::task::{Parked, Status, Task, TimeMs};

/// How many bytes of an error or an answer a failure report has.
const TAIL_BYTES: usize = 2 * 1024;

/// The notice that a conversation's earlier history is gone.
pub const FORGOTTEN: &str =
    "What was said here before was too long ago, and has been forgotten: this begins a new thread.";

/// The delivery that answers a message. A reply to another agent ends with a hop mark.
pub(crate) fn delivery(
    message: &Message,
    id: DeliveryId,
    task: Option<&Task>,
    reply: ReplyText,
    now: TimeMs,
) -> Delivery {
    let is_for_agent = message.party == Party::Agent;
    let content = Content::Reply(Reply {
        closing: is_for_agent.then(|| hops::mark(&message.external_id, message.hops)),
        in_reply_to: Some(message.external_id.clone()),
        format: reply.format,
        suggestions: reply.suggestions,
        ..Reply::new(task, &reply.text)
    });
    Delivery::new(id, &message.reply_to, Notice { at: now, content }, now)
}

/// The text of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyText {
    /// The text.
    pub text: String,
    /// What the text is written in.
    pub format: TextFormat,
    /// Commands that may help.
    pub suggestions: Vec<Suggestion>,
}

impl ReplyText {
    /// Words of our own.
    pub fn plain(text: &str) -> Self {
        Self { text: text.to_owned(), format: TextFormat::Plain, suggestions: Vec::new() }
    }
}

/// How a turn ended, for its author.
pub fn of_finished<'a>(task: &Task, declined: impl IntoIterator<Item = &'a RequestRecord>) -> ReplyText {
    let (text, suggestions) = ending(task);
    let mut parts = vec![text];
    parts.extend(declined.into_iter().map(|request| {
        let what = &request.ask.title;
        format!("Declined, since nobody here may decide: {what}{}", shown(request))
    }));
    // Our own words and a command that was declined are no Markdown.
    let is_answer = task.status == Status::Completed && parts.len() == 1;
    let format = if is_answer { TextFormat::Markdown } else { TextFormat::Plain };
    ReplyText { text: parts.join("\n\n"), format, suggestions }
}

/// Whether the prompt of a finished turn can be given to Codex again as it was.
pub fn may_be_retried(task: &Task) -> bool {
    matches!(task.status, Status::Failed | Status::Lost)
}

/// Whether the conversation no longer fits into the model.
fn is_full(task: &Task) -> bool {
    task.error.as_ref().is_some_and(|error| error.kind == "context_window")
}

fn ending(task: &Task) -> (String, Vec<Suggestion>) {
    let answer = task.final_text.as_deref().map(str::trim).filter(|text| !text.is_empty());
    match task.status {
        Status::Completed => {
            (answer.unwrap_or("(Codex has finished; its answer is empty.)").to_owned(), Vec::new())
        }
        Status::Cancelled => {
            (format!("Stopped: {}.", task.reason.as_deref().unwrap_or("on request")), Vec::new())
        }
        _ if is_full(task) => {
            let text = "This conversation is full. /new starts a fresh one.".to_owned();
            (text, vec![Suggestion::new("New conversation", "/new")])
        }
        _ => (
            failure(task, answer),
            vec![Suggestion::new("Retry", "/retry"), Suggestion::new("Details", "/details")],
        ),
    }
}

/// What failed, and the end of what Codex had said. `/details` says the rest.
fn failure(task: &Task, answer: Option<&str>) -> String {
    let mut text = what_failed(task);
    if let Some(answer) = answer {
        text.push_str("\n\nIt had said: ");
        text.push_str(&shortened(answer));
    }
    text.push_str("\n\nThe conversation is kept.");
    text
}

/// What failed, in a sentence for people.
fn what_failed(task: &Task) -> String {
    if task.status == Status::Lost {
        return "The Codex that worked on this has gone. What it did before that is kept.".to_owned();
    }
    let error = task.error.as_ref();
    let message = error.map(|error| error.message.as_str()).or(task.reason.as_deref());
    // The end of Codex's stderr is for the operator: `/details` has it.
    let message = message.map(|message| message.split(STDERR).next().unwrap_or(message));
    let said = shortened(message.unwrap_or("Codex did not say why"));
    match error.map_or("", |error| error.kind.as_str()) {
        _ if said.contains("stream disconnected") => "The connection to the model broke.".to_owned(),
        "provider" => "The service of the model is overloaded or out of order.".to_owned(),
        "rate_limit" => "The model got too many requests at once. Try again in a minute.".to_owned(),
        "usage_limit" => format!("The limit of the account is used up: {said}"),
        "auth" => {
            "Codex is not logged in on the machine that it runs on. The operator has to log it in.".to_owned()
        }
        "startup" => "Codex could not be started on its machine.".to_owned(),
        "unresponsive" | "lost" | "closed" => {
            "The Codex that worked on this does not answer any more.".to_owned()
        }
        "timeout" => format!("This was stopped: {said}."),
        "network_withheld" => "Codex withheld its network access for a moment.".to_owned(),
        "thread_busy" => "Another program has this conversation with Codex open.".to_owned(),
        _ => format!("This did not work: {said}"),
    }
}

/// What a parked task waits for; `None` if it is not parked.
pub fn of_parking(task: &Task, now: TimeMs) -> Option<String> {
    Some(match task.parked.as_ref()? {
        Parked::UsageLimit { resume_at, is_known } => {
            let when = if *is_known { "until" } else { "for now; it is tried again at" };
            let at = moment(*resume_at, now);
            format!("This waits: the account's usage limit is reached, {when} {at}. It continues by itself.")
        }
        Parked::Login { .. } => {
            "This waits: Codex is not logged in on the machine that it runs on. It continues by itself after \
            a login."
                .to_owned()
        }
    })
}

/// A future time, for people in any time zone: `14:05 UTC (in 2 h 10 min)`.
fn moment(at: TimeMs, now: TimeMs) -> String {
    const MINUTE_MS: TimeMs = 60_000;
    let of_day = at.div_euclid(MINUTE_MS).rem_euclid(24 * 60);
    let left = (at - now).max(0).div_euclid(MINUTE_MS) + 1;
    let (days, hours, minutes) = (left / (24 * 60), left / 60 % 24, left % 60);
    let left = match (days, hours) {
        (0, 0) => format!("{minutes} min"),
        (0, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    };
    format!("{:02}:{:02} UTC (in {left})", of_day / 60, of_day % 60)
}

/// The subject of a request, on its own line.
fn shown(request: &RequestRecord) -> String {
    let shown = request.ask.subject();
    shown.map(|detail| format!("\n  {}", shortened(&detail.text))).unwrap_or_default()
}

/// Shortens a text in the middle: its beginning says what, its end says why.
fn shortened(text: &str) -> String {
    if text.len() <= TAIL_BYTES {
        return text.to_owned();
    }
    let (head, tail) = (text.floor_char_boundary(TAIL_BYTES / 4), text.len() - TAIL_BYTES / 2);
    format!("{} … {}", &text[..head], &text[text.ceil_char_boundary(tail)..])
}

#[cfg(test)]
mod tests {
    use codex_session::ask::Detail;

    use super::*;
    use crate::store::conformance::samples;
    use crate::task::TaskError;

    fn task(status: Status, answer: Option<&str>) -> Task {
        Task { status, final_text: answer.map(str::to_owned), ..samples::new_task(1) }
    }

    #[test]
    fn an_answer_is_told_as_it_is_and_an_empty_one_is_said_to_be_empty() {
        assert_eq!(of_finished(&task(Status::Completed, Some("done")), &[]).text, "done");
        let empty = of_finished(&task(Status::Completed, None), &[]).text;
        assert!(empty.contains("empty"), "{empty}");
    }

    #[test]
    fn a_failure_is_told_in_words_that_people_have() {
        let ending = |kind: &str, message: &str| {
            let error = Some(TaskError { kind: kind.into(), message: message.into() });
            of_finished(&Task { error, ..task(Status::Failed, None) }, &[])
        };
        let broke = ending("model", "stream disconnected before completion: idle timeout");
        assert_eq!(broke.text, "The connection to the model broke.\n\nThe conversation is kept.");
        let commands =
            |ending: &ReplyText| ending.suggestions.iter().map(|one| one.command.clone()).collect::<Vec<_>>();
        assert_eq!(commands(&broke), ["/retry", "/details"]);
        let full = ending("context_window", "too much");
        assert_eq!(full.text, "This conversation is full. /new starts a fresh one.");
        assert_eq!(commands(&full), ["/new"]);
    }

    #[test]
    fn a_failure_without_a_word_says_its_message_and_the_end_of_it() {
        let long = format!("it broke{}at the very end", " and more".repeat(1000));
        let error = Some(TaskError { kind: "model".into(), message: long });
        let text = of_finished(&Task { error, ..task(Status::Failed, None) }, &[]).text;
        assert!(text.starts_with("This did not work: it broke"), "{text}");
        assert!(text.contains("at the very end") && text.len() < TAIL_BYTES, "{}", text.len());
    }

    #[test]
    fn what_waits_says_for_what_and_until_when() {
        let now = 1_700_000_000_000; // 22:13:20 UTC
        let waits = |in_ms: i64, is_known| {
            let parked = Some(Parked::UsageLimit { resume_at: now + in_ms, is_known });
            of_parking(&Task { parked, ..task(Status::Queued, None) }, now).unwrap()
        };
        assert!(waits(60_000, true).contains("until 22:14 UTC (in 2 min)"), "{}", waits(60_000, true));
        assert!(waits(7_200_000, false).contains("tried again at 00:13 UTC (in 2 h 1 min)"));
        assert!(waits(3 * 86_400_000, true).contains("22:13 UTC (in 3 d 0 h)"));
        assert!(waits(-5, true).contains("(in 1 min)"));
        assert_eq!(of_parking(&task(Status::Queued, None), now), None);
    }

    #[test]
    fn what_nobody_could_decide_is_shown_without_its_cautions() {
        let mut request =
            samples::request(1, codex_wire::RequestId::Number(0), crate::request::RequestState::Resolved);
        request.ask.ask.title = "Let Codex run a command?".to_owned();
        let detail = |label: &'static str, text: &str| Detail { label: label.into(), text: text.to_owned() };
        request.ask.ask.details = vec![detail("Careful", "it may write anywhere"), detail("Command", "rm x")];
        request.ask.ask.cautions = 1;
        let text = of_finished(&task(Status::Completed, Some("I could not.")), &[request]).text;
        assert!(text.contains("nobody here may decide: Let Codex run a command?\n  rm x"), "{text}");
    }
}
