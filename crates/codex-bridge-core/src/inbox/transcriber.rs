//! Turns speech into text, by a program of the operator's. Who runs it knows how; this module only names it.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

/// Makes text of recordings.
pub trait Transcribes: Send + Sync + 'static {
    /// The words of a recording, or why there are none, as a sentence about the recording ("it …"). Ends within a bounded
    /// time.
    fn transcribe(&self, recording: Vec<u8>) -> BoxFuture<'_, Result<String, String>>;
}

/// The operator's way to make text of recordings.
#[derive(Clone)]
pub struct Transcriber {
    /// The settings. Transcribers with the same settings are equal.
    settings: String,
    transcribes: Arc<dyn Transcribes>,
}

impl Transcriber {
    /// A transcriber with these settings.
    pub fn new(settings: String, transcribes: Arc<dyn Transcribes>) -> Self {
        Self { settings, transcribes }
    }

    /// See [`Transcribes::transcribe`].
    pub async fn transcribe(&self, recording: Vec<u8>) -> Result<String, String> {
        self.transcribes.transcribe(recording).await
    }
}

impl PartialEq for Transcriber {
    fn eq(&self, other: &Self) -> bool {
        self.settings == other.settings
    }
}

impl fmt::Debug for Transcriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Transcriber").field(&self.settings).finish()
    }
}
