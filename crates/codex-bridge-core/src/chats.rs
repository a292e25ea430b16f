//! Messages from channels: they come in, become turns through the desk, and get replies.
//!
//! The pure `inbox::machine` decides what happens to a message. This module runs the loop around it,
//! gathers its facts and performs its effects.

mod channels;
mod effects;
mod facts;
mod files;
mod intake;
mod message_turn;
mod pairing;
mod worker;
mod workspace_folder;

use std::sync::Arc;

use crate::bridge::{Bridge, Error, Inner};
use crate::desk::Desk;
use worker::Inbox;

pub use crate::inbox::machine::decisions::{Choice, Verdict};
pub use crate::inbox::strangers::Knock;
pub use crate::request::Button;
pub use effects::PendingVerdict;
pub use files::WantedFiles;
pub use message_turn::MessageTurn;

/// The open channels and their messages. Clones are cheap; the work goes on as long as one exists.
#[derive(Clone)]
pub struct Chats {
    inbox: Arc<Inbox>,
}

impl Chats {
    /// Begins to work on messages. Open one per bridge only: two would both answer.
    pub fn open(desk: Desk) -> Self {
        let chats = Self { inbox: Arc::new(Inbox::new(desk)) };
        chats.inner().spawn(worker::run(Arc::downgrade(&chats.inbox)));
        chats
    }

    /// The desk that messages pass.
    pub fn desk(&self) -> &Desk {
        &self.inbox.desk
    }

    /// The bridge behind the desk.
    pub fn bridge(&self) -> &Bridge {
        self.desk().bridge()
    }

    fn inner(&self) -> &Arc<Inner> {
        &self.bridge().inner
    }

    /// Runs a change to completion, even if its caller goes away.
    async fn to_completion<T, F>(&self, change: impl FnOnce(Self) -> F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let change = change(self.clone());
        self.bridge().to_completion(|_| change).await
    }
}
