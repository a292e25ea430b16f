//! Files that people send to the bot: where they are, and how they are given out.

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::super::super::Answer;
use super::super::refusal;
use super::{Books, Desk, Server, chat_of, done};

/// The largest file that Telegram gives to a bot.
const BOT_LIMIT: usize = 20 * 1024 * 1024;

/// A file that somebody sent.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    content: Vec<u8>,
    path: String,
}

impl Server {
    /// Somebody sends a photo, which Telegram has in two sizes; gives the number of the message.
    pub fn send_photo(&self, user: i64, caption: &str, content: &[u8]) -> i64 {
        let photo = self.photo(content);
        self.message(user, &json!({ "chat": chat_of(user), "caption": caption, "photo": photo }))
    }

    /// Somebody sends a photo in a group.
    pub fn send_photo_in(&self, user: i64, chat: i64, caption: &str, content: &[u8]) -> i64 {
        let photo = self.photo(content);
        self.message(user, &json!({ "chat": chat_of(chat), "caption": caption, "photo": photo }))
    }

    /// Somebody sends one photo of an album. Telegram makes a message of each.
    pub fn send_part(&self, user: i64, album: &str, caption: &str, content: &[u8]) -> i64 {
        let photo = self.photo(content);
        self.message(
            user,
            &json!({ "chat": chat_of(user), "caption": caption, "photo": photo, "media_group_id": album }),
        )
    }

    /// Somebody sends a document; gives the number of the message.
    pub fn send_document(&self, user: i64, caption: &str, name: &str, content: &[u8]) -> i64 {
        let document = self.file(content, "documents", Some(name));
        self.message(user, &json!({ "chat": chat_of(user), "caption": caption, "document": document }))
    }

    /// Somebody speaks.
    pub fn send_voice(&self, user: i64, content: &[u8]) -> i64 {
        let voice = self.file(content, "voice", None);
        self.message(user, &json!({ "chat": chat_of(user), "voice": voice }))
    }

    /// Somebody sends something of another kind, such as a video.
    pub fn send_other(&self, user: i64, kind: &str, caption: &str) -> i64 {
        self.message(
            user,
            &json!({ "chat": chat_of(user), "caption": caption, kind: { "file_id": "other", "duration": 3 } }),
        )
    }

    fn photo(&self, content: &[u8]) -> Value {
        let sized = |mut file: Value, side: u64| {
            (file["width"], file["height"]) = (side.into(), side.into());
            file
        };
        let small = self.file(b"a small size of it", "photos", None);
        json!([sized(small, 90), sized(self.file(content, "photos", None), 1280)])
    }

    /// Keeps a file, and tells of it as Telegram does.
    fn file(&self, content: &[u8], folder: &str, name: Option<&str>) -> Value {
        let mut books = self.desk.books();
        let number = books.files.len();
        let path = format!("{folder}/file_{number}.bin");
        books.files.push(Kept { content: content.to_vec(), path });
        let mut file = json!({
            "file_id": format!("file-{number}"), "file_unique_id": format!("u{number}"), "file_size": content.len(),
        });
        if let Some(name) = name {
            file["file_name"] = name.into();
        }
        file
    }

    /// From now on Telegram says of no file how large it is.
    pub fn hide_sizes(&self) {
        self.desk.books().hides_sizes = true;
    }
}

impl Books {
    /// The answer to `getFile`.
    pub(super) fn get_file(&self, body: &Value) -> Answer {
        let number = body["file_id"].as_str().and_then(|id| id.strip_prefix("file-")?.parse::<usize>().ok());
        let Some((number, kept)) = number.and_then(|number| Some((number, self.files.get(number)?))) else {
            return refusal(400, "Bad Request: invalid file_id", None);
        };
        if kept.content.len() > BOT_LIMIT {
            return refusal(400, "Bad Request: file is too big", None);
        }
        let mut file = json!({ "file_id": format!("file-{number}"), "file_path": kept.path });
        if !self.hides_sizes {
            file["file_size"] = kept.content.len().into();
        }
        done(&file)
    }
}

/// The content of a file, at its path behind `/file/botTOKEN/`.
pub(super) fn content(desk: &Desk, path: &str) -> Response {
    let mut books = desk.books();
    books.downloads.push(path.to_owned());
    match books.files.iter().find(|kept| kept.path == path) {
        Some(kept) => Bytes::from(kept.content.clone()).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Leaves out of a message what Telegram may not say.
pub(super) fn without_sizes(message: &mut Value) {
    for key in ["photo", "document", "voice"] {
        match &mut message[key] {
            Value::Array(sizes) => sizes.iter_mut().for_each(|size| {
                size.as_object_mut().map(|size| size.remove("file_size"));
            }),
            Value::Object(file) => {
                file.remove("file_size");
            }
            _ => {
                message.as_object_mut().map(|message| message.remove(key));
            }
        }
    }
}
