//! Splits the requests of a notice into messages for a chat with buttons. The buttons of a request are below its last
//! message. A request that was not shown completely gets no button to approve it.

use codex_bridge_core::outbox::{Asked, Notice};
use codex_bridge_core::request::RequestName;
use codex_bridge_core::task::TaskId;

use super::{DUPLICATE, DecisionPlace, Limit, chat, harmless, other_lines, request, requests};

/// The limit of messages for one request; nobody reads more.
const MAX_PARTS: usize = 10;
/// The end of a message that the next one continues.
const CONTINUED: &str = "\n… (continued below)";

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub struct Part<'a> {
    /// The text of the message.
    pub text: String,
    /// The requests with buttons below it.
    pub decides: Vec<ShownRequest<'a>>,
}

/// A request with buttons.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShownRequest<'a> {
    /// The request.
    pub asked: &'a Asked,
    /// Whether the request was shown completely; if not, it can only be denied here.
    pub is_whole: bool,
}

/// Whether one message can show all requests of a notice completely.
pub fn is_whole(notice: &Notice, limit: Limit) -> bool {
    notice.requests().iter().all(|asked| !asked.is_long)
        && limit.length(&chat(notice, true, Limit::Bytes(usize::MAX))) <= limit.max()
}

/// The requests that these messages show completely, and that can be approved there.
pub fn requests_shown_whole(parts: &[Part<'_>]) -> Vec<RequestName> {
    let decides = parts.iter().flat_map(|part| &part.decides);
    decides.filter(|shown| shown.is_whole).map(|shown| shown.asked.request_id.clone()).collect()
}

/// The messages of a notice, in order. A repetition has as many as the first attempt.
pub fn parts(notice: &Notice, may_be_duplicate: bool, limit: Limit) -> Vec<Part<'_>> {
    if notice.requests().is_empty() || is_whole(notice, limit) {
        let decides = notice.requests().iter().map(fully_shown).collect();
        return vec![Part { text: chat(notice, may_be_duplicate, limit), decides }];
    }
    let mut parts = split_notice(notice, limit.reduced_by(limit.length(DUPLICATE) + 1));
    for part in parts.iter_mut().filter(|_| may_be_duplicate) {
        part.text = format!("{DUPLICATE}\n{}", part.text);
    }
    parts
}

fn fully_shown(asked: &Asked) -> ShownRequest<'_> {
    ShownRequest { asked, is_whole: true }
}

fn split_notice(notice: &Notice, limit: Limit) -> Vec<Part<'_>> {
    let mut parts = vec![Part { text: "Codex asks:".to_owned(), decides: Vec::new() }];
    for (task, asked) in requests(notice) {
        let text = harmless(&request(task, asked, DecisionPlace::Chat).join("\n"));
        let joined = parts.last().map(|last| format!("{}\n\n{text}", last.text)).unwrap_or_default();
        match parts.last_mut() {
            Some(last) if !asked.is_long && limit.length(&joined) <= limit.max() => {
                last.text = joined;
                last.decides.push(fully_shown(asked));
            }
            _ => parts.extend(split_request(task, asked, &text, limit)),
        }
    }
    let rest = harmless(&other_lines(notice).join("\n"));
    if !rest.is_empty() {
        parts.push(Part { text: rest, decides: Vec::new() });
    }
    parts
}

fn split_request<'a>(task: &TaskId, asked: &'a Asked, text: &str, limit: Limit) -> Vec<Part<'a>> {
    let mut texts = split(text, limit);
    let is_whole = !asked.is_long && texts.len() <= MAX_PARTS;
    if !is_whole {
        let (id, request) = (task.short(), asked.request_id.short());
        let note = format!(
            "… (cut: this request is too long to be shown or approved here. `codex-bridge requests {id}` shows all of \
             it, `codex-bridge approve {id} {request}` approves it; /deny {request} denies it)"
        );
        let max = limit.max().saturating_sub(limit.length(&note) + 1);
        let beginning = limit.prefix(text, max).trim_end();
        texts = vec![format!("{beginning}\n{note}")];
    }
    let last = texts.len().saturating_sub(1);
    let part = |(number, text): (usize, String)| Part {
        text,
        decides: if number == last { vec![ShownRequest { asked, is_whole }] } else { Vec::new() },
    };
    texts.into_iter().enumerate().map(part).collect()
}

/// Splits a text into pieces that fit, at line ends where possible.
fn split(text: &str, limit: Limit) -> Vec<String> {
    let max = limit.max().saturating_sub(limit.length(CONTINUED)).max(1);
    let mut pieces = Vec::new();
    let mut rest = text;
    while limit.length(rest) > limit.max() {
        let piece = limit.prefix(rest, max);
        let line = piece.rfind('\n').filter(|at| *at > piece.len() / 2).map_or(piece.len(), |at| at + 1);
        pieces.push(format!("{}{CONTINUED}", rest[..line].trim_end_matches('\n')));
        rest = &rest[line..];
    }
    pieces.push(rest.to_owned());
    pieces
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LIMIT: Limit = Limit::Utf16(4096);

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
        let mut said = String::new();
        let mut decided = Vec::new();
        let marked = parts(notice, true, LIMIT);
        for (number, part) in parts(notice, false, LIMIT).into_iter().enumerate() {
            assert_eq!(marked[number].text, format!("{DUPLICATE}\n{}", part.text));
            assert!(LIMIT.length(&marked[number].text) <= 4096 && !part.text.is_empty());
            said.push_str(&part.text.replace(CONTINUED, ""));
            for shown in part.decides {
                let command = shown.asked.ask.details[0].text.as_str();
                assert_eq!(bare(&said).contains(&bare(command)), shown.is_whole);
                decided.push((number, shown.is_whole));
            }
        }
        decided
    }

    #[test]
    fn what_fits_is_one_message() {
        let notice = notice(&["ls".to_owned(), "pwd".to_owned()]);
        let parts = parts(&notice, false, LIMIT);
        assert_eq!((parts.len(), parts[0].decides.len()), (1, 2));
        assert!(
            parts[0].text.starts_with("Codex asks:\n\nRun a command?\nCommand: ls\n"),
            "{}",
            parts[0].text
        );
    }

    #[test]
    fn a_long_command_is_shown_whole_before_it_can_be_decided() {
        assert_eq!(check(&notice(&[format!("echo {}", "🦀".repeat(2500))])), [(2, true)]);
        let lines: Vec<String> = (0..700).map(|number| format!("echo {number}")).collect();
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
        let shown = parts(&notice, false, LIMIT).remove(0);
        assert!(shown.text.contains("+++ /a\n+new\n") && shown.decides[0].is_whole, "{shown:?}");
        let notice = notice.asking(vec![Asked { is_long: true, ..asked }]);
        let named = parts(&notice, false, LIMIT).remove(1);
        assert!(named.text.contains("  add: /a\n") && !named.text.contains("+new"), "{named:?}");
        assert!(!named.decides[0].is_whole);
    }

    #[test]
    fn what_nobody_would_read_cannot_be_agreed_to() {
        let notice = notice(&["x".repeat(100_000)]);
        let asked = Asked { is_long: true, ..notice.requests()[0].clone() };
        let notice = notice.asking(vec![asked]);
        assert_eq!(check(&notice), [(1, false)]);
        assert!(
            parts(&notice, false, LIMIT)[1].text.contains("codex-bridge approve codex-0123456789ab req-0")
        );
    }
}
