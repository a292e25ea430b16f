//! Stored files of messages: sealed, opened, and given to Codex with a prompt.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use codex_wire::call::UserInput;
use tracing::warn;

use super::{Error, Inner};
use crate::inbox::attachment::{About, Is, StoredFile};
use crate::inbox::{Attachment, AttachmentRecord, MessageId};
use crate::store;
use crate::task::TurnRecord;

impl Inner {
    /// The row of a file, sealed.
    pub(crate) fn attachment_row(
        &self,
        message_id: &MessageId,
        number: u32,
        about: &About,
        content: Option<&[u8]>,
    ) -> Result<AttachmentRecord, Error> {
        let about = serde_json::to_vec(about).map_err(|error| store::Error::Other(error.to_string()))?;
        let purpose = sealed_for(message_id, number);
        let sealed_content = content.map(|content| self.key.seal(content, &purpose)).transpose()?;
        Ok(AttachmentRecord {
            message_id: message_id.clone(),
            number,
            sealed_about: self.key.seal(&about, &purpose)?,
            sealed_content,
        })
    }

    /// The rows of the files of a new message, sealed.
    pub(crate) fn attachment_rows(
        &self,
        message_id: &MessageId,
        files: Vec<Attachment>,
    ) -> Result<Vec<AttachmentRecord>, Error> {
        let numbered = (1..).zip(files.into_iter().map(Attachment::into_parts));
        numbered
            .map(|(number, (about, content))| {
                self.attachment_row(message_id, number, &about, content.as_deref())
            })
            .collect()
    }

    /// The files of a message. One that cannot be opened any more is unreadable.
    pub(crate) async fn files_of(&self, message_id: &MessageId) -> Result<Vec<StoredFile>, store::Error> {
        let rows = self.store.attachments(message_id).await?;
        Ok(rows.into_iter().map(|row| StoredFile { number: row.number, about: self.about(&row) }).collect())
    }

    fn about(&self, row: &AttachmentRecord) -> About {
        let opened = self.key.open(&row.sealed_about, &sealed_for(&row.message_id, row.number)).ok();
        opened.and_then(|about| serde_json::from_slice(&about).ok()).unwrap_or_else(|| About {
            kind: "file".to_owned(),
            name: String::new(),
            bytes: 0,
            is: Is::Unreadable("it cannot be decrypted: the key that sealed it is gone".to_owned()),
        })
    }

    /// The content of a file of a message, if it is stored and the key opens it.
    pub(crate) async fn content_of(
        &self,
        message_id: &MessageId,
        number: u32,
    ) -> Result<Option<Vec<u8>>, store::Error> {
        let sealed = self.store.attachment_content(message_id, number).await?;
        Ok(sealed.and_then(|sealed| self.key.open(&sealed, &sealed_for(message_id, number)).ok()))
    }

    /// What Codex is given for a turn: the prompt, and the images that came with it. An image is given by its bytes, not by a
    /// path, so that neither a command nor another user can put another image in its place.
    pub(super) async fn input_of(
        &self,
        turn: &TurnRecord,
        prompt: String,
    ) -> Result<Vec<UserInput>, store::Error> {
        let mut input = vec![UserInput::text(prompt)];
        let Some(message_id) = turn.images_of.as_deref().map(MessageId::from) else { return Ok(input) };
        for file in self.files_of(&message_id).await? {
            let Is::Image(media_type) = file.about.is else { continue };
            let Some(bytes) = self.content_of(&message_id, file.number).await? else {
                warn!(task = %turn.task_id, %message_id, "an image of a message is gone");
                continue;
            };
            let url = format!("data:{};base64,{}", media_type.as_str(), STANDARD.encode(bytes));
            input.push(UserInput::Image { url });
        }
        Ok(input)
    }
}

/// What a file is sealed for: its place in its message.
fn sealed_for(message_id: &MessageId, number: u32) -> String {
    format!("{message_id}/{number}")
}
