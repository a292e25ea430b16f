//! Files of messages, the same for every platform. A channel names the files of a message with [`at_source`]; the supervisor has
//! them fetched here, after the core has said that the sender may write. What a file is, its bytes say
//! (`codex_bridge_core::inbox::attachment::classify`).

use std::time::Duration;

use codex_bridge_core::chats::WantedFiles;
use codex_bridge_core::inbox::attachment::{self, FileReference, classify};
use codex_bridge_core::inbox::{Arrival, Attachment, Content};
use futures_util::future::join_all;
use tokio::time::Instant;

use super::Receiving;
use super::http::DownloadError;

/// How long the files of all messages that were read together may take. Messages behind them wait so long.
const LONGEST: Duration = Duration::from_mins(1);
/// How many bytes are fetched for messages that were read together: they are in memory at once.
const BATCH_BYTES: u64 = 64 * 1024 * 1024;
/// The pause before a download is tried again.
const AGAIN: Duration = Duration::from_millis(500);
/// Why a recording is not fetched.
const NO_TRANSCRIBER: &str = "nothing here makes text of speech; the operator can set `transcribe`";

/// A file that is still on the platform. `kind` is what it is to people, such as `photo`.
pub fn at_source(kind: &str, name: &str, reference: &str, bytes: Option<u64>) -> Attachment {
    let content = Content::AtSource { reference: reference.into(), bytes, is_speech: false };
    Attachment { kind: kind.to_owned(), name: name.to_owned(), content }
}

/// A recording that is still on the platform.
pub fn speech_at_source(kind: &str, name: &str, reference: &str, bytes: Option<u64>) -> Attachment {
    let content = Content::AtSource { reference: reference.into(), bytes, is_speech: true };
    Attachment { kind: kind.to_owned(), name: name.to_owned(), content }
}

/// A file that is not given to Codex. `why` is a clause about it ("it …").
pub fn unreadable(kind: Option<&str>, name: Option<&str>, why: &str) -> Attachment {
    Attachment {
        kind: kind.unwrap_or("file").to_owned(),
        name: name.unwrap_or_default().to_owned(),
        content: Content::Unreadable(why.to_owned()),
    }
}

/// Fetches the files of these messages. A file that cannot be fetched is unreadable.
pub async fn fetch_all(channel: &dyn Receiving, arrivals: &mut [Arrival], wanted: &[WantedFiles]) {
    let deadline = Instant::now() + LONGEST;
    let mut room = BATCH_BYTES;
    for (arrival, wanted) in arrivals.iter_mut().zip(wanted) {
        if *wanted == WantedFiles::Nothing {
            continue;
        }
        let files = &mut arrival.attachments;
        // Before anything is fetched, by the sizes that the platform tells.
        attachment::limit(files);
        let bytes: u64 = files.iter().map(bytes_to_fetch).sum();
        if bytes > room {
            files.iter_mut().filter(|file| bytes_to_fetch(file) > 0).for_each(leave_out);
            continue;
        }
        room -= bytes;
        let fetched = files.iter_mut().map(|file| fetch(channel, file, *wanted, deadline));
        join_all(fetched).await;
    }
}

/// The most that may have to be fetched for a file.
fn bytes_to_fetch(file: &Attachment) -> u64 {
    match &file.content {
        Content::AtSource { bytes, .. } => bytes.unwrap_or(attachment::FILE_BYTES),
        _ => 0,
    }
}

fn leave_out(file: &mut Attachment) {
    file.content = Content::Unreadable("too many files came at once; send it again".to_owned());
}

async fn fetch(channel: &dyn Receiving, file: &mut Attachment, wanted: WantedFiles, deadline: Instant) {
    let Content::AtSource { reference, is_speech, .. } = &file.content else { return };
    file.content = if *is_speech && wanted == WantedFiles::NoSpeech {
        Content::Unreadable(NO_TRANSCRIBER.to_owned())
    } else {
        let fetched = tokio::time::timeout_at(deadline, download(channel, reference)).await;
        match fetched.unwrap_or(Err(DownloadError::TooSlow)) {
            Ok(bytes) => classify(bytes),
            Err(DownloadError::TooLarge) => Content::Unreadable(attachment::too_large(None)),
            Err(error) => Content::Unreadable(format!("it could not be fetched: {error}")),
        }
    };
    if matches!((&file.content, wanted), (Content::Speech(_), WantedFiles::NoSpeech)) {
        file.content = Content::Unreadable(NO_TRANSCRIBER.to_owned());
    }
}

/// Downloads a file, twice if the first attempt fails for now.
async fn download(channel: &dyn Receiving, reference: &FileReference) -> Result<Vec<u8>, DownloadError> {
    match channel.download(reference).await {
        Err(error) if error.may_pass() => {
            tokio::time::sleep(AGAIN).await;
            channel.download(reference).await
        }
        done => done,
    }
}
