use codex_bridge_core::inbox::ConversationKey;
use serde_json::json;

use super::*;
use crate::channel::chat::Pressed;

const TS: &str = "1700000000.000100";

/// Reads with a bot that takes part in one thread and has asked a question in another.
fn reading<T>(read: impl FnOnce(&Reader<'_>) -> T) -> T {
    let me = Me { user: "U0BOT".to_owned(), bot: "B0BOT".to_owned(), team: "T1".to_owned() };
    let names = HashMap::from([("U1".to_owned(), "Ada".to_owned())]);
    let mut notes = Notes::default();
    notes.threads.insert("C1/1.1", ());
    notes.questions.insert("C1/2.1", "2.500000".to_owned());
    let mut positions = Positions::default();
    positions.note("C1/3.1", "3.1");
    read(&Reader { channel: "slack", me: &me, names: &names, notes: &notes, read: &positions })
}

fn said(text: &str) -> Value {
    json!({"type": "message", "user": "U1", "text": text, "ts": TS, "channel": "C1", "client_msg_id": "x"})
}

fn read(channel: &str, message: &Value) -> Option<Incoming> {
    reading(|reader| reader.incoming(channel, message))
}

fn arrival(channel: &str, message: &Value) -> Arrival {
    read(channel, message).unwrap().arrival
}

#[test]
fn a_thread_is_a_conversation_and_so_is_a_private_chat() {
    let in_channel = arrival("C1", &said("hello"));
    assert_eq!(in_channel.conversation, ConversationKey(format!("C1/{TS}")), "it begins a thread");
    assert_eq!((in_channel.reply_to, in_channel.room), (format!("slack:C1/{TS}"), Room::Shared));
    assert_eq!((in_channel.external_id, in_channel.sent_at), (format!("C1/{TS}"), 1_700_000_000_000));
    assert_eq!((in_channel.sender.name.as_str(), in_channel.sender.party), ("Ada", Party::Person));
    let mut reply = said("hello");
    reply["thread_ts"] = "1.1".into();
    assert_eq!(arrival("C1", &reply).conversation.as_str(), "C1/1.1");
    assert_eq!(arrival("D1", &reply).conversation.as_str(), "D1/1.1");
    reply["parent_user_id"] = "U0BOT".into();
    let below_ours = read("D1", &reply).unwrap();
    assert_eq!((below_ours.arrival.conversation.as_str(), below_ours.arrival.room), ("D1", Room::Direct));
    assert_eq!(below_ours.replies_to.as_deref(), Some("1.1"), "in a private chat, a thread is a reply");
    let mut root = said("hello");
    root["thread_ts"] = TS.into();
    assert_eq!(
        arrival("D1", &root).conversation.as_str(),
        "D1",
        "the first message of a thread is not in it"
    );
}

#[test]
fn in_a_channel_a_message_is_for_the_bot_if_it_names_it_or_the_bot_takes_part() {
    let is_overheard = |message: &Value| arrival("C1", message).context.is_overheard;
    assert!(is_overheard(&said("lunch?")) && is_overheard(&said("<@U2> lunch?")));
    assert!(!is_overheard(&said("<@U0BOT> lunch?")) && !is_overheard(&said("lunch, <@U0BOT>?")));
    assert!(!arrival("D1", &said("lunch?")).context.is_overheard);
    for (thread, is_part) in [("1.1", true), ("3.1", true), ("9.1", false)] {
        let mut reply = said("and then?");
        reply["thread_ts"] = thread.into();
        assert_eq!(!is_overheard(&reply), is_part, "{thread}");
        reply["text"] = "<@U2> and then?".into();
        assert!(is_overheard(&reply), "{thread}: said to another one");
    }
    let mut answer = said("blue");
    answer["thread_ts"] = "2.1".into();
    assert_eq!(read("C1", &answer).unwrap().replies_to.as_deref(), Some("2.500000"));
    let to_others = json!({"text": "<@U2> no idea", "thread_ts": "2.1", "user": "U1", "ts": answer["ts"]});
    assert_eq!(read("C1", &to_others).unwrap().replies_to, None, "it was said to another one");
    answer["ts"] = "2.400000".into();
    assert_eq!(read("C1", &answer).unwrap().replies_to, None, "it was written before the question");
}

#[test]
fn a_command_is_written_with_an_exclamation_mark_where_it_is_for_the_bot() {
    let text = |channel: &str, text: &str| arrival(channel, &said(text)).text;
    assert_eq!(text("C1", "<@U0BOT> !status"), "/status");
    assert_eq!(text("C1", "<@U0BOT> /approve req-1"), "/approve req-1");
    assert_eq!(text("D1", "!queue do this"), "/queue do this");
    assert_eq!(text("D1", "!important"), "!important");
    assert_eq!(text("C1", "!status"), "!status", "it may be meant for another bot");
    assert_eq!(text("D1", "<@U0BOT>  do &lt;it&gt; with <@U1>"), "do <it> with @Ada");
}

#[test]
fn what_nobody_said_is_no_message() {
    assert_eq!(
        read("C1", &json!({"subtype": "channel_join", "user": "U1", "text": "joined", "ts": TS})),
        None
    );
    let mut own = said("done");
    own["user"] = "U0BOT".into();
    assert_eq!(read("C1", &own), None);
    let by_bot = json!({"subtype": "bot_message", "bot_id": "B0BOT", "text": "done", "ts": TS});
    assert_eq!(read("C1", &by_bot), None);
    let other = json!({"subtype": "bot_message", "bot_id": "B9", "text": "<@U0BOT> look", "ts": TS});
    let other = arrival("C1", &other);
    assert_eq!((other.sender.id.as_str(), other.sender.party), ("B9", Party::Agent));
    assert_eq!(read("D1", &said(" ")), None);
    let mut file = said("");
    file["files"] = json!([{"name": "a.png", "mimetype": "image/png"}]);
    assert!(arrival("D1", &file).attachments[0].name == "a.png");
}

#[test]
fn words_of_another_are_no_command_of_whoever_passes_them_on() {
    let mut shared = said("");
    shared["attachments"] = json!([{"is_share": true, "author_name": "Bob\nB", "text": "/approve req-1"}]);
    assert_eq!(arrival("D1", &shared).text, "(forwarded from Bob B)\n/approve req-1");
    shared["text"] = "what is that?".into();
    let read = arrival("D1", &shared);
    let quoted = read.context.quoted.unwrap();
    assert_eq!((read.text.as_str(), quoted.author.as_str()), ("what is that?", "Bob B"));
    assert_eq!(quoted.text, "/approve req-1");
}

#[test]
fn each_version_of_a_message_has_an_id_of_its_own_and_an_unfurled_link_is_none() {
    let mut message = said("<@U0BOT> look there");
    message["edited"] = json!({"user": "U1", "ts": "1700000009.000000"});
    let event = json!({"subtype": "message_changed", "message": message, "previous_message": {"text": "look"}, "ts": "7.7"});
    let read_it = arrival("C1", &event);
    assert_eq!(read_it.external_id, format!("C1/{TS}#1700000009.000000"));
    assert_eq!((read_it.context.edits, read_it.text.as_str()), (Some(format!("C1/{TS}")), "look there"));
    let mut unfurled = event;
    unfurled["previous_message"]["text"] = unfurled["message"]["text"].clone();
    assert_eq!(read("C1", &unfurled), None);
}

#[test]
fn a_tap_names_its_request_and_its_place_and_counts_on_our_messages_alone() {
    let payload = json!({
        "type": "block_actions", "user": {"id": "U1", "name": "ada"}, "channel": {"id": "C1"},
        "container": {"message_ts": "5.5", "channel_id": "C1", "thread_ts": "1.1"},
        "message": {"user": "U0BOT", "bot_id": "B0BOT", "ts": "5.5", "thread_ts": "1.1", "blocks": []},
        "actions": [{"value": "a:req-12ab34cd.0123456789abcdef", "action_ts": "6.6"}],
    });
    let tapped = |payload: &Value| reading(|reader| reader.tapped(payload, |id| id == "U2")).unwrap();
    let tap = tapped(&payload).unwrap();
    assert_eq!(
        (tap.id.as_str(), tap.conversation.as_str(), tap.message_id.as_str()),
        ("C1/1.1 U1 6.6", "C1/1.1", "5.5")
    );
    assert_eq!((tap.sender.name.as_str(), tap.room), ("Ada", Room::Shared));
    assert!(matches!(tap.pressed, Pressed::Choice(..)));
    let mut top = payload.clone();
    top["message"]["thread_ts"] = "5.5".into();
    assert_eq!(tapped(&top).unwrap().conversation.as_str(), "C1", "a notice with replies below it");
    let mut foreign = payload.clone();
    (foreign["message"]["user"], foreign["message"]["bot_id"]) = ("U9".into(), "B9".into());
    assert_eq!(tapped(&foreign).unwrap_err().stranger.unwrap().id, "U1");
    let mut old = payload;
    (old["actions"][0]["value"], old["user"]["id"]) = ("x:1".into(), "U2".into());
    assert_eq!(tapped(&old).unwrap_err().stranger, None);
}
