//! Splits a notice into messages with formatting, for a chat with buttons. Each request has messages of its own, with its
//! buttons below the last one. A request that was not shown completely gets no button to approve it. An answer that would
//! take too many messages becomes a file.

use codex_bridge_core::outbox::notice::{Reply, Suggestion, TextFormat};
use codex_bridge_core::outbox::{Asked, Content, Notice};
use codex_bridge_core::request::RequestName;
use codex_bridge_core::task::TaskId;
use codex_session::ask::{Detail, Label};
use redact::plain::{plain, readable};

use super::{
    DUPLICATE, DecisionPlace, Limit, Mentions, Style, Styled, answer, chat, cut_note, finished_lines, foot,
    heading, other_lines, request_text, requests, was_cut,
};

/// The limit of messages for one request; nobody reads more.
const MAX_PARTS: usize = 10;
/// The limit of messages for one answer; a longer one is a file.
const MAX_ANSWER_PARTS: usize = 5;
/// The end of a message that the next one continues.
const CONTINUED: &str = "\n… (continued below)";
/// The end of a message whose whole text is in the file behind it.
const IN_FILE: &str = "… (all of it is in the file below)";
/// The same where the notice itself has only the beginning of the text.
const MORE_IN_FILE: &str = "… (more of it is in the file below)";

/// The limits of a platform's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest text.
    pub text: Limit,
    /// The most spans of formatting in a message.
    pub spans: usize,
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub struct Part<'a> {
    /// What is sent.
    pub body: Body,
    /// The request with buttons below it.
    pub decides: Option<ShownRequest<'a>>,
    /// Commands with buttons below it.
    pub commands: &'a [Suggestion],
}

/// What a message consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// A text.
    Text(Styled),
    /// A text that is sent as a file.
    File {
        /// The name of the file.
        name: &'static str,
        /// The text in it.
        text: String,
        /// The text below it.
        caption: String,
    },
}

/// A request with buttons.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShownRequest<'a> {
    /// The request.
    pub asked: &'a Asked,
    /// Whether the request was shown completely; if not, it can only be denied here.
    pub is_whole: bool,
}

impl Part<'_> {
    fn text(text: Styled) -> Self {
        Self { body: Body::Text(text), decides: None, commands: &[] }
    }

    /// The same, marked as a possible duplicate. There is room for the mark.
    #[must_use]
    pub fn marked(self) -> Self {
        let body = match self.body {
            Body::Text(text) => Body::Text(Styled::join([Styled::from(DUPLICATE), text], "\n")),
            Body::File { name, text, .. } => Body::File { name, text, caption: DUPLICATE.to_owned() },
        };
        Self { body, ..self }
    }
}

/// Whether one plain message can show all requests of a notice completely.
pub fn is_whole(notice: &Notice, limit: Limit, mentions: Mentions) -> bool {
    notice.requests().iter().all(|asked| !asked.is_long)
        && limit.length(&chat(notice, true, Limit::Bytes(usize::MAX), mentions)) <= limit.max()
}

/// The requests that these messages show completely, and that can be approved there.
pub fn requests_shown_whole(parts: &[Part<'_>]) -> Vec<RequestName> {
    let decides = parts.iter().filter_map(|part| part.decides);
    decides.filter(|shown| shown.is_whole).map(|shown| shown.asked.request_id.clone()).collect()
}

/// The messages of a notice, in order, for a place with or without buttons. A repetition has as many as the first attempt.
pub fn parts(notice: &Notice, limits: Limits, has_buttons: bool) -> Vec<Part<'_>> {
    let limits = Limits { text: limits.text.reduced_by(limits.text.length(DUPLICATE) + 1), ..limits };
    match &notice.content {
        // The mark at the end must stand in all that an agent reads, so it gets one message.
        Content::Reply(Reply { closing: Some(_), .. }) => {
            vec![Part::text(chat(notice, false, limits.text, Mentions::None).as_str().into())]
        }
        Content::Reply(reply) if has_buttons => {
            let mut parts = words(notice, limits, DecisionPlace::Buttons);
            if let Some(last) = parts.last_mut() {
                last.commands = &reply.suggestions;
            }
            parts
        }
        _ if notice.requests().is_empty() => words(notice, limits, DecisionPlace::Chat),
        _ => split_notice(notice, limits.text, has_buttons),
    }
}

/// The messages of a notice without requests.
fn words(notice: &Notice, limits: Limits, place: DecisionPlace) -> Vec<Part<'_>> {
    let (text, source, file) = match &notice.content {
        Content::Reply(Reply { text, format: TextFormat::Diff, .. }) => {
            let style = Style::Block { language: Some("diff".to_owned()) };
            let diff = readable(text.text.trim_end());
            (Styled::new(&diff, style), diff.into_owned(), "changes.diff")
        }
        Content::Reply(reply) => {
            (written_in(reply.format, &reply.text.text), answer(&reply.text.text), "answer.md")
        }
        Content::Finished(finished) => {
            let others = finished_lines(finished, None).into_iter().map(|line| plain_words(&line));
            let answered =
                finished.answer.as_ref().map(|answer| written_in(TextFormat::Markdown, &answer.text));
            let lines = finished_lines(finished, finished.answer.as_ref()).join("\n");
            (Styled::join(others.chain(answered), "\n"), lines, "answer.md")
        }
        Content::Asks(_) | Content::Reminder(_) | Content::Test => {
            let lines = other_lines(notice).join("\n");
            (plain_words(&lines), lines, "answer.md")
        }
    };
    let head = Styled::join(heading(notice).iter().map(|line| plain_words(line)), "\n");
    let note = Some(cut_note(notice)).filter(|_| was_cut(notice));
    let body = Styled::join([text, note.as_deref().map(plain_words).unwrap_or_default()], "\n");
    let foot = plain_words(&foot(notice, place).join("\n"));
    let most = if file == "changes.diff" { 1 } else { MAX_ANSWER_PARTS };
    let whole = Styled::join([head, body, foot.clone()], "\n\n");
    let mut split = whole.split(limits.text, limits.spans, most + 1);
    if split.len() <= most {
        split.retain(Styled::is_visible);
        return split.into_iter().map(Part::text).collect();
    }
    let in_file = Styled::from(if note.is_some() { MORE_IN_FILE } else { IN_FILE });
    let note = note.as_deref().map(plain_words).unwrap_or_default();
    let foot = Styled::join([Styled::join([in_file, note], "\n"), foot], "\n\n");
    let room = limits.text.reduced_by(limits.text.length(&foot.text) + 2);
    let beginning = whole.split(room, limits.spans, 1).into_iter().next().unwrap_or_default();
    let file = Body::File { name: file, text: readable(&source).into_owned(), caption: String::new() };
    vec![
        Part::text(Styled::join([beginning, foot], "\n\n")),
        Part { body: file, decides: None, commands: &[] },
    ]
}

fn plain_words(text: &str) -> Styled {
    Styled::from(&*readable(text))
}

fn written_in(format: TextFormat, text: &str) -> Styled {
    let text = answer(&readable(text));
    let styled = if format == TextFormat::Markdown { Styled::markdown(&text) } else { Styled::default() };
    // Marks around nothing are what was written.
    if styled.is_visible() { styled } else { Styled::from(text.as_str()) }
}

fn split_notice(notice: &Notice, limit: Limit, has_buttons: bool) -> Vec<Part<'_>> {
    let is_of_conversation = matches!(&notice.content, Content::Asks(asks) if asks.in_conversation);
    let mut head = if is_of_conversation { Vec::new() } else { heading(notice) };
    head.extend(other_lines(notice));
    let mut head = plain_words(&head.join("\n"));
    let place = if has_buttons { DecisionPlace::Buttons } else { DecisionPlace::Chat };
    let mut parts = Vec::new();
    for (task, asked) in requests(notice) {
        let text = Styled::join([std::mem::take(&mut head), styled_request(task, asked, place)], "\n\n");
        parts.extend(split_request(task, asked, &text, limit));
    }
    if !has_buttons {
        for part in &mut parts {
            part.decides = None;
        }
    }
    parts
}

/// A request with its commands and changes as code, without anything that could deceive who decides on it.
fn styled_request(task: &TaskId, asked: &Asked, place: DecisionPlace) -> Styled {
    let ask = &asked.ask;
    let mut lines = vec![Styled::new(&plain(&ask.title), Style::Bold)];
    lines.extend(ask.details.iter().map(styled_detail));
    for change in ask.changes.iter().filter(|_| !asked.is_long) {
        lines.push(Styled::new(
            plain(&change.diff).trim_end(),
            Style::Block { language: Some("diff".to_owned()) },
        ));
    }
    // What follows the title, the details and the changes has no code.
    let bare = Asked {
        ask: codex_session::Ask { title: String::new(), details: Vec::new(), ..ask.clone() },
        ..asked.clone()
    };
    let bare = if asked.is_long { bare } else { without_changes(bare) };
    lines.push(Styled::from(request_text(task, &bare, place).trim_start_matches('\n')));
    Styled::join(lines, "\n")
}

fn without_changes(mut asked: Asked) -> Asked {
    asked.ask.changes.clear();
    asked
}

fn styled_detail(detail: &Detail) -> Styled {
    let (label, text) = (plain(detail.label.as_str()), plain(&detail.text));
    let is_code = matches!(detail.label, Label::Command | Label::Arguments);
    match (is_code, text.contains('\n')) {
        (true, true) => {
            let block = Styled::new(&text, Style::Block { language: None });
            Styled::join([Styled::from(&*format!("{label}:")), block], "\n")
        }
        (true, false) => {
            Styled::join([Styled::from(&*format!("{label}:")), Styled::new(&text, Style::Code)], " ")
        }
        (false, _) => Styled::from(&*super::labelled(&label, &text).join("\n")),
    }
}

fn split_request<'a>(task: &TaskId, asked: &'a Asked, text: &Styled, limit: Limit) -> Vec<Part<'a>> {
    let mut texts = text.split(limit.reduced_by(limit.length(CONTINUED)), usize::MAX, MAX_PARTS + 1);
    // A message of blanks alone is not shown by any platform.
    let is_whole = !asked.is_long && texts.len() <= MAX_PARTS && texts.iter().all(Styled::is_visible);
    let last = texts.len().saturating_sub(1);
    if is_whole {
        texts.iter_mut().take(last).for_each(|text| text.push(CONTINUED));
    } else {
        let (id, request) = (task.short(), asked.request_id.short());
        let note = format!(
            "\n… (cut: this request is too long to be shown or approved here. `codex-bridge requests {id}` shows all of \
             it, `codex-bridge approve {id} {request}` approves it; /deny {request} denies it)"
        );
        let mut beginning = text
            .split(limit.reduced_by(limit.length(&note)), usize::MAX, 1)
            .into_iter()
            .next()
            .unwrap_or_default();
        beginning.push(note.as_str());
        texts = vec![beginning];
    }
    let last = texts.len().saturating_sub(1);
    let part = |(number, text): (usize, Styled)| Part {
        body: Body::Text(text),
        decides: (number == last).then_some(ShownRequest { asked, is_whole }),
        commands: &[],
    };
    texts.into_iter().enumerate().map(part).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LIMIT: Limit = Limit::Utf16(4096);
    const LIMITS: Limits = Limits { text: LIMIT, spans: 100 };

    /// The text of a message.
    fn said<'a>(part: &'a Part<'_>) -> &'a Styled {
        match &part.body {
            Body::Text(text) => text,
            Body::File { name, .. } => panic!("{name} is a file"),
        }
    }

    fn notice(commands: &[String]) -> Notice {
        let asked = |(number, command): (usize, &String)| {
            json!({"request_id": format!("req-{number}"), "ask": {
                "kind": "command", "title": "Run a command?", "details": [{"label": "Command", "text": command}],
            }})
        };
        let requests: Vec<_> = commands.iter().enumerate().map(asked).collect();
        serde_json::from_value(json!({
            "event": "approval", "task_id": "codex-0123456789abcdef0123456789abcdef", "status": "working", "prompt": "fix", "cwd": "/",
            "at": 0, "requests": requests,
        }))
        .unwrap()
    }

    fn bare(text: &str) -> String {
        text.split_whitespace().collect()
    }

    /// The part with the buttons of each request, after checking that the request was shown before.
    fn check(notice: &Notice) -> Vec<(usize, bool)> {
        let mut all = String::new();
        let mut decided = Vec::new();
        for (number, part) in parts(notice, LIMITS, true).into_iter().enumerate() {
            let text = said(&part).text.clone();
            let marked = said(&part.clone().marked()).text.clone();
            assert_eq!(marked, format!("{DUPLICATE}\n{text}"));
            assert!(LIMIT.length(&marked) <= 4096 && !text.is_empty());
            all.push_str(&text.replace(CONTINUED, ""));
            if let Some(shown) = part.decides {
                let command = shown.asked.ask.details[0].text.as_str();
                assert_eq!(bare(&all).contains(&bare(command)), shown.is_whole);
                decided.push((number, shown.is_whole));
            }
        }
        decided
    }

    fn reply(answer: &str, closing: Option<&str>) -> Notice {
        serde_json::from_value(json!({
            "event": "reply", "task_id": "codex-0123456789abcdef0123456789abcdef", "status": "completed", "prompt": "",
            "cwd": "/", "at": 0, "answer": answer, "closing": closing, "format": "markdown",
        }))
        .unwrap()
    }

    #[test]
    fn a_reply_to_an_agent_is_one_message_with_its_mark() {
        let mark = "[re: row-1] [codex-bridge hop 2]";
        let notice = reply(&"a word ".repeat(5_000), Some(mark));
        let parts = parts(&notice, LIMITS, true);
        assert_eq!(parts.len(), 1);
        assert!(said(&parts[0]).text.ends_with(mark));
    }

    #[test]
    fn something_is_always_said() {
        for (answer, expected) in [
            ("` `", "` `"),
            ("[ ](https://x.example)", "[ ](https://x.example)"),
            ("\u{200b}", "(the answer is empty)"),
        ] {
            let notice = reply(answer, None);
            let parts = parts(&notice, LIMITS, true);
            assert_eq!(said(&parts[0]).text, expected);
        }
    }

    #[test]
    fn a_request_that_fits_is_one_message() {
        let notice = notice(&["ls".to_owned(), "pwd".to_owned()]);
        let parts = parts(&notice, LIMITS, true);
        assert_eq!(parts.len(), 2, "each request has its own");
        let Styled { text, spans } = said(&parts[1]);
        assert!(text.starts_with("Run a command?\nCommand: pwd"), "{text}");
        assert!(!text.contains("/approve"), "the buttons say it: {text}");
        let code: Vec<_> = spans.iter().filter(|span| span.style.is_code()).collect();
        assert_eq!(code.iter().map(|span| &text[span.range.clone()]).collect::<Vec<_>>(), ["pwd"]);
        let in_words = super::parts(&notice, LIMITS, false);
        assert!(said(&in_words[1]).text.contains("/approve req-1") && in_words[1].decides.is_none());
    }

    #[test]
    fn a_long_command_is_shown_whole_before_it_can_be_decided() {
        assert_eq!(check(&notice(&[format!("echo {}", "🦀".repeat(2500))])), [(1, true)]);
        let lines: Vec<String> = (0..1_100).map(|number| format!("echo {number}")).collect();
        assert_eq!(check(&notice(&[lines.join("\n")])), [(2, true)]);
    }

    #[test]
    fn many_requests_are_told_in_several_messages_with_their_own_buttons() {
        let commands: Vec<String> =
            (0..10).map(|number| format!("echo {number}{}", "x".repeat(800))).collect();
        let decided = check(&notice(&commands));
        assert_eq!(decided.len(), 10);
        assert!(decided.iter().all(|(_, is_whole)| *is_whole) && decided[9].0 >= 2, "{decided:?}");
    }

    #[test]
    fn a_patch_is_shown_with_its_diff_or_cannot_be_agreed_to() {
        let notice = notice(&["-".to_owned()]);
        let mut asked = notice.requests()[0].clone();
        asked.ask.changes = serde_json::from_value(
            json!([{"path": "/a", "kind": "add", "diff": "--- /dev/null\n+++ /a\n+new\n"}]),
        )
        .unwrap();
        let notice = notice.asking(vec![asked.clone()]);
        let shown = parts(&notice, LIMITS, true).remove(0);
        assert!(said(&shown).text.contains("+++ /a\n+new") && shown.decides.unwrap().is_whole, "{shown:?}");
        let notice = notice.asking(vec![Asked { is_long: true, ..asked }]);
        let named = parts(&notice, LIMITS, true).remove(0);
        let text = &said(&named).text;
        assert!(text.contains("  add: /a\n") && !text.contains("+new"), "{named:?}");
        assert!(!named.decides.unwrap().is_whole);
    }

    #[test]
    fn what_nobody_would_read_cannot_be_agreed_to() {
        let notice = notice(&["x".repeat(100_000)]);
        let asked = Asked { is_long: true, ..notice.requests()[0].clone() };
        let notice = notice.asking(vec![asked]);
        assert_eq!(check(&notice), [(0, false)]);
        let parts = parts(&notice, LIMITS, true);
        assert!(said(&parts[0]).text.contains("codex-bridge approve codex-0123456789ab req-0"));
    }
}
