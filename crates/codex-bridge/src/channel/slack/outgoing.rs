//! Sends and edits messages, uploads files, and shows signs.

use std::time::{Duration, Instant};

use codex_bridge_core::chats::Choice;
use codex_bridge_core::outbox::Outcome;
use codex_bridge_core::outbox::sender::Refusal;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Slack;
use super::api::{Error, Place};
use super::blocks::{content, fallback};
use super::history::list;
use crate::channel::Mark;
use crate::channel::chat::keyboard::{self, Pressed};
use crate::channel::chat::{EditOutcome, Keyboard, Post};
use crate::channel::text::{Body, Styled};

/// The name of what our messages carry, by which they are found again.
const EVENT_TYPE: &str = "codex_bridge_message";
/// How far back a message is looked for that may have arrived.
const LOOK_BACK_S: i64 = 25 * 60 * 60;
/// The longest that a busy workspace is left alone before an edit is tried again.
const EDIT_PAUSE: Duration = Duration::from_secs(1);
/// Errors of messages that cannot be edited any more.
const UNEDITABLE: &str = "message_not_found cant_update_message edit_window_closed channel_not_found is_archived \
    not_in_channel invalid_blocks msg_too_long msg_blocks_too_long";

impl Slack {
    pub(super) async fn send(&self, place: &str, post: Post<'_>) -> Outcome {
        let place = match Place::parse(place) {
            Ok(place) => place,
            Err(why) => return Outcome::failed(Refusal::Never, why),
        };
        let sent = match post.body {
            Body::Text(text) => self.send_text(&place, text, post).await,
            Body::File { name, text, caption } => self.send_file(&place, name, text, caption).await,
        };
        match sent {
            Ok(ts) => Outcome::delivered(Some(ts).filter(|ts| !ts.is_empty())),
            Err(error) => error.into(),
        }
    }

    async fn send_text(&self, place: &Place, text: &Styled, post: Post<'_>) -> Result<String, Error> {
        if post.may_have_arrived
            && let Some(ts) = self.find(place, post.key).await?
        {
            return Ok(ts);
        }
        let mut body = place.addressed(content(text, post.keyboard));
        body["metadata"] = json!({ "event_type": EVENT_TYPE, "event_payload": { "key": post.key } });
        let sent = self.client.call("chat.postMessage", &body).await?;
        let ts = sent["ts"].as_str().unwrap_or_default().to_owned();
        self.note_post(place, &ts, post.keyboard);
        Ok(ts)
    }

    /// Remembers what people will reply to.
    fn note_post(&self, place: &Place, ts: &str, keyboard: &Keyboard) {
        let is_option = |pressed| matches!(pressed, Some(Pressed::Choice(_, Choice::Options(_))));
        let asks = keyboard.0.iter().flatten().any(|key| is_option(keyboard::parse(&key.data)));
        let mut state = self.state();
        if asks {
            state.notes.questions.insert(&place.to_string(), ts.to_owned());
        }
        if !place.channel.starts_with('D') {
            let thread = place.thread.as_deref().unwrap_or(ts);
            state.notes.threads.insert(&format!("{}/{thread}", place.channel), ());
        }
    }

    /// The message with this key, if an earlier attempt to send it arrived.
    async fn find(&self, place: &Place, key: &str) -> Result<Option<String>, Error> {
        let since = format!("{}.000000", Timestamp::now().as_second() - LOOK_BACK_S);
        let mut query = vec![
            ("channel", place.channel.as_str()),
            ("oldest", since.as_str()),
            ("include_all_metadata", "true"),
        ];
        query.extend(place.thread.as_ref().map(|thread| ("ts", thread.as_str())));
        let method = if place.thread.is_some() { "conversations.replies" } else { "conversations.history" };
        let messages = list(&self.client, method, "messages", &query).await?;
        let is_it = |message: &&Value| {
            let metadata = &message["metadata"];
            metadata["event_type"] == EVENT_TYPE && metadata["event_payload"]["key"] == key
        };
        Ok(messages.iter().find(is_it).and_then(|message| message["ts"].as_str().map(str::to_owned)))
    }

    async fn send_file(&self, place: &Place, name: &str, text: &str, caption: &str) -> Result<String, Error> {
        let length = text.len().to_string();
        let place_for = [("filename", name), ("length", length.as_str())];
        let upload = self.client.read("files.getUploadURLExternal", &place_for).await?;
        self.client.upload(upload["upload_url"].as_str().unwrap_or_default(), text).await?;
        let files = [json!({ "id": upload["file_id"], "title": name })];
        let mut body = place.addressed(json!({ "files": files, "channel_id": place.channel }));
        if !caption.is_empty() {
            body["initial_comment"] = fallback(caption).into();
        }
        // Slack tells the file's id, and not that of the message which shows the file.
        self.client.call("files.completeUploadExternal", &body).await.map(|_| String::new())
    }

    /// Edits text and buttons of a message. While Slack limits edits, none is made.
    pub(super) async fn change(
        &self,
        place: &str,
        ts: &str,
        text: &Styled,
        keyboard: &Keyboard,
    ) -> EditOutcome {
        let Ok(place) = Place::parse(place) else { return EditOutcome::Never };
        if self.state().edits_wait_until.is_some_and(|until| until > Instant::now()) {
            return EditOutcome::Later;
        }
        let mut body = content(text, keyboard);
        body["channel"] = place.channel.as_str().into();
        body["ts"] = ts.into();
        match self.client.call("chat.update", &body).await {
            Ok(_) => EditOutcome::Done,
            Err(error) if error.is(UNEDITABLE) => EditOutcome::Never,
            Err(Error::Limited(wait)) => {
                self.state().edits_wait_until = Some(Instant::now() + wait.max(EDIT_PAUSE));
                EditOutcome::Later
            }
            Err(_) => EditOutcome::Later,
        }
    }

    /// Sets the bot's reaction to a message. False if that is not possible.
    pub(super) async fn set_reaction(&self, external_id: &str, mark: Mark) -> bool {
        let Some((channel, ts)) = external_id.split_once('/').filter(|(channel, _)| *channel != "tap") else {
            return true;
        };
        let name = match mark {
            Mark::Read | Mark::Queued => "eyes",
            Mark::Added => "pencil2",
        };
        let body = json!({ "channel": channel, "timestamp": ts, "name": name });
        match self.client.call("reactions.add", &body).await {
            Ok(_) => true,
            Err(error) => error.is("already_reacted"),
        }
    }

    /// Tells only the person who tapped. The id of the tap says who that is and where.
    pub(super) async fn tell(&self, tap_id: &str, text: &str) {
        let mut words = tap_id.split(' ');
        let (Some(Ok(place)), Some(user)) = (words.next().map(Place::parse), words.next()) else { return };
        if text.is_empty() {
            return;
        }
        let body = place.addressed(json!({ "user": user, "text": fallback(text), "parse": "none" }));
        if let Err(error) = self.client.call("chat.postEphemeral", &body).await {
            tracing::debug!(channel = self.name, %error, "the answer to a tap could not be sent");
        }
    }
}
