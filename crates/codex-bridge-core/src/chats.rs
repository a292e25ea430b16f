//! The messages of channels: they come in, become turns through the desk, and are answered.
//!
//! The inbox machine decides what becomes of a message. This module has the loop around the machine, the facts that it has to
//! know, and the effects that it wants.

mod channels;
mod effects;
mod facts;
mod intake;
mod worker;

use std::sync::Arc;

use crate::bridge::{Bridge, Error, Inner};
use crate::desk::Desk;
use worker::Inbox;

pub use crate::inbox::machine::decisions::{Choice, Verdict};
pub use crate::inbox::strangers::Knock;
pub use crate::request::Button;
pub use effects::Pending;

/// The channels that are served, and what came in by them. Cheap to clone; the work goes on as long as one is held.
#[derive(Clone)]
pub struct Chats {
    inbox: Arc<Inbox>,
}

impl Chats {
    /// Begins to work on messages. One per bridge: two would both answer.
    pub fn open(desk: Desk) -> Self {
        let chats = Self { inbox: Arc::new(Inbox::new(desk)) };
        chats.inner().spawn(worker::run(Arc::downgrade(&chats.inbox)));
        chats
    }

    fn desk(&self) -> &Desk {
        &self.inbox.desk
    }

    /// The bridge behind the desk.
    pub fn bridge(&self) -> &Bridge {
        self.desk().bridge()
    }

    fn inner(&self) -> &Arc<Inner> {
        &self.bridge().inner
    }

    /// Carries out a change to its end, though nobody may wait for it any longer.
    async fn to_its_end<T, F>(&self, change: impl FnOnce(Self) -> F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let change = change(self.clone());
        self.bridge().to_its_end(|_| change).await
    }
}
