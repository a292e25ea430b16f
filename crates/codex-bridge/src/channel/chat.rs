//! A chat platform: its messages have formatting and buttons, and the bot can edit them. Everything that such platforms have
//! in common is here: notices in several messages, buttons below requests and what becomes of them, the progress of turns,
//! reactions to messages, and what has to be known after a restart.
//!
//! [`ChatApi`] is what differs. A platform that implements it is a [`Chat`], which is a whole channel.

pub mod delivery;
mod edits;
pub mod keyboard;
pub mod memory;
pub mod positions;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use codex_bridge_core::chats::{Choice, Verdict};
use codex_bridge_core::inbox::attachment::FileReference;
use codex_bridge_core::inbox::{
    Arrival, Context, ConversationKey, Message, MessageId, Receipt, Received, Room, Sender,
};
use codex_bridge_core::outbox::{Attempt, Outcome, Repeats};
use codex_bridge_core::request::{Button, RequestName, RequestRecord};
use codex_bridge_core::task::TimeMs;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;

use super::http::DownloadError;
use super::targets::place_in;
use super::text::{Body, Limits, Styled};
use super::{
    Acknowledges, Batch, Buttons, Channel, ChannelError, Keeper, Mark, Progress, Receiving, ShowsProgress,
    Stored, Stranger, Tap,
};

pub use keyboard::{Key, Keyboard, Pressed};
use memory::Memory;

/// What differs between chat platforms. A place is what conversations and targets name: a chat, or a thread in one.
pub trait ChatApi: Send + Sync + 'static {
    /// See [`Channel::places`].
    fn places(&self) -> Vec<String>;

    /// See [`Channel::check_place`].
    fn check_place(&self, place: &str) -> Result<(), String>;

    /// See [`Channel::reaches`].
    fn reaches(&self, place: &str) -> bool;

    /// See [`Receiving::identity`].
    fn identity(&self) -> String;

    /// The place that a target means: without a place of its own, the default one.
    fn place(&self, place: &str) -> Result<String, String>;

    /// The limits of a message.
    fn limits(&self) -> Limits;

    /// Whether taps on buttons in this place come to this bot, with a place that it knows again.
    fn takes_taps(&self, place: &str) -> bool;

    /// The shortest pause between two edits that only show progress.
    fn progress_pause(&self, _place: &str) -> Duration {
        Duration::ZERO
    }

    /// What the platform does with a message that is sent again under the same key.
    fn repeats(&self) -> Repeats {
        Repeats::MayDouble
    }

    /// Whether [`ChatApi::post`] finds a text that may have arrived in this place. If not, a repetition is marked as one, as
    /// files always are.
    fn finds_repeats(&self, _place: &str) -> bool {
        false
    }

    /// Sends a message.
    fn post<'a>(&'a self, place: &'a str, post: Post<'a>) -> BoxFuture<'a, Outcome>;

    /// Edits text and buttons of a message.
    fn edit<'a>(
        &'a self,
        place: &'a str,
        message_id: &'a str,
        text: &'a Styled,
        keyboard: &'a Keyboard,
    ) -> BoxFuture<'a, EditOutcome>;

    /// Shows for a few seconds that Codex works.
    fn working<'a>(&'a self, place: &'a str) -> BoxFuture<'a, ()>;

    /// See [`Acknowledges::marks_every_message`].
    fn marks_every_message(&self) -> bool {
        false
    }

    /// Whether people are told the outcome of their tap also where the message with the button shows it.
    fn repeats_outcomes(&self) -> bool {
        true
    }

    /// Shows a sign at a message of a person. False if no sign is possible there; not after a failure that may pass.
    fn react<'a>(&'a self, place: &'a str, external_id: &'a str, mark: Mark) -> BoxFuture<'a, bool>;

    /// Tells only the person who tapped; an empty text ends the platform's own sign that the tap is being handled. Not
    /// retried: after some seconds nobody waits for it.
    fn toast<'a>(&'a self, tap_id: &'a str, text: &'a str) -> BoxFuture<'a, ()>;

    /// What of the platform's own state has to be known after a restart.
    fn notes(&self) -> Value {
        Value::Null
    }

    /// See [`Receiving::start`]; `notes` are those of the last run.
    fn start<'a>(&'a self, notes: &'a Value) -> BoxFuture<'a, Result<String, ChannelError>>;

    /// See [`Receiving::probe`].
    fn probe(&self) -> BoxFuture<'_, Result<String, ChannelError>>;

    /// See [`Receiving::receive`].
    fn receive(&self, cursor: Option<String>) -> BoxFuture<'_, Result<Reading, ChannelError>>;

    /// See [`Receiving::download`].
    fn download<'a>(
        &'a self,
        _reference: &'a FileReference,
    ) -> BoxFuture<'a, Result<Vec<u8>, DownloadError>> {
        std::future::ready(Err(super::no_files())).boxed()
    }

    /// Called when what was read is stored; the platform may now be told.
    fn received(&self) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }
}

/// A message to be sent.
#[derive(Debug, Clone, Copy)]
pub struct Post<'a> {
    /// What is said.
    pub body: &'a Body,
    /// The buttons below it.
    pub keyboard: &'a Keyboard,
    /// The source's id of the message that it answers.
    pub reply_to: Option<&'a str>,
    /// The same for each attempt, and for no other message.
    pub key: &'a str,
    /// Whether an earlier attempt may have arrived, so that the message is looked for first. See [`ChatApi::finds_repeats`].
    pub may_have_arrived: bool,
}

/// What a platform was asked for and gave.
#[derive(Debug, Default)]
pub struct Reading {
    /// Messages, the oldest first.
    pub incoming: Vec<Incoming>,
    /// Taps on our buttons.
    pub taps: Vec<Tapped>,
    /// Taps on buttons that are not known.
    pub unknown_taps: Vec<UnknownTap>,
    /// The cursor behind it.
    pub cursor: Option<String>,
}

/// A message of a person or another agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    /// The message.
    pub arrival: Arrival,
    /// The platform's id of our message to which it replies.
    pub replies_to: Option<String>,
}

/// A tap on one of our buttons.
#[derive(Debug, Clone, PartialEq)]
pub struct Tapped {
    /// The platform's id of the tap.
    pub id: String,
    /// What the button means.
    pub pressed: Pressed,
    /// Who tapped.
    pub sender: Sender,
    /// Where.
    pub conversation: ConversationKey,
    /// Who can read our replies there.
    pub room: Room,
    /// The target for replies there.
    pub reply_to: String,
    /// The platform's id of the message with the button.
    pub message_id: String,
    /// The present text of the message, if the platform still sends it.
    pub text: Option<String>,
    /// The present buttons of the message.
    pub keyboard: Keyboard,
    /// When it was tapped, or a time before that if the platform does not tell.
    pub at: TimeMs,
}

impl Tapped {
    /// Whether the button is one of this request.
    fn is_about(&self, id: &RequestName) -> bool {
        matches!(&self.pressed, Pressed::Choice(button, _) if button.request_id == *id)
    }
}

/// A tap on a button that is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownTap {
    /// The platform's id of the tap.
    pub id: String,
    /// The person, if that person may not write.
    pub stranger: Option<Stranger>,
}

/// The outcome of an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditOutcome {
    /// The message has the new text.
    Done,
    /// A retry may succeed.
    Later,
    /// The message is gone, or cannot be edited any more.
    Never,
}

/// A chat platform as a channel.
pub struct Chat<A> {
    name: String,
    api: Arc<A>,
    /// Whether a running turn is shown in a message that is edited.
    shows_progress: bool,
    memory: Mutex<Memory>,
    keeper: Mutex<Keeper>,
    /// What was stored last. Held while the memory is stored, so that the last state stays.
    kept: tokio::sync::Mutex<Option<String>>,
    /// Held while a message with a request is edited: two outcomes are added one after the other.
    editing: tokio::sync::Mutex<()>,
}

impl<A: ChatApi> Chat<A> {
    /// A channel of this name.
    pub fn new(name: &str, api: A, shows_progress: bool) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            api: Arc::new(api),
            shows_progress,
            memory: Mutex::default(),
            keeper: Mutex::default(),
            kept: tokio::sync::Mutex::default(),
            editing: tokio::sync::Mutex::default(),
        })
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores which messages will be edited, if that has changed. A failure is made good by the next change.
    async fn keep(&self) {
        let mut kept = self.kept.lock().await;
        let sent = self.memory().to_stored(self.api.notes());
        let keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(changed) = sent.filter(|sent| kept.as_ref() != Some(sent)) else { return };
        match keeper.keep(changed.clone()).await {
            Ok(true) => *kept = Some(changed),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(channel = self.name, %error, "messages that will be edited could not be stored");
            }
        }
    }

    async fn read(&self, cursor: Option<String>) -> Result<Batch, ChannelError> {
        let Reading { incoming, taps, unknown_taps, cursor } = self.api.receive(cursor).await?;
        let mut batch = Batch { cursor, ..Batch::default() };
        for Incoming { mut arrival, replies_to } in incoming {
            arrival.context.about = self.memory().request_of(&arrival, replies_to.as_deref());
            batch.arrivals.push(arrival);
        }
        for tapped in taps {
            match &tapped.pressed {
                Pressed::Command(command) => {
                    batch.arrivals.push(arrival_of(&tapped, command));
                    self.toast_later(tapped.id, "");
                }
                Pressed::Choice(button, choice) => {
                    let tap = tap_of(&tapped, button.clone(), choice.clone());
                    // A repeated tap is decided once.
                    let is_known = self.memory().taps.insert(tapped.id.clone(), tapped).is_some();
                    batch.taps.extend(Some(tap).filter(|_| !is_known));
                }
            }
        }
        self.keep().await;
        for UnknownTap { id, stranger } in unknown_taps {
            let text = if stranger.is_none() { "This button is no longer valid." } else { "" };
            batch.knocks.extend(stranger);
            self.toast_later(id, text);
        }
        Ok(batch)
    }

    /// Ends a tap without waiting for it: messages are read meanwhile.
    fn toast_later(&self, tap_id: String, text: &'static str) {
        let api = Arc::clone(&self.api);
        tokio::spawn(async move { api.toast(&tap_id, text).await });
    }

    async fn begin(&self, stored: Stored) -> Result<String, ChannelError> {
        let notes = self.memory().restore(&stored);
        *self.keeper.lock().unwrap_or_else(PoisonError::into_inner) = stored.keeper;
        self.api.start(&notes).await
    }
}

impl<A: ChatApi> Channel for Chat<A> {
    fn places(&self) -> Vec<String> {
        self.api.places()
    }

    fn check_place(&self, place: &str) -> Result<(), String> {
        self.api.check_place(place)
    }

    fn reaches(&self, place: &str) -> bool {
        self.api.reaches(place)
    }

    fn repeats(&self, _place: &str) -> Repeats {
        self.api.repeats()
    }

    fn send<'a>(&'a self, place: &'a str, attempt: &'a Attempt) -> BoxFuture<'a, Outcome> {
        self.deliver(place, attempt).boxed()
    }
}

impl<A: ChatApi> Receiving for Chat<A> {
    fn identity(&self) -> String {
        self.api.identity()
    }

    fn start(&self, stored: Stored) -> BoxFuture<'_, Result<String, ChannelError>> {
        self.begin(stored).boxed()
    }

    fn probe(&self) -> BoxFuture<'_, Result<String, ChannelError>> {
        self.api.probe()
    }

    fn receive(&self, cursor: Option<String>) -> BoxFuture<'_, Result<Batch, ChannelError>> {
        self.read(cursor).boxed()
    }

    fn download<'a>(&'a self, reference: &'a FileReference) -> BoxFuture<'a, Result<Vec<u8>, DownloadError>> {
        self.api.download(reference)
    }

    fn received(&self, receipts: Vec<Receipt>) -> BoxFuture<'_, ()> {
        let mut memory = self.memory();
        // A message for which there was no room comes again.
        let stored = receipts.iter().filter(|one| one.receipt != Received::NoRoom);
        stored.for_each(|one| memory.note_stored(&one.external_id));
        drop(memory);
        async move {
            self.keep().await;
            self.api.received().await;
        }
        .boxed()
    }

    fn buttons(&self) -> Option<&dyn Buttons> {
        Some(self)
    }

    fn progress(&self) -> Option<&dyn ShowsProgress> {
        self.shows_progress.then_some(self)
    }

    fn acknowledges(&self) -> Option<&dyn Acknowledges> {
        Some(self)
    }
}

impl<A: ChatApi> Buttons for Chat<A> {
    fn decided<'a>(&'a self, tap: &'a Tap, verdict: &'a Verdict) -> BoxFuture<'a, ()> {
        self.show_verdict(tap, verdict).boxed()
    }

    fn shown_requests(&self) -> Vec<RequestName> {
        let memory = self.memory();
        // A request that is being decided is left out: its message will show who decided.
        let is_tapped = |id: &RequestName| memory.taps.values().any(|tapped| tapped.is_about(id));
        let shown = memory.request_messages.iter().map(|message| &message.request);
        shown.filter(|id| !is_tapped(id)).cloned().collect()
    }

    fn close_request<'a>(&'a self, request: &'a RequestRecord) -> BoxFuture<'a, ()> {
        self.show_closed(request).boxed()
    }
}

impl<A: ChatApi> Acknowledges for Chat<A> {
    fn working<'a>(&'a self, place: &'a str) -> BoxFuture<'a, ()> {
        self.api.working(place)
    }

    fn mark<'a>(&'a self, message: &'a Message, mark: Mark) -> BoxFuture<'a, bool> {
        let place = place_in(&message.reply_to, &self.name).unwrap_or_default();
        self.api.react(place, &message.external_id, mark)
    }

    fn marks_every_message(&self) -> bool {
        self.api.marks_every_message()
    }
}

impl<A: ChatApi> ShowsProgress for Chat<A> {
    fn in_progress(&self) -> Vec<MessageId> {
        self.memory().progress_messages.names().cloned().map(MessageId).collect()
    }

    fn show<'a>(&'a self, progress: &'a Progress) -> BoxFuture<'a, ()> {
        self.show_progress(progress).boxed()
    }
}

/// The decision of a tap.
fn tap_of(tapped: &Tapped, button: Button, choice: Choice) -> Tap {
    Tap {
        id: tapped.id.clone(),
        conversation: tapped.conversation.clone(),
        sender_id: tapped.sender.id.clone(),
        button,
        choice,
        message_id: Some(tapped.message_id.clone()),
    }
}

/// The command of a tap, as if the person had written it.
fn arrival_of(tapped: &Tapped, command: &str) -> Arrival {
    Arrival {
        external_id: format!("tap/{}", tapped.id),
        conversation: tapped.conversation.clone(),
        sender: tapped.sender.clone(),
        room: tapped.room,
        text: command.to_owned(),
        context: Context::default(),
        attachments: Vec::new(),
        reply_to: tapped.reply_to.clone(),
        position: None,
        sent_at: tapped.at,
    }
}

#[cfg(test)]
mod tests;
