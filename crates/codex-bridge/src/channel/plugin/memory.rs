//! The state that is stored with the plugin's cursor: the messages with buttons, and those that show progress, so that they
//! can be edited after a restart. All of it is redacted.

use codex_bridge_core::request::RequestName;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::channel::recent::Recent;

/// The stored state of a plugin.
#[derive(Debug, Default)]
pub struct Memory {
    /// The plugin's own cursor.
    pub cursor: Option<String>,
    /// Messages with buttons, the oldest first.
    pub request_messages: Vec<RequestMessage>,
    /// Messages that show the progress of turns, by the message that started the turn.
    pub progress_messages: Recent<ProgressMessage>,
    /// Whether the stored state was read; later stored states are older than this one.
    is_restored: bool,
}

/// A message with buttons.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestMessage {
    /// The plugin's id of the message.
    pub message_id: String,
    /// The text of the message.
    pub text: String,
    /// The requests in the message that are still open.
    pub requests: Vec<RequestName>,
    /// The buttons of the message.
    pub actions: Vec<Value>,
}

/// A message that shows the progress of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressMessage {
    /// The plugin's id of the message; none if sending failed, which is not retried.
    pub message_id: Option<String>,
    /// The text of the message.
    #[serde(skip)]
    pub text: String,
}

/// The stored form; its field names are fixed.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedMemory {
    plugin: Option<String>,
    asking: Vec<RequestMessage>,
    shown: Recent<ProgressMessage>,
}

impl Memory {
    /// Restores the stored state: the cursor always, the messages once. Returns the plugin's own cursor.
    pub fn restore(&mut self, saved: Option<&str>) -> Option<String> {
        let read = |text: &str| {
            // Text in another form is the bare cursor of a plugin.
            serde_json::from_str(text)
                .unwrap_or_else(|_| SavedMemory { plugin: Some(text.to_owned()), ..SavedMemory::default() })
        };
        let saved = saved.map(read).unwrap_or_default();
        self.cursor.clone_from(&saved.plugin);
        if !std::mem::replace(&mut self.is_restored, true) {
            (self.request_messages, self.progress_messages) = (saved.asking, saved.shown);
        }
        saved.plugin
    }

    /// The state to be stored; none if there is nothing to store.
    pub fn to_saved(&self) -> Option<String> {
        let (asking, shown) = (self.request_messages.clone(), self.progress_messages.clone());
        let is_empty = self.cursor.is_none() && asking.is_empty() && shown.is_empty();
        let saved = SavedMemory { plugin: self.cursor.clone(), asking, shown };
        serde_json::to_string(&saved).ok().filter(|_| !is_empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_life_knows_what_the_last_one_noted() {
        let mut before = Memory::default();
        assert_eq!(before.to_saved(), None);
        assert_eq!(before.restore(Some("42")), Some("42".to_owned()), "a plugin's own words");
        before.request_messages.push(RequestMessage {
            message_id: "m1".into(),
            text: "Codex asks".into(),
            requests: vec!["req-1".into()],
            actions: Vec::new(),
        });
        let shown = ProgressMessage { message_id: Some("m2".into()), text: "working".into() };
        before.progress_messages.insert("in-1", shown);
        let mut after = Memory::default();
        assert_eq!(after.restore(before.to_saved().as_deref()), Some("42".to_owned()));
        assert_eq!(after.request_messages, before.request_messages);
        assert_eq!(
            after.progress_messages.get("in-1").and_then(|shown| shown.message_id.as_deref()),
            Some("m2")
        );
        after.request_messages.clear();
        after.restore(before.to_saved().as_deref());
        assert!(after.request_messages.is_empty(), "once: from then on it knows better");
        assert_eq!(Memory::default().restore(Some("{\"offset\": 3}")).as_deref(), Some("{\"offset\": 3}"));
    }
}
