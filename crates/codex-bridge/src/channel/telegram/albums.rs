//! Albums: Telegram sends an update for each photo of an album, with the same `media_group_id`. They are one message here.

use std::time::Duration;

use codex_bridge_core::inbox::Arrival;
use serde_json::Value;

use super::state::State;
use crate::channel::chat::Incoming;

/// How long to wait for more parts of an album, and how often. Telegram sends them within a moment.
pub const PAUSE: Duration = Duration::from_millis(500);
pub const LOOKS: u32 = 5;
/// Most photos of an album.
const MOST: usize = 10;

/// The album of an update; none for a message by itself.
pub fn group(update: &Value) -> Option<String> {
    let message = &update["message"];
    Some(format!("{}/{}", message["chat"]["id"].as_i64()?, message["media_group_id"].as_str()?))
}

/// How many parts of albums there are that may have more of them.
pub fn open_parts(updates: &[Value]) -> usize {
    let groups: Vec<String> = updates.iter().filter_map(group).collect();
    let count = |one: &String| groups.iter().filter(|other| *other == one).count();
    groups.iter().filter(|group| count(group) < MOST).count()
}

/// Leaves out the end of a full page of updates from the album on that may go on behind it. What is left out is read again.
pub fn without_cut_album(updates: &mut Vec<Value>, page: usize) {
    let Some(last) = updates.last().and_then(group).filter(|_| updates.len() >= page) else { return };
    let first = updates.iter().position(|update| group(update).as_ref() == Some(&last));
    // A page that begins with the album has all of it.
    if let Some(first) = first.filter(|first| *first > 0) {
        updates.truncate(first);
    }
}

/// Adds a part of an album to its message, which was read before.
pub fn add_part(album: &mut Incoming, part: Incoming) {
    if album.arrival.external_id == part.arrival.external_id {
        return;
    }
    let Incoming { arrival, replies_to } = part;
    let first = &mut album.arrival;
    if first.text.trim().is_empty() {
        first.text = arrival.text;
    }
    first.context.quoted = first.context.quoted.take().or(arrival.context.quoted);
    first.context.is_overheard &= arrival.context.is_overheard;
    first.attachments.extend(arrival.attachments);
    album.replies_to = album.replies_to.take().or(replies_to);
}

/// Gives the message of an album the id of its first part, also if only some of its parts come again.
pub fn name(album: &mut Arrival, parts: &[i64], state: &mut State) {
    let Some((chat, _)) = album.external_id.split_once('/') else { return };
    if let Some(first) = state.note_album(chat, parts) {
        album.external_id = format!("{chat}/{first}");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn part(number: i64, group: &str) -> Value {
        json!({"message": {"message_id": number, "chat": {"id": 42}, "media_group_id": group}})
    }

    #[test]
    fn a_page_that_is_full_ends_before_an_album_that_may_go_on() {
        let alone = json!({"message": {"message_id": 1, "chat": {"id": 42}}});
        let mut updates = vec![alone.clone(), part(2, "a"), part(3, "b"), part(4, "b")];
        assert_eq!(open_parts(&updates), 3);
        without_cut_album(&mut updates, 100);
        assert_eq!(updates.len(), 4);
        without_cut_album(&mut updates, 4);
        assert_eq!(updates.len(), 2);
        let mut whole = vec![part(3, "b"), part(4, "b")];
        without_cut_album(&mut whole, 2);
        assert_eq!(whole.len(), 2, "it would be read again for ever");
        let ten: Vec<Value> = (0..10).map(|number| part(number, "c")).collect();
        assert_eq!(open_parts(&ten), 0, "there are no more of it");
    }

    #[test]
    fn an_album_is_known_by_any_of_its_parts() {
        let mut state = State::default();
        assert_eq!(state.note_album("42", &[7, 5, 6]), Some(5));
        assert_eq!(state.note_album("42", &[6, 8]), Some(5));
        assert_eq!(state.album_of("42/8").as_deref(), Some("42/5"));
        assert_eq!(state.album_of("43/8"), None);
        let mut next = State::default();
        next.restore(&state.notes());
        assert_eq!(next.note_album("42", &[7]), Some(5), "after a restart too");
        assert_eq!(next.note_album("42", &[9]), Some(9), "a part that came too late is a message of its own");
    }
}
