//! What must not be forgotten beside the plugin's own cursor: the messages of ours that still have buttons, and those
//! that show how a turn stands. Written with the cursor, so that the next life can change them. Everything in it is
//! redacted.

use codex_bridge_core::inbox::MessageId;
use codex_bridge_core::request::RequestName;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::channel::recent::{MOST, Recent};

/// What is remembered.
#[derive(Debug, Default)]
pub struct Memory {
    /// How far the plugin has read, in its own words.
    pub cursor: Option<String>,
    /// Messages with buttons, the oldest first.
    pub asking: Vec<Asking>,
    /// Messages that show how turns stand, by the message that asked for the turn.
    pub shown: Recent<Shown>,
    /// Whether the last life's notes were read: from then on we know better.
    has_recalled: bool,
}

/// A message with buttons.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Asking {
    /// The plugin's name for it.
    pub message_id: String,
    /// What it says.
    pub text: String,
    /// The requests that are still open in it.
    pub requests: Vec<RequestName>,
    /// Its buttons.
    pub actions: Vec<Value>,
}

/// A message that shows how a turn stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// The plugin's name for it; none if it could not be sent, and is not tried again.
    pub message_id: Option<String>,
    /// What it says.
    #[serde(skip)]
    pub text: String,
}

/// As it is written.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Noted {
    plugin: Option<String>,
    asking: Vec<Asking>,
    shown: Recent<Shown>,
}

impl Memory {
    /// Takes over what was written down, the rest of it once; gives the plugin's own cursor.
    pub fn recall(&mut self, noted: Option<&str>) -> Option<String> {
        let read = |text: &str| {
            // What is not ours is the plugin's.
            serde_json::from_str(text)
                .unwrap_or_else(|_| Noted { plugin: Some(text.to_owned()), ..Noted::default() })
        };
        let noted = noted.map(read).unwrap_or_default();
        self.cursor.clone_from(&noted.plugin);
        if !std::mem::replace(&mut self.has_recalled, true) {
            (self.asking, self.shown) = (noted.asking, noted.shown);
        }
        noted.plugin
    }

    /// As it is written down; none if there is nothing to remember.
    pub fn note(&self) -> Option<String> {
        let (asking, shown) = (self.asking.clone(), self.shown.clone());
        let is_empty = self.cursor.is_none() && asking.is_empty() && shown.is_empty();
        let noted = Noted { plugin: self.cursor.clone(), asking, shown };
        serde_json::to_string(&noted).ok().filter(|_| !is_empty)
    }

    /// A message with buttons is out.
    pub fn ask(&mut self, asking: Asking) {
        self.asking.push(asking);
        let surplus = self.asking.len().saturating_sub(MOST);
        self.asking.drain(..surplus);
    }

    /// What a turn shows.
    pub fn show(&mut self, message: &MessageId, shown: Shown) {
        self.shown.insert(message.as_str(), shown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_life_knows_what_the_last_one_noted() {
        let mut before = Memory::default();
        assert_eq!(before.note(), None);
        assert_eq!(before.recall(Some("42")), Some("42".to_owned()), "a plugin's own words");
        before.ask(Asking {
            message_id: "m1".into(),
            text: "Codex asks".into(),
            requests: vec!["req-1".into()],
            actions: Vec::new(),
        });
        before.show(&"in-1".into(), Shown { message_id: Some("m2".into()), text: "working".into() });
        let mut after = Memory::default();
        assert_eq!(after.recall(before.note().as_deref()), Some("42".to_owned()));
        assert_eq!(after.asking, before.asking);
        assert_eq!(after.shown.get("in-1").and_then(|shown| shown.message_id.as_deref()), Some("m2"));
        after.asking.clear();
        after.recall(before.note().as_deref());
        assert!(after.asking.is_empty(), "once: from then on it knows better");
        assert_eq!(Memory::default().recall(Some("{\"offset\": 3}")).as_deref(), Some("{\"offset\": 3}"));
    }
}
