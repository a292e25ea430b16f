//! Translates a line of a task's log into words and parts. The terminal, the web page, MCP and chats only draw them.

use codex_bridge_core::event::{Line, RequestClosed, RequestDecided, Steered, TerminalInput, TurnStarted};
use codex_bridge_core::request::{DecisionWord, RequestState};
use codex_bridge_core::task::Status;
use codex_session::tool_display::{Action, ChangedFile, ToolCompleted, ToolStarted};
use codex_session::turn::Closing;
use codex_session::{Decider, Decision};
use redact::plain::plain;

use crate::amount::{duration, one_line};

/// The shells that Codex wraps around a command.
const SHELLS: [&str; 6] = ["/bin/bash", "/usr/bin/bash", "bash", "/bin/sh", "/usr/bin/zsh", "/bin/zsh"];

/// The content of a log line.
#[derive(Debug, PartialEq)]
pub enum Part<'l> {
    /// A turn began.
    Prompt(&'l TurnStarted),
    /// Codex wrote a message.
    Message(&'l str),
    /// A summary of the model's reasoning.
    Thought(&'l str),
    /// A tool call began.
    CallBegan {
        /// The call.
        call_id: &'l str,
        /// The typed command, the changed files, or the tool with its arguments.
        headline: String,
    },
    /// A tool call ended.
    CallEnded(CallEnd<'l>),
    /// Codex made a request.
    Asked {
        /// The request.
        request_id: &'l str,
        /// The call that waits for the answer.
        call_id: Option<&'l str>,
        /// The request in one line.
        title: &'l str,
    },
    /// A request was closed.
    Answered {
        /// The request.
        request_id: &'l str,
        /// The outcome, in words.
        outcome: String,
    },
    /// The changes of the turn, as a unified diff.
    Changes(&'l str),
    /// The task's status changed.
    State {
        /// The new status.
        status: Status,
        /// The reason.
        reason: Option<&'l str>,
    },
    /// A turn ended.
    TurnEnded {
        /// The answer.
        answer: Option<&'l str>,
        /// Why there is no answer.
        error: Option<&'l str>,
    },
    /// A note.
    Note(Note, String),
}

/// The kind of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// A warning, a retry, or something that a person must do.
    Warning,
    /// The operator's settings declined a request.
    Declined,
    /// Codex typed something into a running command.
    TerminalInput,
    /// Text was added to the turn.
    Steered,
}

/// How a tool call ended.
#[derive(Debug, PartialEq, Eq)]
pub struct CallEnd<'l> {
    /// The call.
    pub call_id: &'l str,
    /// The tool.
    pub name: &'l str,
    /// Whether the call failed or was declined.
    pub is_error: bool,
    /// The exit status and duration, such as `exit 1 · 2.0 s`. May be empty.
    pub ending: String,
    /// The output.
    pub output: &'l str,
}

/// The content of a log line; none for lines that only programs need.
pub fn part(line: &Line) -> Option<Part<'_>> {
    Some(match line {
        Line::TurnStarted(started) => Part::Prompt(started),
        Line::Message(message) => Part::Message(&message.text),
        Line::Thought(thought) => Part::Thought(&thought.text),
        Line::ToolStarted(call) => Part::CallBegan { call_id: &call.call_id, headline: headline(call) },
        Line::ToolCompleted(call) => Part::CallEnded(ended(call)),
        Line::Request(request) => Part::Asked {
            request_id: request.request_id.as_str(),
            call_id: request.call_id.as_deref(),
            title: &request.title,
        },
        Line::RequestClosed(closed) => {
            Part::Answered { request_id: closed.request_id.as_str(), outcome: outcome(closed) }
        }
        Line::RequestDecided(decided) => Part::Note(Note::Declined, declined(decided)?),
        Line::TerminalInput(input) => Part::Note(Note::TerminalInput, terminal_input(input)),
        Line::Steered(steered) => Part::Note(Note::Steered, added(steered)?),
        Line::Diff(line) => Part::Changes(&line.diff),
        Line::State(state) => Part::State { status: state.status, reason: state.reason.as_deref() },
        Line::TurnEnded(ended) => Part::TurnEnded {
            answer: ended.final_text.as_deref(),
            error: ended.error.as_ref().map(|error| error.message.as_str()),
        },
        Line::Retrying(retrying) => Part::Note(Note::Warning, format!("trying again: {}", retrying.message)),
        Line::Warning(warning) => Part::Note(Note::Warning, warning.message.clone()),
        Line::Notice(notice) => Part::Note(Note::Warning, notice.message.clone()),
        Line::ThreadOpened(_) | Line::Other(_) => return None,
    })
}

fn headline(call: &ToolStarted) -> String {
    let text = match call.action() {
        Action::Command(command) => format!("$ {}", bare_command(command)),
        Action::Changes(files) if files.is_empty() => "change files".to_owned(),
        Action::Changes(files) => {
            let line = |file: &ChangedFile<'_>| format!("{} {}", file.kind, one_line(file.path));
            files.iter().map(line).collect::<Vec<_>>().join("\n")
        }
        Action::Tool => format!("{} {}", call.name, call.preview.as_deref().unwrap_or_default()),
    };
    plain(text.trim_end()).into_owned()
}

fn ended(call: &ToolCompleted) -> CallEnd<'_> {
    let is_change = call.is_change();
    // The duration of a change is left out: it is mostly the time until somebody approved it.
    let took = call.duration_ms.filter(|_| !is_change).map(duration);
    let ending: Vec<&str> = call.failure().into_iter().chain(took.as_deref()).collect();
    CallEnd {
        call_id: &call.call_id,
        name: &call.name,
        is_error: call.is_error,
        ending: plain(&ending.join(" · ")).into_owned(),
        // The result of a successful change only repeats that it succeeded.
        output: if is_change && !call.is_error { "" } else { call.output() },
    }
}

fn outcome(closed: &RequestClosed) -> String {
    let by = closed.decided_by.as_ref().filter(|by| !by.is_empty());
    let outcome = match closed.outcome {
        RequestState::Orphaned => "closed: the turn or the host ended first".to_owned(),
        RequestState::Expired => "declined: nobody answered in time".to_owned(),
        RequestState::AnsweredElsewhere => "answered elsewhere".to_owned(),
        RequestState::Open | RequestState::Decided | RequestState::Resolved => {
            let decision = closed.decision.as_ref().map_or("answered", DecisionWord::past_tense);
            by.map_or_else(|| decision.to_owned(), |by| format!("{decision} by {by}"))
        }
    };
    plain(&outcome).into_owned()
}

/// A request that the operator's settings declined, with the reason. Accepted requests show up as the commands that ran.
fn declined(line: &RequestDecided) -> Option<String> {
    match &line.closing {
        Closing::Taken { decision: Decision::Decline, by: Decider::Policy(reason) } => {
            Some(format!("declined without asking: {reason}"))
        }
        _ => None,
    }
}

fn terminal_input(input: &TerminalInput) -> String {
    let command = match input.command.as_deref().unwrap_or_default() {
        "" => "a running command".to_owned(),
        command => format!("the running command {}", one_line(&bare_command(command))),
    };
    let cut = match input.text_cut_bytes {
        0 => String::new(),
        bytes => format!(" … ({bytes} more bytes)"),
    };
    format!("input to {command}: {}{cut}", input.text.trim_end_matches('\n'))
}

/// The text that was added to a turn, and who added it, if known. Older logs do not have the text.
fn added(steered: &Steered) -> Option<String> {
    let by = steered.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    Some(format!("added{by}: {}", steered.text.as_ref().filter(|text| !text.is_empty())?))
}

/// The command without the shell that Codex wraps around it. codex 0.166 reports `/bin/bash -c 'ls'` for `ls`, and `-lc`
/// for a login shell.
fn bare_command(command: &str) -> String {
    let inner = SHELLS
        .into_iter()
        .filter_map(|shell| command.strip_prefix(shell))
        .find_map(|rest| rest.strip_prefix(" -c ").or_else(|| rest.strip_prefix(" -lc ")));
    let Some(inner) = inner else { return command.to_owned() };
    let unquoted = |quote: char| inner.strip_prefix(quote)?.strip_suffix(quote);
    match (unquoted('\''), unquoted('"')) {
        (Some(bare), _) if !bare.contains('\'') => bare.to_owned(),
        (_, Some(bare)) if !bare.contains(['"', '\\', '$', '`']) => bare.to_owned(),
        (None, None) if !inner.contains(char::is_whitespace) => inner.to_owned(),
        _ => command.to_owned(),
    }
}

#[cfg(test)]
mod tests;
