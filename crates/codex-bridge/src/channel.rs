//! Channels: they deliver notices and replies, and bring messages in. One file or folder per platform.
//!
//! Every channel sends ([`Channel`]). A target names a channel and a place in it, such as `telegram:-5`. Some channels also
//! receive ([`Receiving`]): people and other agents write messages, and get replies.
//!
//! A channel only translates for its platform. It knows nothing of rows, conversations and turns. Who may write, what a
//! message starts, what a command means and when a delivery is retried: `codex_bridge_core::inbox` and `outbox` decide.
//!
//! To add a kind of channel: write a file with `Settings` that implement [`Platform`] and a type that implements
//! [`Channel`], and add a line to [`KINDS`]. A receiving channel also needs a stand-in server in `testkit/src/platform/`.
//!
//! The supervisor ([`supervisor`]) serves a receiving channel. It calls [`Receiving::start`] once, then runs concurrently:
//! - [`Receiving::receive`] from the stored cursor; the batch and its cursor are stored in one transaction, then
//!   [`Receiving::received`] is called;
//! - what the platform can do beyond that, each by a trait of its own: [`Buttons`], [`ShowsProgress`], [`Reports`].
//!
//! After [`ChannelError::Retry`] the supervisor starts the channel again, with a growing pause. [`ChannelError::Fatal`] stops it.

mod attachments;
mod chat;
mod discord;
mod exec;
mod feishu;
mod feishu_bot;
pub mod hook;
mod http;
mod lock;
mod molecule;
pub mod notify_section;
mod plugin;
mod progress;
mod recent;
pub mod registry;
mod secret;
pub mod settings;
mod signs;
mod slack;
mod supervisor;
mod targets;
mod telegram;
mod text;
mod transcribe;
mod webhook;
mod websocket;

use std::fmt::Debug;
use std::time::Duration;

use codex_bridge_core::Chats;
use codex_bridge_core::chats::{Choice, Verdict};
use codex_bridge_core::inbox::attachment::FileReference;
use codex_bridge_core::inbox::{
    Arrival, ChannelName, ConversationKey, Message, MessageId, Receipt, WhenFull,
};
use codex_bridge_core::outbox::sender::Seen;
use codex_bridge_core::outbox::{Attempt, Outcome, Repeats};
use codex_bridge_core::request::{Button, RequestName, RequestRecord};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::watch;

use http::DownloadError;
pub use secret::Env;
use settings::{Kind, OpenedChannel, Opening};

/// The kinds of channels, by their `type` in the configuration.
pub const KINDS: &[Kind] = &[
    Kind::of::<discord::Settings>("discord").reading(&discord::VARIABLES).sharing_its_name(),
    Kind::of::<exec::Settings>("exec").only_sending(),
    Kind::of::<feishu::Settings>("feishu").only_sending(),
    Kind::of::<feishu_bot::Settings>("feishu-bot").only_sending(),
    Kind::of::<hook::Settings>("hook"),
    Kind::of::<molecule::Settings>("molecule").reading(&molecule::VARIABLES),
    Kind::of::<plugin::Settings>("plugin"),
    Kind::of::<slack::Settings>("slack").reading(&slack::VARIABLES).sharing_its_name(),
    Kind::of::<telegram::Settings>("telegram").reading(&telegram::VARIABLES),
    Kind::of::<webhook::Settings>("webhook").only_sending(),
];

/// The settings of one kind of channel.
pub trait Platform: Debug + Send + Sync + 'static {
    /// Builds the channel without connecting. The error says what the operator has to correct.
    fn open(&self, opening: &Opening<'_>) -> Result<OpenedChannel, String>;

    /// The secrets in the settings, for the redactor.
    fn secrets(&self, _env: Env<'_>) -> Vec<String> {
        Vec::new()
    }
}

/// The sending half of a channel. A place is the part of a target behind the channel's name; an empty place is the channel
/// itself.
pub trait Channel: Send + Sync + 'static {
    /// The places that callers may name.
    fn places(&self) -> Vec<String> {
        vec![String::new()]
    }

    /// Checks that the place exists and that callers may name it. Replies are not checked: they go where their message came
    /// from.
    fn check_place(&self, place: &str) -> Result<(), String> {
        if place.is_empty() {
            Ok(())
        } else {
            Err("the channel has no places: the target is its name alone".to_owned())
        }
    }

    /// Whether the channel can send to the place, even if callers may not name it. A sender who may write gets replies in any
    /// place.
    fn reaches(&self, place: &str) -> bool {
        self.check_place(place).is_ok()
    }

    /// What the receiver does with a repeated delivery.
    fn repeats(&self, _place: &str) -> Repeats {
        Repeats::MayDouble
    }

    /// Makes one attempt to deliver a notice to the place.
    fn send<'a>(&'a self, place: &'a str, attempt: &'a Attempt) -> BoxFuture<'a, Outcome>;

    /// Looks whether an earlier attempt was delivered, on platforms where that is possible.
    fn look<'a>(&'a self, _attempt: &'a Attempt) -> BoxFuture<'a, Result<Seen, String>> {
        std::future::ready(Ok(Seen::No)).boxed()
    }
}

/// The receiving half of a channel.
pub trait Receiving: Channel {
    /// The workspace or bot that only one daemon may serve, in words without secrets.
    fn identity(&self) -> String;

    /// Connects to the platform and checks the credentials. Returns a sentence for people.
    fn start(&self, stored: Stored) -> BoxFuture<'_, Result<String, ChannelError>>;

    /// Checks that the channel could be served, without changing anything on the platform. Returns a sentence for people.
    fn probe(&self) -> BoxFuture<'_, Result<String, ChannelError>>;

    /// Returns the messages since the cursor. May wait up to a minute for one. The batch and its cursor are stored in one
    /// transaction.
    fn receive(&self, cursor: Option<String>) -> BoxFuture<'_, Result<Batch, ChannelError>>;

    /// Called when received messages are stored or refused; the channel may now confirm them to the platform.
    fn received(&self, _receipts: Vec<Receipt>) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }

    /// Downloads a file of a message, by the reference that the channel gave it. Called only for files of senders who may write.
    fn download<'a>(
        &'a self,
        _reference: &'a FileReference,
    ) -> BoxFuture<'a, Result<Vec<u8>, DownloadError>> {
        std::future::ready(Err(no_files())).boxed()
    }

    /// What happens to new messages while the inbox is full.
    fn when_full(&self) -> WhenFull {
        WhenFull::ReadLater
    }

    /// The buttons, if people decide with buttons.
    fn buttons(&self) -> Option<&dyn Buttons> {
        None
    }

    /// The display of running turns, if the channel has one.
    fn progress(&self) -> Option<&dyn ShowsProgress> {
        None
    }

    /// The signs at messages, if the platform has any.
    fn acknowledges(&self) -> Option<&dyn Acknowledges> {
        None
    }

    /// Whether a short line tells people that their message waits, on a platform without such signs.
    fn says_receipts(&self) -> bool {
        false
    }

    /// The reports, if the platform wants any.
    fn reports(&self) -> Option<&dyn Reports> {
        None
    }

    /// The hook that takes POST requests, if the channel is one.
    fn hook(&self) -> Option<&hook::Hook> {
        None
    }
}

/// What is stored of a channel.
#[derive(Clone, Default)]
pub struct Stored {
    /// How far the source was read.
    pub cursor: Option<String>,
    /// What the channel stored by `keeper`.
    pub memory: Option<String>,
    /// Stores what the channel has to know after a restart.
    pub keeper: Keeper,
}

/// Stores what a channel has to know after a restart, beside its cursor: the messages that it will edit.
#[derive(Clone, Default)]
pub struct Keeper(Option<(Chats, ChannelName)>);

impl Keeper {
    /// The keeper of a channel.
    pub fn new(chats: Chats, channel: ChannelName) -> Self {
        Self(Some((chats, channel)))
    }

    /// Stores the memory; durable when this returns. False if the channel is not served yet, so that nothing was stored.
    pub async fn keep(&self, memory: String) -> Result<bool, codex_bridge_core::bridge::Error> {
        let Some((chats, channel)) = &self.0 else { return Ok(false) };
        chats.save_memory(channel, memory).await?;
        Ok(true)
    }
}

/// A platform on which people decide with buttons. The taps come in as [`Batch::taps`].
pub trait Buttons: Send + Sync {
    /// The open requests that are shown with buttons.
    fn shown_requests(&self) -> Vec<RequestName>;

    /// Removes the buttons of a request that is no longer open.
    fn close_request<'a>(&'a self, request: &'a RequestRecord) -> BoxFuture<'a, ()>;

    /// Shows the outcome of a decision that was made with a button.
    fn decided<'a>(&'a self, tap: &'a Tap, verdict: &'a Verdict) -> BoxFuture<'a, ()>;
}

/// A platform that shows running turns.
pub trait ShowsProgress: Send + Sync {
    /// The turns that are shown, by the messages that started them.
    fn in_progress(&self) -> Vec<MessageId>;

    /// Shows the progress of a turn. Called at most every two seconds, and once more when the turn is finished.
    fn show<'a>(&'a self, progress: &'a Progress) -> BoxFuture<'a, ()>;
}

/// A platform that can show senders at once what becomes of their messages.
pub trait Acknowledges: Send + Sync {
    /// Shows for about five seconds that Codex works. Called again while it does.
    fn working<'a>(&'a self, place: &'a str) -> BoxFuture<'a, ()>;

    /// Shows a sign at a message. False if no sign is possible there; not after a failure that may pass.
    fn mark<'a>(&'a self, message: &'a Message, mark: Mark) -> BoxFuture<'a, bool>;

    /// Whether a message also gets a sign when it is worked on at once, since the platform cannot show that Codex works.
    fn marks_every_message(&self) -> bool {
        false
    }
}

/// A sign at a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// It is worked on, on platforms that show nothing else meanwhile.
    Read,
    /// It waits its turn.
    Queued,
    /// It was added to the running turn.
    Added,
}

impl Mark {
    /// The mark as a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Queued => "queued",
            Self::Added => "added",
        }
    }
}

/// A platform that is told which messages are finished, and what the channel is working on.
pub trait Reports: Send + Sync {
    /// Tells the platform that these messages and all earlier ones are finished. They are passed until a call succeeds.
    fn acknowledge<'a>(&'a self, done: &'a [Message]) -> BoxFuture<'a, Result<(), ChannelError>>;

    /// Reports the activity for as long as the channel is served. Returns only with an error.
    fn keep_reporting(&self, activity: watch::Receiver<Activity>) -> BoxFuture<'_, ChannelError>;
}

/// The result of one [`Receiving::receive`].
#[derive(Debug, Default)]
pub struct Batch {
    /// Messages, the oldest first.
    pub arrivals: Vec<Arrival>,
    /// Decisions that were made with buttons.
    pub taps: Vec<Tap>,
    /// Strangers who tapped on an unknown button.
    pub knocks: Vec<Stranger>,
    /// The cursor behind this batch; none leaves the stored cursor as it is.
    pub cursor: Option<String>,
}

/// A sender who may not write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stranger {
    /// Where the stranger tried to write.
    pub conversation: ConversationKey,
    /// The stranger's id on the platform.
    pub id: String,
    /// The stranger's display name.
    pub name: String,
}

/// A decision made with a button, or with the platform's own requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Tap {
    /// The platform's id of the tap.
    pub id: String,
    /// The conversation in which the decision was made.
    pub conversation: ConversationKey,
    /// The platform's id of the person who decided.
    pub sender_id: String,
    /// The button, which names the request.
    pub button: Button,
    /// What was chosen.
    pub choice: Choice,
    /// The platform's id of the message with the button.
    pub message_id: Option<String>,
}

/// The progress of a turn, for platforms that show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The message that started the turn.
    pub message_id: MessageId,
    /// Where the progress is shown.
    pub place: String,
    /// The text that is shown, redacted.
    pub text: String,
    /// Whether the turn is finished.
    pub is_finished: bool,
}

/// What a channel is working on, for platforms that show it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Activity {
    /// The number of messages being worked on.
    pub running: usize,
    /// The beginning of the oldest of these messages, redacted.
    pub summary: String,
}

/// Why a channel stopped serving.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelError {
    /// Retrying is useless: somebody has to change something.
    Fatal(String),
    /// A retry may succeed.
    Retry {
        /// The pause that the platform asked for, if any.
        after: Option<Duration>,
        /// What failed, without secrets.
        reason: String,
    },
}

impl From<codex_bridge_core::bridge::Error> for ChannelError {
    fn from(error: codex_bridge_core::bridge::Error) -> Self {
        Self::retry(error.to_string())
    }
}

impl ChannelError {
    /// A failure that is retried after the usual pause.
    pub fn retry(reason: impl Into<String>) -> Self {
        Self::Retry { after: None, reason: reason.into() }
    }

    /// What failed, in a sentence without secrets.
    pub fn reason(&self) -> &str {
        match self {
            Self::Fatal(reason) | Self::Retry { reason, .. } => reason,
        }
    }
}

/// The answer of a channel that downloads nothing.
fn no_files() -> DownloadError {
    DownloadError::Refused("no files are fetched from this platform".to_owned())
}
