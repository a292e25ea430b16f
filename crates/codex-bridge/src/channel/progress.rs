//! Shows the progress of running turns, on platforms where a message can be edited: the last few steps, at most every two
//! seconds.

use std::collections::BTreeSet;
use std::time::Duration;

use codex_bridge_core::Chats;
use codex_bridge_core::bridge::Error;
use codex_bridge_core::chats::MessageTurn;
use codex_bridge_core::event::Line;
use codex_bridge_core::inbox::{ChannelName, Message, MessageId, MessageKind, MessageState};
use codex_bridge_core::store::{MessageFilter, TaskFilter};
use codex_bridge_core::task::{Status, TaskId};
use redact::plain::plain;
use tokio::sync::broadcast::error::RecvError;

use super::recent::MAX_ENTRIES;
use super::{Progress, ShowsProgress};
use crate::transcript::{Note, Part, part};

/// The pause between updates, and how long a turn runs before it is shown at all.
const INTERVAL: Duration = Duration::from_secs(2);
/// When a failed update is retried.
const RETRY_AFTER: Duration = Duration::from_secs(6);
/// How many events of a task are read.
const EVENTS: u32 = 60;
/// The same once a later turn writes events too.
const EVENTS_OF_SEVERAL_TURNS: u32 = 600;
/// How many lines are shown.
const LINES: usize = 6;
/// The longest line, in characters.
const WIDTH: usize = 120;

/// Shows running turns until the bridge closes.
pub async fn run(chats: &Chats, name: &ChannelName, display: &dyn ShowsProgress) {
    let mut is_failing = false;
    loop {
        let mut news = chats.bridge().news();
        let shown = show_all(chats, name, display).await;
        // A failure that lasts is logged once.
        if let Some(error) = shown.as_ref().err().filter(|_| !is_failing) {
            tracing::warn!(channel = name.as_str(), %error, "the progress of turns cannot be shown; it is retried");
        }
        is_failing = shown.is_err();
        // Missed news is no loss, since every update reads the store. A failed update is retried without news.
        let timeout = if display.in_progress().is_empty() { Duration::MAX } else { RETRY_AFTER };
        let news_result = tokio::time::timeout(timeout, news.recv()).await;
        if matches!(news_result, Ok(Err(RecvError::Closed))) {
            return;
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

async fn show_all(chats: &Chats, name: &ChannelName, display: &dyn ShowsProgress) -> Result<(), Error> {
    let running = MessageFilter {
        channel: Some(name.clone()),
        states: vec![MessageState::Running],
        ..MessageFilter::default()
    };
    let mut over: BTreeSet<MessageId> = display.in_progress().into_iter().collect();
    // A turn that the channel cannot remember would get a new message each time.
    let mut room = MAX_ENTRIES.saturating_sub(over.len());
    let running_tasks = running_tasks(chats).await?;
    for message in chats.messages(&running).await? {
        let is_shown = over.remove(&message.id);
        let may_begin = || room > 0 && message.task_id.as_ref().is_some_and(|id| running_tasks.contains(id));
        if message.kind != MessageKind::Prompt || !(is_shown || may_begin()) {
            continue;
        }
        let turn = chats.turn_of(&message).await?;
        // The task may already work on a turn of another caller.
        if is_shown || turn.is_none_or(|turn| !turn.is_over()) {
            room -= usize::from(!is_shown);
            let text = shown_text(chats, &message, turn).await?;
            display.show(&progress(name, &message, &text, false)).await;
        }
    }
    for id in over {
        let named = MessageFilter { id: Some(id), ..MessageFilter::default() };
        if let Some(message) = chats.messages(&named).await?.into_iter().next() {
            let turn = chats.turn_of(&message).await?;
            let text = shown_text(chats, &message, turn).await?;
            display.show(&progress(name, &message, &text, true)).await;
        }
    }
    Ok(())
}

/// The tasks that Codex works on. A queued task has no progress to show.
async fn running_tasks(chats: &Chats) -> Result<BTreeSet<TaskId>, Error> {
    let statuses = vec![Status::Starting, Status::Working, Status::Interrupting];
    let filter = TaskFilter { statuses, ..TaskFilter::default() };
    Ok(chats.bridge().store().tasks(&filter).await?.into_iter().map(|task| task.id).collect())
}

fn progress(name: &ChannelName, message: &Message, text: &str, is_finished: bool) -> Progress {
    let place = message.reply_to.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix(':'));
    Progress {
        message_id: message.id.clone(),
        place: place.unwrap_or_default().to_owned(),
        text: text.to_owned(),
        is_finished,
    }
}

/// The text that shows a turn: whether Codex still works on it, and its last few steps.
async fn shown_text(chats: &Chats, message: &Message, turn: Option<MessageTurn>) -> Result<String, Error> {
    // A message is running until its reply is written, and while the bridge waits to resume its turn.
    let has_worked = message.state != MessageState::Running || turn.is_some_and(|turn| turn.is_over());
    let headline = if has_worked { "Codex has worked on it." } else { "Codex is working on it." };
    let mut lines = vec![headline.to_owned()];
    if let (Some(task_id), Some(turn)) = (&message.task_id, turn) {
        let limit = if turn.has_successor() { EVENTS_OF_SEVERAL_TURNS } else { EVENTS };
        let events = chats.bridge().last_events(task_id, limit).await?;
        let steps: Vec<String> =
            events.iter().filter(|event| turn.has(event)).filter_map(|event| step(&event.line)).collect();
        lines.extend(steps.into_iter().rev().take(LINES).rev());
    }
    Ok(lines.join("\n"))
}

/// A line of the task as one step. The answer itself is a message of its own.
fn step(line: &Line) -> Option<String> {
    let text = match part(line)? {
        Part::CallBegan { headline, .. } => headline,
        Part::Asked { title, .. } => format!("? {title}"),
        Part::Note(Note::TerminalInput, text) => format!("$ {text}"),
        Part::Note(Note::Declined, text) => format!("→ {text}"),
        Part::Note(Note::Warning, text) if matches!(line, Line::Retrying(_)) => format!("! {text}"),
        _ => return None,
    };
    let text = plain(&text);
    let mut lines = text.lines();
    let first = lines.next().filter(|first| !first.trim().is_empty())?;
    let more = lines.count();
    let shown: String = first.chars().take(WIDTH).collect();
    let is_whole = shown.len() == first.len() && more == 0;
    Some(if is_whole { shown } else { format!("{shown} …") })
}
