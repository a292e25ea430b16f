//! Files that come with messages: which are fetched, how speech becomes text, and how text files get into a workspace.

use std::path::{Path, PathBuf};

use codex_wire::host::Reach;
use tracing::warn;

use super::{Chats, workspace_folder};
use crate::bridge::Error;
use crate::inbox::attachment::{About, Attached, Is, StoredFile};
use crate::inbox::intake;
use crate::inbox::{Arrival, ChannelName, Message, MessageId, Rules};
use crate::place::{Overlap, Place};
use crate::store::{MessageFilter, Write};

/// Marks the words of a recording.
const VOICE: &str = "(voice message)";
/// Why a recording is unreadable where nothing transcribes it.
const NO_TRANSCRIBER: &str = "no program is configured here that makes text of speech (`transcribe`)";

/// What is fetched of the files of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WantedFiles {
    /// None of them: the message is not worked on, or was taken before.
    Nothing,
    /// All of them.
    All,
    /// All that are no recordings, which nothing could transcribe.
    NoSpeech,
}

impl Chats {
    /// What is to be fetched of the files of these messages, before they are received. Nothing is fetched for somebody who may
    /// not write.
    pub async fn wanted_files(
        &self,
        channel: &ChannelName,
        arrivals: &[Arrival],
    ) -> Result<Vec<WantedFiles>, Error> {
        let Some(rules) = self.inbox.rules(channel) else {
            return Ok(vec![WantedFiles::Nothing; arrivals.len()]);
        };
        let all = if rules.transcriber.is_some() { WantedFiles::All } else { WantedFiles::NoSpeech };
        let mut wanted = Vec::with_capacity(arrivals.len());
        for arrival in arrivals {
            let is_wanted = !arrival.attachments.is_empty()
                && intake::wants_files(arrival, &rules, self.inner().now())
                && !self.is_stored(channel, arrival).await?;
            wanted.push(if is_wanted { all } else { WantedFiles::Nothing });
        }
        Ok(wanted)
    }

    /// Whether a message is stored, or the one of which it is a new version.
    async fn is_stored(&self, channel: &ChannelName, arrival: &Arrival) -> Result<bool, Error> {
        let named = MessageFilter {
            channel: Some(channel.clone()),
            external_ids: [&arrival.external_id].into_iter().chain(&arrival.context.edits).cloned().collect(),
            limit: Some(1),
            ..MessageFilter::default()
        };
        Ok(self.inner().store.message_count(&named).await? > 0)
    }

    /// Makes text of the recordings of a message, and stores it as the text of the message. What could not be transcribed is
    /// unreadable from then on.
    pub(super) async fn transcribe(&self, rules: &Rules, message: &Message) -> Result<(), Error> {
        let inner = self.inner();
        let sealed = message.sealed_text.as_deref().unwrap_or_default();
        let words = inner.key.open(sealed, message.id.as_str()).unwrap_or_default();
        let mut words = String::from_utf8_lossy(&words).into_owned();
        let files = inner.files_of(&message.id).await?;
        let mut writes = Vec::new();
        let mut left = 0;
        for StoredFile { number, about } in files {
            if about.is != Is::Speech {
                left += 1;
                continue;
            }
            let is = match self.words_of(rules, &message.id, number).await? {
                Ok(said) => {
                    let gap = if words.trim().is_empty() { "" } else { "\n\n" };
                    words = format!("{}{gap}{VOICE}\n{said}", words.trim_end());
                    Is::Transcribed
                }
                Err(why) => {
                    warn!(channel = %message.channel, message_id = %message.id, why, "a recording was not transcribed");
                    left += 1;
                    Is::Unreadable(why)
                }
            };
            let row = inner.attachment_row(&message.id, number, &About { is, ..about }, None)?;
            writes.push(Write::SaveAttachment(Box::new(row)));
        }
        let words = intake::without_lone_quotation(&words);
        let summary = if words.trim().is_empty() { message.summary.clone() } else { inner.summary(words) };
        let heard = Message {
            sealed_text: Some(inner.key.seal(words.as_bytes(), message.id.as_str())?),
            attached: if left > 0 { Attached::Files } else { Attached::Nothing },
            summary,
            updated_at: inner.now(),
            ..message.clone()
        };
        writes.push(Write::SaveMessage(Box::new(heard)));
        inner.commit(writes).await?;
        self.inbox.wake();
        Ok(())
    }

    /// The words of one recording, or why there are none.
    async fn words_of(
        &self,
        rules: &Rules,
        message_id: &MessageId,
        number: u32,
    ) -> Result<Result<String, String>, Error> {
        let Some(transcriber) = &rules.transcriber else { return Ok(Err(NO_TRANSCRIBER.to_owned())) };
        let Some(recording) = self.inner().content_of(message_id, number).await? else {
            return Ok(Err("it cannot be decrypted: the key that sealed it is gone".to_owned()));
        };
        let said = transcriber.transcribe(recording).await;
        Ok(said.and_then(|said| match said.trim() {
            "" => Err("no words were found in it".to_owned()),
            words => Ok(words.to_owned()),
        }))
    }

    /// Writes the text files of a message into the workspace. A file that could not be written is unreadable.
    pub(super) async fn place_files(
        &self,
        message: &Message,
        cwd: &Path,
        place: Place,
        mut files: Vec<StoredFile>,
    ) -> Result<Vec<StoredFile>, Error> {
        for file in files.iter_mut().filter(|file| file.about.is == Is::Text) {
            let Some(content) = self.inner().content_of(&message.id, file.number).await? else {
                file.about.is = Is::Unreadable("it is not stored any more".to_owned());
                continue;
            };
            let placed = self.place_file(cwd.to_owned(), place, file.file_name(&message.id), content).await;
            if let Err(why) = placed {
                warn!(channel = %message.channel, message_id = %message.id, why, "a file could not be written into a workspace");
                file.about.is = Is::Unreadable(why);
            }
        }
        Ok(files)
    }

    async fn place_file(
        &self,
        cwd: PathBuf,
        place: Place,
        name: String,
        content: Vec<u8>,
    ) -> Result<(), String> {
        let config = &self.inner().config;
        if matches!(config.protected.overlap(&cwd), Some(Overlap::Inside(_) | Overlap::AmongTools(_))) {
            return Err("no files are written into the directory of this conversation".to_owned());
        }
        // A host under another user has to be able to read it.
        let readers = match config.reach {
            Reach::Own => workspace_folder::Readers::Owner,
            Reach::Launcher(_) => workspace_folder::Readers::All,
        };
        let written = tokio::task::spawn_blocking(move || {
            workspace_folder::write(&cwd, place, &name, &content, readers)
        });
        written.await.unwrap_or_else(|_| Err("writing it was broken off".to_owned()))
    }

    /// The rows by which a message gets the files of another one.
    pub(super) async fn copied_files(&self, from: &MessageId, to: &MessageId) -> Result<Vec<Write>, Error> {
        let inner = self.inner();
        let mut writes = Vec::new();
        for StoredFile { number, about } in inner.files_of(from).await? {
            let content = inner.content_of(from, number).await?;
            let row = inner.attachment_row(to, number, &about, content.as_deref())?;
            writes.push(Write::SaveAttachment(Box::new(row)));
        }
        Ok(writes)
    }
}
