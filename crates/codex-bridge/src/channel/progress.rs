//! Shows the progress of running turns, on platforms where a message can be edited: how long Codex has worked, what it does,
//! and how much it has done. At the end one line remains. A turn of less than two seconds is not shown.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use codex_bridge_core::Chats;
use codex_bridge_core::bridge::Error;
use codex_bridge_core::chats::MessageTurn;
use codex_bridge_core::diff;
use codex_bridge_core::event::{Event, Line, Seq};
use codex_bridge_core::inbox::{ChannelName, Message, MessageId, MessageKind, MessageState};
use codex_bridge_core::store::{MessageFilter, TaskFilter};
use codex_bridge_core::task::{Status, TaskId, TimeMs};
use codex_session::tool_display::Action;
use codex_wire::item::Phase;
use jiff::Timestamp;
use redact::plain::plain;
use tokio::sync::broadcast::error::RecvError;

use super::recent::MAX_ENTRIES;
use super::targets::place_in;
use super::{Progress, ShowsProgress};
use crate::amount;
use crate::transcript::{Note, Part, part};

/// The pause between updates, and how long a turn runs before it is shown.
const INTERVAL: Duration = Duration::from_secs(2);
/// How often a shown turn is looked at without news: its time goes on, and a failed update is retried.
const LOOK_AGAIN: Duration = Duration::from_secs(6);
/// How many events of a task are read at once, and how often in one update.
const EVENTS: u32 = 200;
const MOST_READS: usize = 10;
/// How many steps are shown.
const STEPS: usize = 5;
/// The longest line, in characters.
const WIDTH: usize = 120;
/// How many changed files are counted.
const MOST_FILES: usize = 1_000;

/// Shows running turns until the bridge closes.
pub async fn run(chats: &Chats, name: &ChannelName, display: &dyn ShowsProgress) {
    let mut is_failing = false;
    let mut view = View { chats, name, display, tallies: BTreeMap::new() };
    loop {
        let mut news = chats.bridge().news();
        let shown = view.show_all().await;
        // A failure that lasts is logged once.
        if let Some(error) = shown.as_ref().err().filter(|_| !is_failing) {
            tracing::warn!(channel = name.as_str(), %error, "the progress of turns cannot be shown; it is retried");
        }
        is_failing = shown.is_err();
        // Missed news is no loss, since every update reads the store.
        let timeout = match shown {
            Ok(Shown::TooYoung) => INTERVAL,
            _ if display.in_progress().is_empty() => Duration::MAX,
            _ => LOOK_AGAIN,
        };
        let news_result = tokio::time::timeout(timeout, news.recv()).await;
        if matches!(news_result, Ok(Err(RecvError::Closed))) {
            return;
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Whether every running turn is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    All,
    /// A turn runs that is too young to be shown.
    TooYoung,
}

struct View<'a> {
    chats: &'a Chats,
    name: &'a ChannelName,
    display: &'a dyn ShowsProgress,
    /// What the shown turns have done, by the messages that started them.
    tallies: BTreeMap<MessageId, Tally>,
}

impl View<'_> {
    async fn show_all(&mut self) -> Result<Shown, Error> {
        let running = MessageFilter {
            channel: Some(self.name.clone()),
            states: vec![MessageState::Running],
            ..MessageFilter::default()
        };
        let mut shown = Shown::All;
        let mut over: BTreeSet<MessageId> = self.display.in_progress().into_iter().collect();
        // A turn that the channel cannot remember would get a new message each time.
        let mut room = MAX_ENTRIES.saturating_sub(over.len());
        let running_tasks = running_tasks(self.chats).await?;
        for message in self.chats.messages(&running).await? {
            let is_shown = over.remove(&message.id);
            let may_begin =
                || room > 0 && message.task_id.as_ref().is_some_and(|id| running_tasks.contains(id));
            if message.kind != MessageKind::Prompt || !(is_shown || may_begin()) {
                continue;
            }
            let turn = self.chats.turn_of(&message).await?;
            if !is_shown {
                // The task may already work on a turn of another caller.
                let Some(turn) = turn.filter(|turn| !turn.is_over()) else { continue };
                if now() - turn.began_at() < TimeMs::try_from(INTERVAL.as_millis()).unwrap_or_default() {
                    shown = Shown::TooYoung;
                    continue;
                }
                room -= 1;
            }
            self.show(&message, turn, false).await?;
        }
        for id in over {
            let named = MessageFilter { id: Some(id.clone()), ..MessageFilter::default() };
            if let Some(message) = self.chats.messages(&named).await?.into_iter().next() {
                let turn = self.chats.turn_of(&message).await?;
                self.show(&message, turn, true).await?;
            }
            self.tallies.remove(&id);
        }
        Ok(shown)
    }

    async fn show(
        &mut self,
        message: &Message,
        turn: Option<MessageTurn>,
        is_finished: bool,
    ) -> Result<(), Error> {
        let text = match (&message.task_id, turn) {
            (Some(task_id), Some(turn)) => {
                let tally = self.tallies.entry(message.id.clone()).or_default();
                tally.read(self.chats, task_id, &turn).await?;
                tally.text(&turn, is_finished, now())
            }
            _ => "Codex has worked on it.".to_owned(),
        };
        let place = place_in(&message.reply_to, self.name.as_str()).unwrap_or_default().to_owned();
        self.display.show(&Progress { message_id: message.id.clone(), place, text, is_finished }).await;
        Ok(())
    }
}

pub(super) fn now() -> TimeMs {
    Timestamp::now().as_millisecond()
}

/// The tasks that Codex works on. A queued task has no progress to show.
pub(super) async fn running_tasks(chats: &Chats) -> Result<BTreeSet<TaskId>, Error> {
    let statuses = vec![Status::Starting, Status::Working, Status::Interrupting];
    let filter = TaskFilter { statuses, ..TaskFilter::default() };
    Ok(chats.bridge().store().tasks(&filter).await?.into_iter().map(|task| task.id).collect())
}

/// What a turn has done so far.
#[derive(Debug, Default)]
struct Tally {
    /// The last event that was read.
    seq: Seq,
    commands: usize,
    files: BTreeSet<String>,
    /// Open requests.
    asked: BTreeSet<String>,
    /// The last steps, the newest last.
    steps: VecDeque<String>,
    /// What Codex wrote last; if it goes on working, that was no answer.
    said: Option<String>,
    ended: Option<(Status, TimeMs)>,
}

impl Tally {
    /// Reads the events since the last time.
    async fn read(&mut self, chats: &Chats, task_id: &TaskId, turn: &MessageTurn) -> Result<(), Error> {
        for _ in 0..MOST_READS {
            let events = chats.bridge().events(task_id, self.seq, EVENTS).await?;
            let Some(last) = events.last() else { return Ok(()) };
            self.seq = last.seq;
            events.iter().filter(|event| turn.has(event)).for_each(|event| self.add(event));
            if events.len() < EVENTS as usize {
                return Ok(());
            }
        }
        Ok(())
    }

    fn add(&mut self, event: &Event) {
        match &event.line {
            Line::ToolStarted(call) => match call.action() {
                Action::Command(_) => self.commands += 1,
                Action::Changes(files) => {
                    let paths = files.iter().map(|file| file.path.to_owned());
                    self.files.extend(paths.take(MOST_FILES.saturating_sub(self.files.len())));
                }
                Action::Tool => {}
            },
            // What has changed in the end.
            Line::Diff(line) => {
                let changed = diff::files(&line.diff).into_iter().filter(diff::File::is_named);
                self.files = changed.map(|file| file.path).take(MOST_FILES).collect();
            }
            Line::Request(request) => drop(self.asked.insert(request.request_id.to_string())),
            Line::RequestClosed(closed) => drop(self.asked.remove(closed.request_id.as_str())),
            Line::State(state) if state.status.is_finished() => self.ended = Some((state.status, event.at)),
            Line::TurnStarted(_) => self.ended = None,
            _ => {}
        }
        if let Line::Message(message) = &event.line {
            self.said =
                (message.phase != Some(Phase::FinalAnswer)).then(|| shortened(&message.text)).flatten();
        } else if let Some(step) = step(&event.line) {
            let said = self.said.take();
            self.steps.extend(said.into_iter().chain([step]));
            self.steps.drain(..self.steps.len().saturating_sub(STEPS));
        }
    }

    /// The text that shows the turn: a line that counts, and its last steps while it runs.
    fn text(&self, turn: &MessageTurn, is_finished: bool, now: TimeMs) -> String {
        let (commands, files) = (self.commands, self.files.len());
        let mut counts = Vec::new();
        counts.extend((commands > 0).then(|| amount::counted(commands, "command")));
        counts.extend((files > 0).then(|| amount::counted(files, "file")));
        let elapsed = |until: TimeMs| u64::try_from(until - turn.began_at()).unwrap_or_default();
        let head = match self.ended {
            Some((status, at)) => {
                let took = amount::duration(elapsed(at));
                match status {
                    Status::Completed => format!("Done in {took}"),
                    Status::Cancelled => format!("Stopped after {took}"),
                    _ => format!("Failed after {took}"),
                }
            }
            None if is_finished => "Over".to_owned(),
            None if turn.is_over() => "Waiting to go on".to_owned(),
            None if !self.asked.is_empty() => "Waiting for a decision".to_owned(),
            None => format!("Working · {}", amount::duration(rounded(elapsed(now)))),
        };
        counts.insert(0, head);
        let head = counts.join(" · ");
        if is_finished || self.ended.is_some() {
            return head;
        }
        [head].into_iter().chain(self.steps.iter().cloned()).collect::<Vec<_>>().join("\n")
    }
}

/// A running time, in steps that grow with it: each change is an edit, and platforms limit these.
fn rounded(ms: u64) -> u64 {
    let step = match ms / 1000 {
        0..60 => 5_000,
        60..600 => 15_000,
        _ => 60_000,
    };
    ms - ms % step
}

/// A line of the task as one step.
fn step(line: &Line) -> Option<String> {
    let text = match part(line)? {
        Part::CallBegan { headline, .. } => headline,
        Part::Asked { title, .. } => format!("? {title}"),
        Part::Note(Note::TerminalInput, text) => format!("$ {text}"),
        Part::Note(Note::Declined, text) => format!("→ {text}"),
        Part::Note(Note::Warning, text) if matches!(line, Line::Retrying(_)) => format!("! {text}"),
        _ => return None,
    };
    shortened(&text)
}

/// The first line of a text, cut to the width.
fn shortened(text: &str) -> Option<String> {
    let text = plain(text.trim());
    let mut lines = text.lines();
    let first = lines.next().filter(|first| !first.trim().is_empty())?;
    let more = lines.count();
    let shown: String = first.chars().take(WIDTH).collect();
    let is_whole = shown.len() == first.len() && more == 0;
    Some(if is_whole { shown } else { format!("{shown} …") })
}
