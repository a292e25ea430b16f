//! How far the messages of each place were read, for platforms that number messages by place. Bounded: a new place pushes out
//! the one that was silent for longest. Knows no platform.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How many chats and how many threads are remembered.
const MOST_CHATS: usize = 200;
const MOST_THREADS: usize = 64;

/// How far messages were read; the field names are fixed. A later message has a longer or greater id. The place of a thread is
/// `chat/thread`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Positions {
    /// The workspace or server whose places these are.
    space: String,
    /// From here on a chat is read that is not among the places.
    newest: String,
    /// The newest message by place.
    places: BTreeMap<String, String>,
}

fn is_later(id: &str, than: &str) -> bool {
    (id.len(), id) > (than.len(), than)
}

impl Positions {
    /// What is stored of this workspace; none is read from `newest` on.
    pub fn read(stored: Option<&str>, space: &str, newest: &str) -> Self {
        let stored: Option<Self> = stored.and_then(|text| serde_json::from_str(text).ok());
        let new = Self { space: space.to_owned(), newest: newest.to_owned(), places: BTreeMap::new() };
        stored.filter(|positions| positions.space == space).unwrap_or(new)
    }

    /// As they are stored.
    pub fn to_stored(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }

    /// Whether a message of the place is known.
    pub fn has(&self, place: &str) -> bool {
        self.places.contains_key(place)
    }

    /// The last message of the place that was read, or the one from which places are read that are not known.
    pub fn of(&self, place: &str) -> &str {
        self.places.get(place).unwrap_or(&self.newest)
    }

    /// Notes a message in a place.
    pub fn note(&mut self, place: &str, id: &str) {
        let known = self.places.entry(place.to_owned()).or_default();
        if is_later(id, known) {
            id.clone_into(known);
        }
        let is_thread = place.contains('/');
        let of_kind = |place: &&String| place.contains('/') == is_thread;
        if self.places.keys().filter(of_kind).count() > if is_thread { MOST_THREADS } else { MOST_CHATS } {
            let of_kind = self.places.iter().filter(|(place, _)| of_kind(place));
            let oldest = of_kind.min_by_key(|(_, id)| (id.len(), *id)).map(|(place, _)| place.clone());
            self.places.retain(|place, _| Some(place) != oldest.as_ref());
        }
    }

    /// Notes a message that came just now. Only once all places are read back: until then they are read from before it.
    pub fn note_newest(&mut self, id: &str) {
        if is_later(id, &self.newest) {
            id.clone_into(&mut self.newest);
        }
    }

    /// The chats, those with the newest messages first.
    pub fn chats(&self) -> Vec<String> {
        let mut chats: Vec<_> = self.places.iter().filter(|(place, _)| !place.contains('/')).collect();
        chats.sort_by(|(_, one), (_, other)| (other.len(), other).cmp(&(one.len(), one)));
        chats.into_iter().map(|(place, _)| place.clone()).collect()
    }

    /// The threads of a chat.
    pub fn threads_in(&self, chat: &str) -> impl Iterator<Item = &str> {
        self.places.keys().filter_map(move |place| place.strip_prefix(chat)?.strip_prefix('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_each_place_is_remembered_and_no_more_places_than_there_may_be() {
        let mut positions = Positions::read(None, "T1", "90");
        assert_eq!(positions.of("C9"), "90");
        positions.note("C1", "100");
        positions.note("C1", "99");
        assert_eq!((positions.of("C1"), positions.of("C9")), ("100", "90"), "C9 was not read yet");
        positions.note_newest("100");
        assert_eq!(positions.of("C9"), "100");
        for number in 100..200 {
            positions.note(&format!("C1/{number}"), &format!("{}", number + 1_000));
        }
        assert_eq!((positions.threads_in("C1").count(), positions.chats().len()), (MOST_THREADS, 1));
        assert!(positions.has("C1/199") && !positions.has("C1/100") && positions.has("C1"));
        positions.note("C2", "7");
        positions.note("C3", "1000");
        assert_eq!(positions.chats(), ["C3", "C1", "C2"]);
        let stored = positions.to_stored().unwrap();
        assert_eq!(Positions::read(Some(&stored), "T1", "0"), positions);
        assert!(Positions::read(Some(&stored), "T2", "0").chats().is_empty());
        assert_eq!(Positions::read(Some("nonsense"), "T1", "7").of("C1"), "7");
    }
}
