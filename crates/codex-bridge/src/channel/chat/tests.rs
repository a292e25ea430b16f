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
        at: jiff::Timestamp::now().as_millisecond(),
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

/// Ada taps on "Decline with a comment".
async fn asked_for_a_comment() -> Arc<Chat<Scripted>> {
    let chat = chat();
    chat.memory().note_request(asking());
    let batch = read(&chat, Vec::new(), vec![tapped("1", choice(Choice::Comment))]).await;
    chat.decided(&batch.taps[0], &Verdict::Comment).await;
    chat
}

async fn about(chat: &Chat<Scripted>, incoming: Vec<Incoming>) -> Vec<Option<About>> {
    read(chat, incoming, Vec::new()).await.arrivals.into_iter().map(|one| one.context.about).collect()
}

#[tokio::test]
async fn a_comment_is_awaited_no_more_once_its_request_is_decided() {
    let chat = asked_for_a_comment().await;
    let batch = read(&chat, Vec::new(), vec![tapped("2", choice(Decision::Accept.into()))]).await;
    chat.decided(&batch.taps[0], &Verdict::Taken { text: "Approved: Codex has it.".to_owned() }).await;
    let next = about(&chat, vec![said("thanks, and now write the tests", None)]).await;
    assert_eq!(
        next,
        [None],
        "the next message is a prompt, and would be refused as a comment that came too late"
    );
}

#[tokio::test]
async fn a_reply_to_the_message_of_another_request_is_about_that_one() {
    let chat = asked_for_a_comment().await;
    chat.memory().note_request(RequestMessage {
        message_id: "10".to_owned(),
        request: "req-other".into(),
        ..asking()
    });
    let next = about(&chat, vec![said("blue", Some("10"))]).await;
    assert_eq!(next, [Some(About::Reply("req-other".into()))]);
}

#[tokio::test]
async fn one_message_is_the_comment_and_not_all_of_a_batch() {
    let chat = asked_for_a_comment().await;
    let mut second = said("and what about the weather?", None);
    second.arrival.external_id = "second".to_owned();
    let both = about(&chat, vec![said("use the other file", None), second]).await;
    assert_eq!(both, [Some(About::Comment(NAME.into())), None]);
}

#[tokio::test]
async fn what_was_written_before_the_tap_is_no_comment() {
    let chat = asked_for_a_comment().await;
    let mut before = said("make it blue", None);
    before.arrival.sent_at -= 60 * 60 * 1000;
    assert_eq!(about(&chat, vec![before]).await, [None]);
}

#[tokio::test]
async fn a_comment_may_begin_with_a_path() {
    let chat = asked_for_a_comment().await;
    let comment = about(&chat, vec![said("/etc/hosts must stay as it is", None)]).await;
    assert_eq!(comment, [Some(About::Comment(NAME.into()))], "it is no command, and becomes a turn");
}

#[tokio::test]
async fn a_comment_for_which_there_was_no_room_is_one_when_it_comes_again() {
    let chat = asked_for_a_comment().await;
    let comment = Some(About::Comment(NAME.into()));
    assert_eq!(about(&chat, vec![said("use the other file", None)]).await, std::slice::from_ref(&comment));
    let receipt = codex_bridge_core::inbox::Received::NoRoom;
    chat.received(vec![Receipt { external_id: "tap/".to_owned(), receipt }]).await;
    assert_eq!(about(&chat, vec![said("use the other file", None)]).await, [comment]);
}

fn questions(questions: &Value) -> codex_bridge_core::outbox::Notice {
    serde_json::from_value(json!({
        "event": "approval", "task_id": "codex-0123456789abcdef0123456789abcdef", "status": "working", "prompt": "fix",
        "cwd": "/", "at": 0,
        "requests": [{"request_id": NAME, "digest": "0123456789abcdef0123456789abcdef",
            "ask": {"kind": "questions", "title": "Codex asks", "questions": questions}}],
    }))
    .unwrap()
}

/// The one message with these questions, on a platform with buttons.
fn shown(asked: &Value) -> (String, Keyboard) {
    let notice = questions(asked);
    let parts = crate::channel::text::parts(&notice, Scripted::default().limits(), true);
    let [part] = &parts[..] else { panic!("{parts:?}") };
    let Body::Text(text) = &part.body else { panic!("{parts:?}") };
    (text.text.clone(), part.decides.map(Keyboard::of_request).unwrap_or_default())
}

fn options(count: usize) -> Vec<Value> {
    vec![json!({"label": "x"}); count]
}

#[tokio::test]
async fn a_question_that_says_to_reply_to_it_is_remembered() {
    for options in [options(0), options(11)] {
        let question = json!([{"id": "colour", "text": "Which colour?", "options": options}]);
        let (text, keyboard) = shown(&question);
        assert!(text.contains("Reply to this message") && keyboard.is_empty(), "{text}");
        let chat = chat();
        let attempt = Attempt::first(
            codex_bridge_core::outbox::DeliveryId("dlv-1".to_owned()),
            "chat:room",
            questions(&question),
        );
        chat.deliver("room", &attempt).await;
        assert_eq!(about(&chat, vec![said("blue", Some("9"))]).await, [Some(About::Reply(NAME.into()))]);
    }
}

#[test]
fn questions_for_which_buttons_do_not_do_say_how_to_answer_in_words() {
    let of = |id: &str, text: &str, count: usize| json!({"id": id, "text": text, "options": options(count)});
    for asked in [
        json!([of("first", "Which?", 11), of("second", "And?", 2)]),
        json!([of("first", "Which?", 2), of("second", "And?", 11)]),
        json!([of("first", "Which?", 2), of("second", &"long ".repeat(300), 2)]),
    ] {
        let (text, keyboard) = shown(&asked);
        assert!(keyboard.is_empty() && text.contains("/answer"), "{text}");
        assert!(text.contains("first: ") && text.contains("second: "), "{text}");
    }
    assert!(!shown(&json!([of("first", "Which?", 2), of("second", "And?", 2)])).1.is_empty());
}
