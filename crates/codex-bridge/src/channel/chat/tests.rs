//! What all chat platforms have in common, on one that does nothing.

use std::collections::VecDeque;

use codex_bridge_core::inbox::About;
use codex_session::Decision;
use serde_json::json;

use super::memory::RequestMessage;
use super::*;
use crate::channel::text::Limit;

/// A platform that reads what it is given and remembers how messages look.
#[derive(Default)]
struct Scripted {
    readings: Mutex<VecDeque<Reading>>,
    edits: Mutex<Vec<(String, String, Keyboard)>>,
    toasts: Mutex<Vec<String>>,
    refuses_edits: Mutex<bool>,
}

impl ChatApi for Scripted {
    fn places(&self) -> Vec<String> {
        Vec::new()
    }
    fn check_place(&self, _: &str) -> Result<(), String> {
        Ok(())
    }
    fn reaches(&self, _: &str) -> bool {
        true
    }
    fn identity(&self) -> String {
        "a script".to_owned()
    }
    fn place(&self, place: &str) -> Result<String, String> {
        Ok(place.to_owned())
    }
    fn limits(&self) -> Limits {
        Limits { text: Limit::Chars(4_000), spans: 100 }
    }
    fn takes_taps(&self, _: &str) -> bool {
        true
    }
    fn post<'a>(&'a self, _: &'a str, _: Post<'a>) -> BoxFuture<'a, Outcome> {
        std::future::ready(Outcome::delivered(Some("9".to_owned()))).boxed()
    }
    fn edit<'a>(
        &'a self,
        _: &'a str,
        message_id: &'a str,
        text: &'a Styled,
        keyboard: &'a Keyboard,
    ) -> BoxFuture<'a, EditOutcome> {
        let is_refused = *self.refuses_edits.lock().unwrap();
        if !is_refused {
            self.edits.lock().unwrap().push((message_id.to_owned(), text.text.clone(), keyboard.clone()));
        }
        std::future::ready(if is_refused { EditOutcome::Later } else { EditOutcome::Done }).boxed()
    }
    fn working<'a>(&'a self, _: &'a str) -> BoxFuture<'a, ()> {
        std::future::ready(()).boxed()
    }
    fn react<'a>(&'a self, _: &'a str, _: &'a str, _: Mark) -> BoxFuture<'a, bool> {
        std::future::ready(true).boxed()
    }
    fn toast<'a>(&'a self, _: &'a str, text: &'a str) -> BoxFuture<'a, ()> {
        self.toasts.lock().unwrap().push(text.to_owned());
        std::future::ready(()).boxed()
    }
    fn start<'a>(&'a self, _: &'a Value) -> BoxFuture<'a, Result<String, ChannelError>> {
        std::future::ready(Ok(String::new())).boxed()
    }
    fn probe(&self) -> BoxFuture<'_, Result<String, ChannelError>> {
        std::future::ready(Ok(String::new())).boxed()
    }
    fn receive(&self, _: Option<String>) -> BoxFuture<'_, Result<Reading, ChannelError>> {
        let reading = self.readings.lock().unwrap().pop_front().unwrap_or_default();
        std::future::ready(Ok(reading)).boxed()
    }
}

const NAME: &str = "req-12ab34cd";

fn chat() -> Arc<Chat<Scripted>> {
    Chat::new("chat", Scripted::default(), true)
}

fn tapped(id: &str, pressed: Pressed) -> Tapped {
    Tapped {
        id: id.to_owned(),
        pressed,
        sender: Sender {
            id: "42".to_owned(),
            name: "Ada".to_owned(),
            party: codex_bridge_core::inbox::Party::Person,
        },
        conversation: "room".into(),
        room: Room::Shared,
        reply_to: "chat:room".to_owned(),
        message_id: "9".to_owned(),
        text: Some("Codex asks".to_owned()),
        keyboard: Keyboard::NONE,
    }
}

fn choice(choice: Choice) -> Pressed {
    Pressed::Choice(Button::named(NAME), choice)
}

/// Reads a batch with these.
async fn read(chat: &Chat<Scripted>, incoming: Vec<Incoming>, taps: Vec<Tapped>) -> Batch {
    chat.api.readings.lock().unwrap().push_back(Reading { incoming, taps, ..Reading::default() });
    chat.read(None).await.unwrap()
}

fn said(text: &str, replies_to: Option<&str>) -> Incoming {
    let tapped = tapped("", Pressed::Command(text.to_owned()));
    Incoming { arrival: arrival_of(&tapped, text), replies_to: replies_to.map(str::to_owned) }
}

fn asking() -> RequestMessage {
    RequestMessage {
        place: "room".to_owned(),
        message_id: "9".to_owned(),
        text: "Codex asks".to_owned(),
        spans: Vec::new(),
        keyboard: Keyboard::NONE,
        request: NAME.into(),
    }
}

#[tokio::test]
async fn a_tap_that_could_not_be_decided_on_comes_again_when_the_channel_is_begun_again() {
    let chat = chat();
    let taps = async || {
        let tap = tapped("77", choice(Decision::Accept.into()));
        read(&chat, Vec::new(), vec![tap]).await.taps.len()
    };
    chat.start(Stored::default()).await.unwrap();
    assert_eq!((taps().await, taps().await), (1, 0), "one that comes twice is decided on once");
    chat.start(Stored::default()).await.unwrap();
    assert_eq!(taps().await, 1);
    chat.memory().note_request(asking());
    assert!(chat.shown_requests().is_empty(), "who decides is shown with their name");
    chat.start(Stored::default()).await.unwrap();
    assert_eq!(chat.shown_requests(), [NAME.into()], "nobody decides on it any more");
}

#[tokio::test]
async fn the_next_message_of_who_was_asked_for_a_comment_is_the_comment() {
    let chat = chat();
    chat.memory().note_request(asking());
    let batch = read(&chat, Vec::new(), vec![tapped("1", choice(Choice::Comment))]).await;
    chat.decided(&batch.taps[0], &Verdict::Comment).await;
    assert_eq!(*chat.api.toasts.lock().unwrap(), ["Write your comment as your next message."]);
    let about = async |text: &str| {
        read(&chat, vec![said(text, None)], Vec::new()).await.arrivals[0].context.about.clone()
    };
    assert_eq!(about("/status").await, None, "a command is none");
    let comment = Some(About::Comment(NAME.into()));
    assert_eq!(about("use the other file").await, comment);
    assert_eq!(about("use the other file").await, comment, "until it is stored");
    let external_id = format!("tap/{}", "");
    chat.memory().note_stored(&external_id);
    assert_eq!(about("and this").await, None);
}

#[tokio::test]
async fn a_reply_to_the_message_of_a_request_is_about_it() {
    let chat = chat();
    chat.memory().note_request(asking());
    let about = async |replies_to| {
        read(&chat, vec![said("blue", replies_to)], Vec::new()).await.arrivals[0].context.about.clone()
    };
    assert_eq!(about(Some("9")).await, Some(About::Reply(NAME.into())));
    assert_eq!((about(Some("8")).await, about(None).await), (None, None));
}

#[tokio::test]
async fn a_command_of_a_button_is_a_message_of_who_tapped() {
    let batch = read(&chat(), Vec::new(), vec![tapped("5", Pressed::Command("/retry".to_owned()))]).await;
    let arrival = &batch.arrivals[0];
    assert_eq!((arrival.text.as_str(), arrival.sender.id.as_str()), ("/retry", "42"));
    assert_eq!(arrival.external_id, "tap/5", "it is carried out once");
}

#[tokio::test]
async fn the_outcome_of_a_request_is_shown_once_and_an_edit_that_failed_is_made_again() {
    let chat = chat();
    chat.memory().note_request(asking());
    *chat.api.refuses_edits.lock().unwrap() = true;
    let batch = read(&chat, Vec::new(), vec![tapped("1", choice(Decision::Decline.into()))]).await;
    chat.decided(&batch.taps[0], &Verdict::Taken { text: "Declined: Codex has it.".to_owned() }).await;
    assert_eq!(chat.shown_requests(), [NAME.into()]);
    *chat.api.refuses_edits.lock().unwrap() = false;
    let batch = read(&chat, Vec::new(), vec![tapped("2", choice(Decision::Decline.into()))]).await;
    chat.decided(&batch.taps[0], &Verdict::Taken { text: "Declined: Codex has it.".to_owned() }).await;
    let edits = chat.api.edits.lock().unwrap().clone();
    assert!(edits.len() == 1 && edits[0].1.contains("Declined by Ada"), "{edits:?}");
    assert!(chat.shown_requests().is_empty());
}

#[test]
fn what_earlier_versions_stored_is_read() {
    let old = json!({
        "asking": [{
            "place": "42", "message_id": 9, "text": "Codex asks", "buttons": [[{"text": "Approve", "callback_data": "a:req-1"}]],
            "requests": ["req-1", "req-2"], "has_several": true,
        }],
        "shown": {"in-1": {"place": "42", "message_id": 7}},
        "moved": {"-77": -100_777},
    });
    let mut memory = Memory::default();
    let stored = Stored { cursor: None, memory: Some(old.to_string()), keeper: Keeper::default() };
    assert_eq!(memory.restore(&stored), json!({ "moved": {"-77": -100_777} }));
    let message = &memory.request_messages[0];
    assert_eq!((message.message_id.as_str(), message.request.as_str()), ("9", "req-1"));
    assert_eq!(message.keyboard.0[0][0].data, "a:req-1");
    let now = memory.to_stored(json!({"x": 1})).unwrap();
    let mut again = Memory::default();
    let stored = Stored { cursor: None, memory: Some(now), keeper: Keeper::default() };
    assert_eq!(again.restore(&stored), json!({"x": 1}));
    assert_eq!(again.request_messages, memory.request_messages);
    assert_eq!(again.progress_messages, memory.progress_messages);
}
