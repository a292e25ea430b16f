//! The buttons under what Codex asks. What a button carries is the name of its request, which is short, random and bound
//! by the bridge to its task, its conversation and those who may decide: nothing else could be believed. Pure.

use codex_bridge_core::outbox::Asked;
use codex_session::Decision;
use serde_json::{Value, json};

/// What the buttons are, and how their data begins.
const APPROVE: &str = "a:";
const FOR_SESSION: &str = "s:";
const DENY: &str = "d:";

/// The buttons for these; a question has none, it is answered in words.
pub fn buttons(asked: &[Asked]) -> Value {
    let decidable: Vec<&Asked> = asked.iter().filter(|one| !is_question(one)).collect();
    let rows = decidable.iter().map(|one| row(one, decidable.len() > 1));
    rows.collect()
}

fn is_question(asked: &Asked) -> bool {
    matches!(asked.ask["kind"].as_str(), Some("questions" | "form"))
}

fn row(asked: &Asked, is_one_of_many: bool) -> Value {
    let id = &asked.request_id;
    let button = |start: &str, word: &str| {
        let text = if is_one_of_many { format!("{word} {id}") } else { word.to_owned() };
        json!({ "text": text, "callback_data": format!("{start}{id}") })
    };
    let offers = asked.ask["offers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut row = vec![button(APPROVE, "Approve")];
    if offers.iter().any(|offer| offer == "accept_for_session") {
        row.push(button(FOR_SESSION, "For this thread"));
    }
    row.push(button(DENY, "Deny"));
    row.into()
}

/// What a button says: on which request, what.
pub fn meaning(data: &str) -> Option<(String, Decision)> {
    let of = |start: &str, decision: Decision| Some((data.strip_prefix(start)?.to_owned(), decision));
    of(APPROVE, Decision::Accept)
        .or_else(|| of(FOR_SESSION, Decision::AcceptForSession))
        .or_else(|| of(DENY, Decision::Decline))
}

/// The same buttons without those of a request.
pub fn without(buttons: &Value, request_id: &str) -> Value {
    let is_of = |button: &Value| {
        let data = button["callback_data"].as_str().and_then(meaning);
        data.is_some_and(|(id, _)| id == request_id)
    };
    let rows = buttons.as_array().map(Vec::as_slice).unwrap_or_default().iter();
    let rows = rows.map(|row| {
        let row = row.as_array().map(Vec::as_slice).unwrap_or_default().iter();
        row.filter(|button| !is_of(button)).cloned().collect::<Vec<_>>()
    });
    rows.filter(|row| !row.is_empty()).map(Value::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(id: &str, ask: Value) -> Asked {
        Asked { request_id: id.into(), ask, expires_at: None }
    }

    #[test]
    fn every_button_says_what_it_does_and_fits() {
        let offers = json!({"kind": "command", "offers": ["accept", "accept_for_session", "decline"]});
        let question = json!({"kind": "questions", "offers": ["answer"]});
        let buttons = buttons(&[asked("req-12ab34cd", offers), asked("req-99999999", question)]);
        let data: Vec<&str> =
            buttons[0].as_array().unwrap().iter().map(|one| one["callback_data"].as_str().unwrap()).collect();
        assert_eq!(data, ["a:req-12ab34cd", "s:req-12ab34cd", "d:req-12ab34cd"]);
        assert_eq!(buttons.as_array().unwrap().len(), 1, "a question has none");
        assert!(data.iter().all(|data| data.len() <= 64));
        let decisions: Vec<Decision> = data.iter().map(|data| meaning(data).unwrap().1).collect();
        assert_eq!(decisions, [Decision::Accept, Decision::AcceptForSession, Decision::Decline]);
        assert_eq!(meaning("x:1"), None);
    }

    #[test]
    fn what_is_decided_loses_its_buttons_and_the_others_keep_theirs() {
        let both = buttons(&[asked("req-1", json!({})), asked("req-2", json!({}))]);
        assert_eq!(both[0][0]["text"], "Approve req-1");
        let one = without(&both, "req-1");
        assert_eq!((one.as_array().unwrap().len(), &one[0][0]["callback_data"]), (1, &json!("a:req-2")));
        assert_eq!(without(&one, "req-2"), json!([]));
    }
}
