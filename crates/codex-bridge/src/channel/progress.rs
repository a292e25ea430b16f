//! Showing how turns stand while they run, on platforms where a message can be edited: the last few things that happened,
//! every two seconds at most, and nothing where nothing has changed.

use std::collections::BTreeSet;
use std::time::Duration;

use codex_bridge_core::Chats;
use codex_bridge_core::bridge::Error;
use codex_bridge_core::event::Line;
use codex_bridge_core::inbox::{ChannelName, Message, MessageId, MessageKind, MessageState};
use codex_bridge_core::store::{MessageFilter, TaskFilter};
use codex_bridge_core::task::{Status, TaskId};
use redact::plain::plain;
use tokio::sync::broadcast::error::RecvError;

use super::recent::MOST;
use super::{Progress, Receiving};
use crate::transcript::{Note, Part, part};

/// How often at most, and how long a turn runs before it is shown at all.
const EVERY: Duration = Duration::from_secs(2);
/// When it is tried again to show what could not be shown.
const TRY_AGAIN: Duration = Duration::from_secs(6);
/// Events that are looked at.
const EVENTS: u32 = 60;
/// Lines that are shown.
const LINES: usize = 6;
/// The longest line.
const WIDTH: usize = 120;

/// Shows what runs, for as long as the bridge does.
pub async fn show(chats: &Chats, name: &ChannelName, channel: &dyn Receiving) {
    let mut is_failing = false;
    loop {
        let mut news = chats.bridge().news();
        let shown = show_all(chats, name, channel).await;
        // Told once, however often it is tried again.
        if let Some(error) = shown.as_ref().err().filter(|_| !is_failing) {
            tracing::warn!(channel = name.as_str(), %error, "what runs cannot be shown; it is tried again");
        }
        is_failing = shown.is_err();
        // What is missed is looked up with the rest; what could not be shown is tried again without news.
        let patience = if channel.in_progress().is_empty() { Duration::MAX } else { TRY_AGAIN };
        let told = tokio::time::timeout(patience, news.recv()).await;
        if matches!(told, Ok(Err(RecvError::Closed))) {
            return;
        }
        tokio::time::sleep(EVERY).await;
    }
}

async fn show_all(chats: &Chats, name: &ChannelName, channel: &dyn Receiving) -> Result<(), Error> {
    let running = MessageFilter {
        channel: Some(name.clone()),
        states: vec![MessageState::Running],
        ..MessageFilter::default()
    };
    let mut over: BTreeSet<MessageId> = channel.in_progress().into_iter().collect();
    // One that is not remembered would be shown anew each time.
    let mut room = MOST.saturating_sub(over.len());
    let at_work = at_work(chats).await?;
    for message in chats.messages(&running).await? {
        let is_shown = over.remove(&message.id);
        let is_new = || room > 0 && message.task_id.as_ref().is_some_and(|id| at_work.contains(id));
        if message.kind == MessageKind::Prompt && (is_shown || is_new()) {
            room -= usize::from(!is_shown);
            let text = format!("Codex is working on it.\n{}", steps(chats, &message).await?.join("\n"));
            channel.progress(&progress(name, &message, text.trim_end(), false)).await;
        }
    }
    for id in over {
        let named = MessageFilter { id: Some(id), ..MessageFilter::default() };
        if let Some(message) = chats.messages(&named).await?.into_iter().next() {
            let text = format!("Codex has worked on it.\n{}", steps(chats, &message).await?.join("\n"));
            channel.progress(&progress(name, &message, text.trim_end(), true)).await;
        }
    }
    Ok(())
}

/// The tasks that Codex works on. What waits for its turn has nothing to show.
async fn at_work(chats: &Chats) -> Result<BTreeSet<TaskId>, Error> {
    let statuses = vec![Status::Starting, Status::Working, Status::Interrupting];
    let filter = TaskFilter { statuses, ..TaskFilter::default() };
    Ok(chats.bridge().store().tasks(&filter).await?.into_iter().map(|task| task.id).collect())
}

fn progress(name: &ChannelName, message: &Message, text: &str, is_over: bool) -> Progress {
    let place = message.reply_to.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix(':'));
    Progress {
        message_id: message.id.clone(),
        place: place.unwrap_or_default().to_owned(),
        text: text.to_owned(),
        is_over,
    }
}

/// The last few things that happened in the turn of a message.
async fn steps(chats: &Chats, message: &Message) -> Result<Vec<String>, Error> {
    let Some(task_id) = &message.task_id else { return Ok(Vec::new()) };
    let events = chats.bridge().last_events(task_id, EVENTS).await?;
    let of_turn = events.iter().filter(|event| event.at >= message.received_at);
    let mut lines: Vec<String> = of_turn.filter_map(|event| step(&event.line)).collect();
    let surplus = lines.len().saturating_sub(LINES);
    lines.drain(..surplus);
    Ok(lines)
}

/// What a line says of a turn that runs. The answer itself comes as a message of its own.
fn step(line: &Line) -> Option<String> {
    let said = match part(line)? {
        Part::CallBegan { announced, .. } => announced,
        Part::Asked { title, .. } => format!("? {title}"),
        Part::Note(Note::TerminalInput, text) => format!("$ {text}"),
        Part::Note(Note::Declined, text) => format!("→ {text}"),
        Part::Note(Note::Warning, text) if matches!(line, Line::Retrying(_)) => format!("! {text}"),
        _ => return None,
    };
    let said = plain(&said);
    let mut lines = said.lines();
    let first = lines.next().filter(|first| !first.trim().is_empty())?;
    let more = lines.count();
    let shown: String = first.chars().take(WIDTH).collect();
    let is_whole = shown.len() == first.len() && more == 0;
    Some(if is_whole { shown } else { format!("{shown} …") })
}
