//! Sends and edits messages, shows signs, and answers taps.

use std::sync::Arc;
use std::time::{Duration, Instant};

use codex_bridge_core::outbox::Outcome;
use codex_bridge_core::outbox::sender::Refusal;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::Discord;
use super::markdown::render;
use super::rest::{Rest, retry_after, why};
use crate::channel::Mark;
use crate::channel::chat::keyboard::Meaning;
use crate::channel::chat::{EditOutcome, Key, Keyboard, Post};
use crate::channel::http::Reply;
use crate::channel::text::{Body, Styled};

/// Discord's limits for buttons.
const MOST_ROWS: usize = 5;
const MOST_IN_ROW: usize = 5;
const MOST_DATA_CHARS: usize = 100;
/// How long Discord shows that the bot types.
const TYPING: Duration = Duration::from_secs(8);
/// The most places that were told lately.
const MOST_TYPING: usize = 1_000;
/// The longest text that only one person sees, in characters.
const TOAST_CHARS: usize = 900;
/// How long the answer to a tap may take.
const TAP_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a reaction is tried that comes too soon behind another one.
const REACTION_ATTEMPTS: usize = 3;
/// No link is shown with a preview.
const SUPPRESS_EMBEDS: u64 = 1 << 2;
/// Only the person who tapped sees it.
const EPHEMERAL: u64 = 1 << 6;

/// A tap that may be answered, for 15 minutes.
#[derive(Clone)]
pub struct Tap {
    application: String,
    token: String,
    id: String,
    /// Set when Discord knows that the tap came.
    acknowledged: Arc<OnceCell<()>>,
}

impl Tap {
    /// The tap of an interaction.
    pub fn of(interaction: &Value) -> Option<Self> {
        let word = |key: &str| interaction[key].as_str().map(str::to_owned);
        let (application, token, id) = (word("application_id")?, word("token")?, word("id")?);
        Some(Self { application, token, id, acknowledged: Arc::default() })
    }

    /// Tells Discord that the tap came, which shows nothing and says nothing of the decision. After three seconds Discord
    /// would call the tap failed.
    pub async fn acknowledge(&self, rest: &Rest) {
        let acknowledge = async {
            let path = format!("interactions/{}/{}/callback", self.id, self.token);
            if let Err(error) = rest.call("POST", &path, &json!({ "type": 6 })).await {
                tracing::debug!(%error, "a tap could not be acknowledged");
            }
        };
        self.acknowledged.get_or_init(|| acknowledge).await;
    }

    async fn answer(&self, rest: &Rest, text: &str) {
        self.acknowledge(rest).await;
        let text: String = text.chars().take(TOAST_CHARS).collect();
        let body = json!({
            "content": render(&text.as_str().into()), "flags": EPHEMERAL, "allowed_mentions": nobody(),
        });
        if let Err(error) =
            rest.call("POST", &format!("webhooks/{}/{}", self.application, self.token), &body).await
        {
            tracing::debug!(%error, "the answer to a tap could not be sent");
        }
    }
}

/// Nobody is notified by what a message mentions.
fn nobody() -> Value {
    json!({ "parse": [], "replied_user": false })
}

/// Buttons as Discord takes them. More rows than it has are joined.
fn components(keyboard: &Keyboard) -> Value {
    let key = |key: &Key| {
        let style = match key.meaning() {
            Meaning::Yes => 3,
            Meaning::No => 4,
            Meaning::Other => 2,
        };
        let label = if key.text.trim().is_empty() { "…" } else { key.text.as_str() };
        json!({ "type": 2, "style": style, "label": label, "custom_id": key.data })
    };
    let fits = |key: &&Key| key.data.chars().count() <= MOST_DATA_CHARS;
    let row = |keys: &[Key]| -> Vec<Value> { keys.iter().filter(fits).map(key).collect() };
    let are_few = keyboard.0.len() <= MOST_ROWS && keyboard.0.iter().all(|row| row.len() <= MOST_IN_ROW);
    let rows: Vec<Vec<Value>> = if are_few {
        keyboard.0.iter().map(|keys| row(keys)).collect()
    } else {
        keyboard.0.concat().chunks(MOST_IN_ROW).take(MOST_ROWS).map(row).collect()
    };
    let rows = rows.into_iter().filter(|row| !row.is_empty());
    rows.map(|row| json!({ "type": 1, "components": row })).collect()
}

/// What Discord recognises a repeated message by: at most 25 characters.
fn nonce(key: &str) -> String {
    let digest = Sha256::digest(key);
    let number = u128::from_be_bytes(digest.as_slice().first_chunk().copied().unwrap_or_default());
    format!("{:024x}", number >> 32)
}

/// The REST address of a place: its last id.
pub fn channel_of(place: &str) -> &str {
    place.rsplit('/').next().unwrap_or(place)
}

/// The meaning of a reply to a message.
fn outcome(reply: &Reply) -> Outcome {
    if reply.is_success() {
        let id = reply.body["id"].as_str().map(str::to_owned);
        return if id.is_some() { Outcome::delivered(id) } else { reply.refusal() };
    }
    let why = why(reply);
    match reply.status {
        429 => Outcome::failed(retry_after(reply).map_or(Refusal::Later, Refusal::NotBefore), why),
        // No access, blocked by the person, or no such channel.
        403 | 404 => Outcome::failed(Refusal::Gone, why),
        400 => Outcome::failed(Refusal::Never, why),
        // The token may be corrected meanwhile.
        401 => Outcome::failed(Refusal::Later, why),
        _ => reply.refusal(),
    }
}

impl Discord {
    pub(super) async fn send(&self, place: &str, post: Post<'_>) -> Outcome {
        let path = format!("channels/{}/messages", channel_of(place));
        let mut message = json!({
            "allowed_mentions": nobody(), "flags": SUPPRESS_EMBEDS, "nonce": nonce(post.key), "enforce_nonce": true,
        });
        if !post.keyboard.is_empty() {
            message["components"] = components(post.keyboard);
        }
        if let Some((_, id)) =
            post.reply_to.and_then(|id| id.split_once('/')).filter(|(of, _)| *of == channel_of(place))
        {
            let id = id.split('#').next().unwrap_or(id);
            message["message_reference"] = json!({ "message_id": id, "fail_if_not_exists": false });
        }
        let sent = match post.body {
            Body::Text(text) => {
                message["content"] = render(text).into();
                self.rest.call("POST", &path, &message).await
            }
            Body::File { name, text, caption } => {
                message["content"] = render(&caption.as_str().into()).into();
                message["attachments"] = json!([{ "id": 0, "filename": name }]);
                self.rest.send_file(&path, &message, name, text).await
            }
        };
        sent.map_or_else(Outcome::from, |reply| outcome(&reply))
    }

    pub(super) async fn change(
        &self,
        place: &str,
        message_id: &str,
        text: &Styled,
        keyboard: &Keyboard,
    ) -> EditOutcome {
        let path = format!("channels/{}/messages/{message_id}", channel_of(place));
        let body = json!({
            "content": render(text), "components": components(keyboard), "allowed_mentions": nobody(),
        });
        match self.rest.call("PATCH", &path, &body).await {
            Ok(reply) if reply.is_success() => EditOutcome::Done,
            Ok(reply) if [400, 403, 404].contains(&reply.status) => EditOutcome::Never,
            _ => EditOutcome::Later,
        }
    }

    /// Shows for some seconds that the bot types, unless that is still shown.
    pub(super) async fn type_in(&self, place: &str) {
        {
            let mut state = self.state();
            state.typing.retain(|_, at| at.elapsed() < TYPING);
            if state.typing.contains_key(place) || state.typing.len() >= MOST_TYPING {
                return;
            }
            state.typing.insert(place.to_owned(), Instant::now());
        }
        let path = format!("channels/{}/typing", channel_of(place));
        if let Err(error) = self.rest.call("POST", &path, &json!({})).await {
            tracing::debug!(channel = self.name, %error, "that Codex works could not be shown");
        }
    }

    /// Adds a reaction to a message. False if that is not allowed there.
    pub(super) async fn set_reaction(&self, external_id: &str, mark: Mark) -> bool {
        let Some((channel, message)) = external_id.split_once('/') else { return false };
        let message = message.split('#').next().unwrap_or(message);
        // 👀 and 📝
        let sign = match mark {
            Mark::Read | Mark::Queued => "%F0%9F%91%80",
            Mark::Added => "%F0%9F%93%9D",
        };
        let path = format!("channels/{channel}/messages/{message}/reactions/{sign}/@me");
        for _ in 0..REACTION_ATTEMPTS {
            let reply = self.rest.put(&path).await;
            // Reactions are limited to four in a second. The next call waits for its turn.
            if reply.as_ref().is_ok_and(|reply| reply.status == 429) {
                continue;
            }
            return reply.is_ok_and(|reply| reply.is_success());
        }
        false
    }

    /// Tells only the person who tapped.
    pub(super) async fn answer_tap(&self, tap_id: &str, text: &str) {
        let tap = self.state().taps.get(tap_id).cloned();
        let Some(tap) = tap.filter(|_| !text.is_empty()) else { return };
        if timeout(TAP_TIMEOUT, tap.answer(&self.rest, text)).await.is_err() {
            tracing::debug!(channel = self.name, "the answer to a tap took too long");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buttons_stand_in_five_rows_of_five() {
        let key = |number: usize| Key { text: format!("{number}"), data: format!("q:req-1:{number}") };
        let options = Keyboard((0..10).map(|number| vec![key(number)]).collect());
        let rows = components(&options);
        let lengths: Vec<usize> =
            rows.as_array().unwrap().iter().map(|row| row["components"].as_array().unwrap().len()).collect();
        assert_eq!(lengths, [5, 5]);
        let few = Keyboard(vec![
            vec![key(0), key(1)],
            vec![Key { text: " ".to_owned(), data: "d:req-1".to_owned() }],
        ]);
        let rows = components(&few);
        assert_eq!(rows[1]["components"][0]["style"], 4);
        assert_eq!(rows[1]["components"][0]["label"], "…");
        assert_eq!(
            (rows[0]["components"][0]["style"].as_u64(), components(&Keyboard::NONE)),
            (Some(2), json!([]))
        );
    }

    #[test]
    fn a_message_is_recognised_by_its_key() {
        assert_eq!(nonce("dlv-in-1").len(), 24);
        assert_ne!(nonce("dlv-in-1"), nonce("dlv-in-1-1"));
        assert_eq!((channel_of("1/2"), channel_of("7")), ("2", "7"));
    }
}
