//! Channels: the ways out of the bridge and into it. One file or folder per platform.
//!
//! Every channel sends ([`Channel`]): what is told to others goes to a place of a channel, and a target names both. Some
//! also receive ([`Receiving`]): people and other agents write there, and replies go back to them.
//!
//! A channel translates. It knows its platform's words and nothing of rows, conversations and turns: what a message
//! leads to, who may write, what a command means and when something is sent again is the library's business
//! (`codex_bridge_core::inbox` and `outbox`).
//!
//! How a kind of channel is added: a file with its `Settings`, which implement [`Platform`], and a type that implements
//! [`Channel`]; a line in [`KINDS`]. One that receives also gets a stand-in server in `testkit/src/platform/`.
//!
//! What the supervisor ([`supervisor`]) does with one that receives, in this order: [`Receiving::start`] once; then, side by
//! side, for ever: [`Receiving::receive`] from the cursor that is remembered, what it gives is made durable together with the
//! new cursor, [`Receiving::received`]; [`Receiving::acknowledge`] for what is done with; [`Receiving::progress`] for what
//! runs; [`Receiving::beside`]. Whatever fails with [`Trouble::Again`] is begun again after a pause that grows;
//! [`Trouble::Stop`] is final.

mod attached;
mod exec;
mod feishu;
mod feishu_bot;
pub mod hook;
mod http;
mod lock;
mod molecule;
pub mod old;
mod plugin;
mod progress;
mod recent;
pub mod registry;
mod secret;
pub mod settings;
mod supervisor;
mod targets;
mod telegram;
mod text;
mod webhook;

use std::any::Any;
use std::fmt::Debug;
use std::time::Duration;

use codex_bridge_core::chats::{Choice, Verdict};
use codex_bridge_core::inbox::{Arrival, ConversationKey, Message, MessageId, Receipt, WhenFull};
use codex_bridge_core::outbox::sender::Seen;
use codex_bridge_core::outbox::{Attempt, Outcome, Repeats};
use codex_bridge_core::request::Button;
use codex_bridge_core::request::{RequestName, RequestRecord};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::watch;

pub use secret::Env;
use settings::{Kind, Opening, Way};

/// The kinds of channels: what stands as `type` in the configuration.
pub const KINDS: &[Kind] = &[
    Kind::of::<exec::Settings>("exec").only_sending(),
    Kind::of::<feishu::Settings>("feishu").only_sending(),
    Kind::of::<feishu_bot::Settings>("feishu-bot").only_sending(),
    Kind::of::<hook::Settings>("hook"),
    Kind::of::<molecule::Settings>("molecule").reading(&molecule::VARIABLES),
    Kind::of::<plugin::Settings>("plugin"),
    Kind::of::<telegram::Settings>("telegram").reading(&telegram::VARIABLES),
    Kind::of::<webhook::Settings>("webhook").only_sending(),
];

/// What the operator says about a channel of one kind.
pub trait Platform: Debug + Send + Sync + 'static {
    /// The channel, or what has to be put right. Nothing is reached yet.
    fn open(&self, opening: &Opening<'_>) -> Result<Way, String>;

    /// What has to be hidden wherever it shows up.
    fn secrets(&self, _env: Env<'_>) -> Vec<String> {
        Vec::new()
    }
}

/// A way to a platform. A place is what stands behind the channel's name in a target; an empty one is the channel itself.
pub trait Channel: Send + Sync + 'static {
    /// The places that callers may name.
    fn places(&self) -> Vec<String> {
        vec![String::new()]
    }

    /// Whether there is such a place and callers may name it, and why not. Replies go where their message came from, and
    /// are not asked about here.
    fn check_place(&self, place: &str) -> Result<(), String> {
        if place.is_empty() { Ok(()) } else { Err("it has no places: its name is all".to_owned()) }
    }

    /// Whether something can be said there at all, be it one of the places that people may name or not: whoever may write
    /// is answered wherever they wrote.
    fn reaches(&self, place: &str) -> bool {
        self.check_place(place).is_ok()
    }

    /// What a repetition does there.
    fn repeats(&self, _place: &str) -> Repeats {
        Repeats::MayDouble
    }

    /// One attempt to say something there.
    fn send<'a>(&'a self, place: &'a str, attempt: &'a Attempt) -> BoxFuture<'a, Outcome>;

    /// Where one can look: whether it was said.
    fn look<'a>(&'a self, _attempt: &'a Attempt) -> BoxFuture<'a, Result<Seen, String>> {
        std::future::ready(Ok(Seen::No)).boxed()
    }
}

/// The receiving half of a channel.
pub trait Receiving: Channel + Any {
    /// What only one daemon may serve, in words without secrets: a workspace, a bot.
    fn identity(&self) -> String;

    /// Makes sure that it can work: credentials, reach. Gives a sentence for people. Gets the cursor that is remembered.
    fn start(&self, cursor: Option<String>) -> BoxFuture<'_, Result<String, Trouble>>;

    /// Looks whether it could work, and changes nothing there. Gives a sentence for people.
    fn probe(&self) -> BoxFuture<'_, Result<String, Trouble>>;

    /// What came since the cursor. May wait for something to come, a minute at most. The cursor of what it gives is
    /// remembered together with it, in one transaction.
    fn receive(&self, cursor: Option<String>) -> BoxFuture<'_, Result<Batch, Trouble>>;

    /// What it brought is durable, or refused: now its source may be told.
    fn received(&self, _receipts: Vec<Receipt>) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }

    /// What becomes of messages for which there is no room.
    fn when_full(&self) -> WhenFull {
        WhenFull::ReadLater
    }

    /// Whether the source keeps one mark up to which all is done with.
    fn has_watermark(&self) -> bool {
        false
    }

    /// Tells the source that these are done with, the oldest first. Asked only what is not yet known there; where
    /// [`Self::has_watermark`], every earlier message is done with too.
    fn acknowledge<'a>(&'a self, _done: &'a [Message]) -> BoxFuture<'a, Result<(), Trouble>> {
        std::future::ready(Ok(())).boxed()
    }

    /// Runs beside everything else, for heartbeats and the like; ends only with trouble.
    fn beside(&self, _doing: watch::Receiver<Doing>) -> BoxFuture<'_, Trouble> {
        std::future::pending().boxed()
    }

    /// The requests that are put before people with buttons.
    fn asked(&self) -> Vec<RequestName> {
        Vec::new()
    }

    /// One of these is no longer open: its buttons go.
    fn close_asked<'a>(&'a self, _request: &'a RequestRecord) -> BoxFuture<'a, ()> {
        std::future::ready(()).boxed()
    }

    /// What came of a decision that was made with a button.
    fn decided<'a>(&'a self, _tap: &'a Tap, _verdict: &'a Verdict) -> BoxFuture<'a, ()> {
        std::future::ready(()).boxed()
    }

    /// Whether turns are shown while they run.
    fn shows_progress(&self) -> bool {
        false
    }

    /// The turns that it shows, by the messages that asked for them.
    fn in_progress(&self) -> Vec<MessageId> {
        Vec::new()
    }

    /// How a turn stands. Told every two seconds at most, and once more when it is over.
    fn progress<'a>(&'a self, _progress: &'a Progress) -> BoxFuture<'a, ()> {
        std::future::ready(()).boxed()
    }
}

/// What a channel brings at once.
#[derive(Debug, Default)]
pub struct Batch {
    /// Messages, the oldest first.
    pub arrivals: Vec<Arrival>,
    /// Decisions that were made with buttons.
    pub taps: Vec<Tap>,
    /// Strangers who tapped on a button that means nothing.
    pub knocks: Vec<Stranger>,
    /// How far the source is read with these; none leaves it as it was.
    pub cursor: Option<String>,
}

/// Somebody who may not write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stranger {
    /// Where they tried.
    pub conversation: ConversationKey,
    /// The platform's name for them.
    pub id: String,
    /// How people call them.
    pub name: String,
}

/// A decision that was made with a button, or in the platform's own way.
#[derive(Debug, Clone, PartialEq)]
pub struct Tap {
    /// The platform's own name for it.
    pub id: String,
    /// The conversation in which it was made.
    pub conversation: ConversationKey,
    /// Who made it.
    pub sender_id: String,
    /// On what.
    pub button: Button,
    /// What was chosen.
    pub choice: Choice,
    /// The message that carries the button, as the platform calls it.
    pub message_id: Option<String>,
}

/// How a turn stands, for platforms that show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The message that asked for it.
    pub message_id: MessageId,
    /// Where it is shown.
    pub place: String,
    /// What is shown, redacted.
    pub text: String,
    /// Whether it is over.
    pub is_over: bool,
}

/// What a channel is doing, for platforms that show it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Doing {
    /// How many messages are worked on.
    pub running: usize,
    /// The beginning of the oldest of them, redacted.
    pub summary: String,
}

/// Why a channel cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// Not by itself: somebody must do something.
    Stop(String),
    /// It is worth another try, after so long if the platform said so.
    Again {
        /// Not before.
        after: Option<Duration>,
        /// Why, without secrets.
        why: String,
    },
}

impl Trouble {
    /// Worth another try.
    pub fn again(why: impl Into<String>) -> Self {
        Self::Again { after: None, why: why.into() }
    }

    /// Why, in a sentence.
    pub fn sentence(&self) -> &str {
        match self {
            Self::Stop(why) | Self::Again { why, .. } => why,
        }
    }
}
