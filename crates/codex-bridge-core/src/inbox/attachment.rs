//! Files that come with messages: what they are, how much is taken, and how they are named to Codex. Pure.
//!
//! A file is what its bytes are, whatever its name or its platform says. Its content is data: nothing in it or in its name
//! is ever a command.

mod name;

use std::fmt;

use codex_wire::text_id;
use serde::{Deserialize, Serialize};

use super::MessageId;

pub use name::{file_name, shown_name};

/// The largest file that is taken. A text of that size is beyond what a model reads, and platforms limit bots to about as
/// much.
pub const FILE_BYTES: u64 = 10 * 1024 * 1024;
/// The most that all files of a message have together: they are one transaction of the store.
pub const MESSAGE_BYTES: u64 = 20 * 1024 * 1024;
/// The most that all images of a message have together. After a lost connection the last five turns of a thread are read
/// again in one answer of Codex, images included as base64, and an answer may have 64 MiB.
pub const IMAGES_BYTES: u64 = 8 * 1024 * 1024;
/// The most files of a message: an album of Telegram or Discord has ten.
pub const FILES: usize = 10;
/// The directory below the workspace to which text files are written.
pub const FOLDER: &str = "inbox";
/// Why most files are unreadable.
const NEITHER: &str = "it is neither text nor an image that Codex reads";

text_id!(
    /// How a channel names a file that is still at its source.
    FileReference
);

/// A file that came with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// What it is to people: a photo, a video, a file.
    pub kind: String,
    /// Its name, as the sender's program gave it; empty if it has none.
    pub name: String,
    /// What is in it.
    pub content: Content,
}

/// The content of a file.
#[derive(Clone, PartialEq, Eq)]
pub enum Content {
    /// It is still at its source.
    AtSource {
        /// How the channel names it.
        reference: FileReference,
        /// How many bytes it has, if the source says so.
        bytes: Option<u64>,
        /// Whether the source says that somebody speaks in it.
        is_speech: bool,
    },
    /// An image that Codex reads.
    Image {
        /// Its media type.
        media_type: MediaType,
        /// The image.
        bytes: Vec<u8>,
    },
    /// Text.
    Text(Vec<u8>),
    /// A recording, to be transcribed.
    Speech(Vec<u8>),
    /// It is not given to Codex, for this reason.
    Unreadable(String),
}

/// Shows how many bytes there are, and none of them.
impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtSource { reference, bytes, .. } => write!(f, "AtSource({reference}, {bytes:?})"),
            Self::Image { media_type, bytes } => {
                write!(f, "Image({}, {} bytes)", media_type.as_str(), bytes.len())
            }
            Self::Text(bytes) => write!(f, "Text({} bytes)", bytes.len()),
            Self::Speech(bytes) => write!(f, "Speech({} bytes)", bytes.len()),
            Self::Unreadable(why) => write!(f, "Unreadable({why:?})"),
        }
    }
}

/// The media types of images that Codex reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MediaType {
    /// PNG.
    #[serde(rename = "image/png")]
    Png,
    /// JPEG.
    #[serde(rename = "image/jpeg")]
    Jpeg,
    /// GIF.
    #[serde(rename = "image/gif")]
    Gif,
    /// WebP.
    #[serde(rename = "image/webp")]
    Webp,
}

impl MediaType {
    /// The media type as it is sent.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
    }
}

/// What a file is, by its bytes.
pub fn classify(bytes: Vec<u8>) -> Content {
    if bytes.len() as u64 > FILE_BYTES {
        return Content::Unreadable(too_large(Some(bytes.len() as u64)));
    }
    if bytes.is_empty() {
        return Content::Unreadable("it is empty".to_owned());
    }
    if let Some(media_type) = image_type(&bytes) {
        return Content::Image { media_type, bytes };
    }
    if is_recording(&bytes) {
        return Content::Speech(bytes);
    }
    if !bytes.contains(&0) && std::str::from_utf8(&bytes).is_ok() {
        return Content::Text(bytes);
    }
    Content::Unreadable(NEITHER.to_owned())
}

fn image_type(bytes: &[u8]) -> Option<MediaType> {
    match bytes {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Some(MediaType::Png),
        [0xff, 0xd8, 0xff, ..] => Some(MediaType::Jpeg),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(MediaType::Gif),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(MediaType::Webp),
        _ => None,
    }
}

/// Ogg, WAV, FLAC, MP3 and M4A.
fn is_recording(bytes: &[u8]) -> bool {
    match bytes {
        [b'O', b'g', b'g', b'S', ..]
        | [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', ..]
        | [b'f', b'L', b'a', b'C', ..]
        | [b'I', b'D', b'3', 2..=4, ..]
        | [_, _, _, _, b'f', b't', b'y', b'p', b'M', b'4', b'A', ..] => true,
        [0xff, second, third, ..] => second & 0xe6 == 0xe2 && third & 0xf0 != 0xf0,
        _ => false,
    }
}

/// Why a file of so many bytes is not taken.
pub fn too_large(bytes: Option<u64>) -> String {
    let has = bytes.map(|bytes| format!("it has {}, and ", amount(bytes))).unwrap_or_default();
    format!("{has}a file may have {} MB", FILE_BYTES / 1024 / 1024)
}

/// Makes files unreadable that are too many or too large together.
pub fn limit(files: &mut [Attachment]) {
    let (mut all, mut images) = (0, 0);
    for (number, file) in files.iter_mut().enumerate() {
        let (is_image, bytes) = match &file.content {
            Content::Image { bytes, .. } => (true, bytes.len() as u64),
            Content::Text(bytes) | Content::Speech(bytes) => (false, bytes.len() as u64),
            Content::AtSource { bytes, .. } => (false, bytes.unwrap_or_default()),
            Content::Unreadable(_) => continue,
        };
        let of_images = if is_image { bytes } else { 0 };
        let megabytes = |limit: u64| limit / 1024 / 1024;
        let why = if number >= FILES {
            format!("a message may have {FILES} files")
        } else if bytes > FILE_BYTES {
            too_large(Some(bytes))
        } else if all + bytes > MESSAGE_BYTES {
            format!("the files of a message may have {} MB together", megabytes(MESSAGE_BYTES))
        } else if images + of_images > IMAGES_BYTES {
            format!("the images of a message may have {} MB together", megabytes(IMAGES_BYTES))
        } else {
            (all, images) = (all + bytes, images + of_images);
            continue;
        };
        file.content = Content::Unreadable(why);
    }
}

/// What is attached to a message, in one word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attached {
    /// Nothing.
    #[default]
    Nothing,
    /// Files that need nothing more.
    Files,
    /// Files, and speech that is not transcribed yet.
    Speech,
}

impl Attached {
    /// Whether nothing is attached.
    pub fn is_nothing(&self) -> bool {
        *self == Self::Nothing
    }

    /// What these files are.
    pub fn of(files: &[Attachment]) -> Self {
        let is_speech = |file: &Attachment| matches!(file.content, Content::Speech(_));
        match files {
            [] => Self::Nothing,
            files if files.iter().any(is_speech) => Self::Speech,
            _ => Self::Files,
        }
    }
}

/// A stored file of a message. It is deleted with the message's text, in the same transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachmentRecord {
    /// The message.
    pub message_id: MessageId,
    /// The number of the file in the message, from 1.
    pub number: u32,
    /// The sealed [`About`].
    pub sealed_about: Vec<u8>,
    /// The sealed content. Lists leave it out.
    pub sealed_content: Option<Vec<u8>>,
}

/// What is known of a stored file without its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// What it is to people.
    pub kind: String,
    /// Its name, as it came.
    pub name: String,
    /// How many bytes it has.
    pub bytes: u64,
    /// What it is.
    pub is: Is,
}

/// What a stored file is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Is {
    /// An image.
    Image(MediaType),
    /// A text.
    Text,
    /// A recording that is not transcribed yet.
    Speech,
    /// A recording whose words are in the text of the message.
    Transcribed,
    /// Not given to Codex, for this reason.
    Unreadable(String),
}

/// A stored file of a message that is worked on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFile {
    /// The number of the file in the message, from 1.
    pub number: u32,
    /// What is known of it.
    pub about: About,
}

impl Attachment {
    /// The parts that are stored: what is known of the file, and its content.
    pub fn into_parts(self) -> (About, Option<Vec<u8>>) {
        let (is, content) = match self.content {
            Content::Image { media_type, bytes } => (Is::Image(media_type), Some(bytes)),
            Content::Text(bytes) => (Is::Text, Some(bytes)),
            Content::Speech(bytes) => (Is::Speech, Some(bytes)),
            Content::Unreadable(why) => (Is::Unreadable(why), None),
            Content::AtSource { .. } => (Is::Unreadable("it was not fetched".to_owned()), None),
        };
        let bytes = content.as_ref().map_or(0, |content| content.len() as u64);
        (About { kind: self.kind, name: self.name, bytes, is }, content)
    }

    /// The name of the file, or else what it is, for people.
    pub fn label(&self) -> String {
        label(&self.kind, &self.name)
    }
}

impl StoredFile {
    /// The name under which a text file is written into the workspace's folder.
    pub fn file_name(&self, message_id: &MessageId) -> String {
        file_name(message_id, self.number, &self.about.name)
    }

    /// The line that names the file to Codex.
    fn line(&self, message_id: &MessageId) -> Option<String> {
        let About { kind, name, bytes, is } = &self.about;
        let amount = amount(*bytes);
        Some(match is {
            Is::Transcribed => return None,
            Is::Image(_) => format!("[image: {}, {amount}]", label(kind, name)),
            Is::Text => format!("[file: {FOLDER}/{}, {amount}]", self.file_name(message_id)),
            Is::Speech => format!("[{} attached; it is not transcribed]", label(kind, name)),
            Is::Unreadable(why) => format!("[{kind} attached{}; it cannot be read: {why}]", behind(name)),
        })
    }
}

fn behind(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(": {}", shown_name(name)) }
}

fn label(kind: &str, name: &str) -> String {
    if name.is_empty() { kind.to_owned() } else { shown_name(name) }
}

/// The prompt of a message with files: the words, and a line for each file below them.
pub fn prompt(words: &str, message_id: &MessageId, files: &[StoredFile]) -> String {
    let lines: Vec<String> = files.iter().filter_map(|file| file.line(message_id)).collect();
    match (words.trim().is_empty(), lines.is_empty()) {
        (_, true) => words.to_owned(),
        (true, false) => lines.join("\n"),
        (false, false) => format!("{words}\n\n{}", lines.join("\n")),
    }
}

/// What the sender is told of the files that cannot be read; `None` if all can be.
pub fn unreadable(files: &[StoredFile]) -> Option<String> {
    let lines: Vec<String> = files
        .iter()
        .filter_map(|file| match &file.about.is {
            Is::Unreadable(why) => Some(format!("{}: {why}.", label(&file.about.kind, &file.about.name))),
            _ => None,
        })
        .collect();
    match lines.as_slice() {
        [] => None,
        [line] => Some(format!("I cannot read this: {line}")),
        lines => Some(format!("I cannot read these:\n{}", lines.join("\n"))),
    }
}

/// `1,234 bytes`.
fn amount(bytes: u64) -> String {
    let digits = bytes.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if bytes == 1 { "1 byte".to_owned() } else { format!("{grouped} bytes") }
}

#[cfg(test)]
mod tests;
