//! What a thread remembers of its turns, learnt from the notifications that were sent about them.
//!
//! So a turn that ended while no client was there can be read back, as with the real one.

use serde_json::{Value, json};

/// The turns of one thread, oldest first.
#[derive(Default, Clone)]
pub struct History {
    turns: Vec<Value>,
}

impl History {
    /// Learns from a notification about this thread.
    pub fn observe(&mut self, method: &str, params: &Value) {
        let id = params["turn"]["id"].as_str().or_else(|| params["turnId"].as_str()).unwrap_or_default();
        let known = self.turns.iter_mut().find(|turn| turn["id"] == id);
        match (method, known) {
            ("turn/started", None) => {
                let mut turn = params["turn"].clone();
                turn["items"] = json!([]);
                turn["itemsView"] = json!("full");
                self.turns.push(turn);
            }
            ("turn/completed", Some(turn)) => {
                for field in ["status", "error", "completedAt", "durationMs"] {
                    turn[field] = params["turn"][field].clone();
                }
            }
            ("item/completed", Some(turn)) => {
                if let Some(items) = turn["items"].as_array_mut() {
                    items.push(params["item"].clone());
                }
            }
            _ => {}
        }
    }

    /// All turns with all items, oldest first.
    pub fn full(&self) -> Value {
        json!(self.turns)
    }

    /// The last agent message of a turn, alone in an array.
    pub fn summary(&self, turn: &str) -> Value {
        let items =
            self.turns.iter().find(|known| known["id"] == turn).and_then(|known| known["items"].as_array());
        items.into_iter().flatten().rfind(|item| is_a(item, "agentMessage")).into_iter().cloned().collect()
    }

    /// The result of `thread/turns/list`: newest first, each with the items that `view` wants.
    pub fn turns_page(&self, view: &Value) -> Value {
        let turns: Vec<Value> = self.turns.iter().rev().map(|turn| viewed(turn, view)).collect();
        json!({ "data": turns, "nextCursor": null, "backwardsCursor": null })
    }

    /// The result of `thread/items/list`: oldest first.
    pub fn items_page(&self) -> Value {
        let entry = |turn: &Value, item: &Value| {
            json!({
                "turnId": turn["id"], "item": item,
                "startedAtMs": item["startedAtMs"], "completedAtMs": item["completedAtMs"],
            })
        };
        let of_turn = |turn: &Value| -> Vec<Value> {
            turn["items"].as_array().into_iter().flatten().map(|item| entry(turn, item)).collect()
        };
        let entries: Vec<Value> = self.turns.iter().flat_map(of_turn).collect();
        json!({ "data": entries, "nextCursor": null, "backwardsCursor": null })
    }

    /// What a fork of the thread begins with. codex 0.166: the running turn is an interrupted one there.
    pub fn forked(&self) -> Self {
        let mut turns = self.turns.clone();
        for turn in turns.iter_mut().filter(|turn| turn["status"] == "inProgress") {
            turn["status"] = json!("interrupted");
        }
        Self { turns }
    }
}

fn viewed(turn: &Value, view: &Value) -> Value {
    let mut turn = turn.clone();
    let items = turn["items"].as_array().cloned().unwrap_or_default();
    match view.as_str() {
        Some("full") => return turn,
        Some("notLoaded") => turn["items"] = json!([]),
        _ => {
            let asked = items.iter().find(|item| is_a(item, "userMessage"));
            let answered = items.iter().rfind(|item| is_a(item, "agentMessage"));
            turn["items"] = asked.into_iter().chain(answered).cloned().collect();
        }
    }
    turn["itemsView"] = if view.is_null() { json!("summary") } else { view.clone() };
    turn
}

fn is_a(item: &Value, kind: &str) -> bool {
    item["type"] == kind
}
