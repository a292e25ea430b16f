//! Stories about the inbox.

use super::samples::{self, add, new_task, task_id};
use super::{commit, prune, refused};
use crate::inbox::{AttachmentRecord, ChannelRecord, Conversation, Message, MessageKind, MessageState};
use crate::outbox::{Delivery, DeliveryId, DeliveryState};
use crate::store::{CONVERSATIONS_OUTLIVE_MS, MessageFilter, Store, Write};
use crate::task::{Status, Task};

/// The same message twice is stored once; all fields are stored.
pub async fn messages_are_kept_once_and_found(store: &impl Store) {
    let add = |message: &Message| Write::AddMessage(Box::new(message.clone()));
    let (first, second) = (samples::message(1, "room"), samples::message(2, "hall"));
    let again = Message { id: "in-other".into(), ..first.clone() };
    commit(store, vec![Write::AddTask(Box::new(new_task(1))), add(&first), add(&again), add(&second)]).await;
    let found = async |filter: MessageFilter| store.messages(&filter).await.unwrap();
    assert_eq!(found(MessageFilter::default()).await, [second.clone(), first.clone()], "the newest first");
    let changed = Message {
        state: MessageState::Running,
        sealed_text: None,
        task_id: Some(task_id(1)),
        acknowledged_at: Some(3),
        ..first.clone()
    };
    commit(store, vec![Write::SaveMessage(Box::new(changed.clone()))]).await;
    let all = MessageFilter::default();
    let is_first = [changed];
    assert_eq!(found(MessageFilter { id: Some(first.id.clone()), ..all.clone() }).await, is_first);
    assert_eq!(found(MessageFilter { task_id: Some(task_id(1)), ..all.clone() }).await, is_first);
    assert_eq!(found(MessageFilter { conversation: Some("room".into()), ..all.clone() }).await, is_first);
    assert_eq!(
        found(MessageFilter { external_ids: vec!["external-1".into()], ..all.clone() }).await,
        is_first
    );
    assert_eq!(found(MessageFilter { states: vec![MessageState::Running], ..all.clone() }).await, is_first);
    assert_eq!(found(MessageFilter { reply_id: Some("dlv-in-1".into()), ..all.clone() }).await, is_first);
    let is_second = [second];
    assert_eq!(found(MessageFilter { unacknowledged: true, ..all.clone() }).await, is_second);
    assert_eq!(found(MessageFilter { since: Some(1_002), ..all.clone() }).await, is_second);
    assert_eq!(found(MessageFilter { limit: Some(1), ..all.clone() }).await, is_second);
    assert_eq!(found(MessageFilter { sender_id: Some("ada".into()), ..all.clone() }).await.len(), 2);
    assert_eq!(found(MessageFilter { channel: Some("other".into()), ..all.clone() }).await, []);
    assert_eq!(store.message_count(&MessageFilter { limit: Some(1), ..all.clone() }).await.unwrap(), 2);
    assert_eq!(store.message_count(&MessageFilter { since: Some(1_002), ..all }).await.unwrap(), 1);
    refused(store, vec![Write::SaveMessage(Box::new(samples::message(9, "room")))]).await;
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

/// Answered or given up, and without an unfinished reply.
pub async fn messages_are_done_with_once_their_replies_are(store: &impl Store) {
    let reply = |number: u32, state| {
        let id = format!("dlv-in-{number}");
        Write::AddDelivery(Box::new(Delivery { state, ..samples::delivery(1, &id) }))
    };
    let message = |number, state, reply_id: Option<&str>| {
        let reply_id = reply_id.map(DeliveryId::from);
        Write::AddMessage(Box::new(Message { state, reply_id, ..samples::message(number, "room") }))
    };
    let batch = vec![
        Write::AddTask(Box::new(new_task(1))),
        reply(1, DeliveryState::Pending),
        reply(2, DeliveryState::Attempting),
        reply(3, DeliveryState::Delivered),
        reply(4, DeliveryState::Dead),
        message(1, MessageState::Answered, Some("dlv-in-1")),
        message(2, MessageState::Dead, Some("dlv-in-2")),
        message(3, MessageState::Answered, Some("dlv-in-3")),
        message(4, MessageState::Dead, Some("dlv-in-4")),
        message(5, MessageState::Dead, None),
        message(6, MessageState::Answered, Some("dlv-forgotten")),
        message(7, MessageState::Received, None),
        message(8, MessageState::Running, None),
    ];
    commit(store, batch).await;
    let done_with = MessageFilter { done_with: true, ..MessageFilter::default() };
    let found = store.messages(&done_with).await.unwrap();
    let found: Vec<i64> = found.into_iter().filter_map(|message| message.position).collect();
    assert_eq!(found, [6, 5, 4, 3]);
    assert_eq!(store.message_count(&done_with).await.unwrap(), 4);
}

/// In order within a conversation; urgent messages do not wait.
pub async fn the_next_messages_are_the_first_of_each_conversation(store: &impl Store) {
    let message =
        |number, conversation, kind, state| Message { kind, state, ..samples::message(number, conversation) };
    let (prompt, urgent) = (MessageKind::Prompt, MessageKind::UrgentCommand);
    let all = [
        message(1, "room", prompt, MessageState::Acknowledged),
        message(2, "room", prompt, MessageState::Running),
        message(3, "room", prompt, MessageState::Received),
        message(4, "hall", MessageKind::Command, MessageState::Received),
        message(5, "hall", prompt, MessageState::Received),
        message(6, "room", urgent, MessageState::Received),
        message(7, "hall", urgent, MessageState::Answered),
        message(8, "yard", prompt, MessageState::Dead),
    ];
    commit(store, all.iter().map(|one| Write::AddMessage(Box::new(one.clone()))).collect()).await;
    let next: Vec<i64> = store
        .next_messages(&"chat".into())
        .await
        .unwrap()
        .into_iter()
        .filter_map(|message| message.position)
        .collect();
    assert_eq!(next, [2, 4, 6]);
    assert_eq!(store.next_messages(&"other".into()).await.unwrap(), []);
}

/// A change replaces all fields. Deleting a task clears it in its conversation.
pub async fn conversations_and_channels_are_kept_by_name(store: &impl Store) {
    let ended = Task { status: Status::Completed, updated_at: 8, completed_at: None, ..new_task(1) };
    let room = Conversation { task_id: Some(task_id(1)), updated_at: 8, ..samples::conversation("room") };
    let hall = samples::conversation("hall");
    let save = |one: &Conversation| Write::SaveConversation(Box::new(one.clone()));
    commit(store, vec![add(ended), save(&hall), save(&samples::conversation("room")), save(&room)]).await;
    assert_eq!(store.conversations(&"chat".into(), None).await.unwrap(), [room.clone(), hall.clone()]);
    assert_eq!(store.conversations(&"chat".into(), Some(&"hall".into())).await.unwrap(), [hall]);
    assert_eq!(store.conversations(&"other".into(), None).await.unwrap(), []);
    prune(store, CONVERSATIONS_OUTLIVE_MS, 0).await;
    let room = Conversation { task_id: None, ..room };
    assert_eq!(store.conversations(&"chat".into(), Some(&"room".into())).await.unwrap(), [room]);
    let chat = ChannelRecord {
        allowed: vec![crate::inbox::Allowed::parse("42:approver").unwrap()],
        name: "chat".into(),
        cursor: Some("{}".into()),
        memory: Some("[]".into()),
        is_paused: true,
        updated_at: 3,
    };
    let other = ChannelRecord::new(&"another".into(), 1);
    let save = |one: &ChannelRecord| Write::SaveChannel(Box::new(one.clone()));
    commit(store, vec![save(&ChannelRecord::new(&"chat".into(), 1)), save(&other), save(&chat)]).await;
    assert_eq!(store.channels().await.unwrap(), [other, chat]);
}

/// A conversation outlives its task for a long time. It stays as long as it has a task or a message.
pub async fn a_prune_forgets_conversations_long_after_their_tasks(store: &impl Store) {
    let save = |key: &str, task_id, updated_at| {
        let one = Conversation { task_id, updated_at, ..samples::conversation(key) };
        Write::SaveConversation(Box::new(one))
    };
    let waiting = Message { state: MessageState::Received, ..samples::message(1, "waited in") };
    let batch = vec![
        Write::AddTask(Box::new(new_task(1))),
        Write::AddMessage(Box::new(waiting)),
        save("worked in", Some(task_id(1)), 49),
        save("waited in", None, 49),
        save("left lately", None, 50),
        save("left long ago", None, 49),
    ];
    commit(store, batch).await;
    let ended_before = CONVERSATIONS_OUTLIVE_MS + 50;
    prune(store, ended_before, 10).await;
    let left = store.conversations(&"chat".into(), None).await.unwrap();
    let left: Vec<&str> = left.iter().map(|one| one.key.as_str()).collect();
    assert_eq!(left, ["left lately", "waited in", "worked in"]);
}

/// An unfinished message stays, however old it is.
pub async fn a_prune_forgets_messages_that_are_over(store: &impl Store) {
    let message = |number, state, updated_at| {
        Write::AddMessage(Box::new(Message { state, updated_at, ..samples::message(number, "room") }))
    };
    let batch = vec![
        message(1, MessageState::Acknowledged, 10),
        message(2, MessageState::Dead, 10),
        message(3, MessageState::Answered, 10),
        message(4, MessageState::Received, 10),
        message(5, MessageState::Acknowledged, 90),
    ];
    commit(store, batch).await;
    prune(store, 50, 10).await;
    let left = store.messages(&MessageFilter::default()).await.unwrap();
    let left: Vec<i64> = left.into_iter().filter_map(|message| message.position).collect();
    assert_eq!(left, [5, 4, 3]);
}

/// Files are found by their message, and their contents are read one by one. They are deleted with the text of the message,
/// or with the message. Files of a message that is not stored are not kept.
pub async fn the_files_of_a_message_are_kept_for_as_long_as_its_text(store: &impl Store) {
    let file = |message, number| Write::SaveAttachment(Box::new(samples::attachment(message, number)));
    let add = |message: &Message| Write::AddMessage(Box::new(message.clone()));
    let (first, second) = (samples::message(1, "room"), samples::message(2, "room"));
    let batch = vec![
        Write::AddTask(Box::new(new_task(1))),
        add(&first),
        file(1, 2),
        file(1, 1),
        add(&second),
        file(2, 1),
        file(9, 1),
    ];
    commit(store, batch).await;
    let found = async |id: &Message| -> Vec<u32> {
        store.attachments(&id.id).await.unwrap().into_iter().map(|one| one.number).collect()
    };
    assert_eq!((found(&first).await, found(&second).await), (vec![1, 2], vec![1]));
    assert_eq!(store.attachments(&samples::attachment(9, 1).message_id).await.unwrap(), []);
    let listed = store.attachments(&first.id).await.unwrap().remove(0);
    let whole = samples::attachment(1, 1);
    assert_eq!(listed, AttachmentRecord { sealed_content: None, ..whole.clone() }, "a list has no contents");
    assert_eq!(store.attachment_content(&first.id, 1).await.unwrap(), whole.sealed_content);
    assert_eq!(store.attachment_content(&first.id, 3).await.unwrap(), None);
    let changed = AttachmentRecord { sealed_about: vec![2], sealed_content: None, ..whole };
    commit(store, vec![Write::SaveAttachment(Box::new(changed.clone()))]).await;
    assert_eq!(store.attachments(&first.id).await.unwrap()[0], changed);
    assert_eq!(store.attachment_content(&first.id, 1).await.unwrap(), None);
    let running = Message { state: MessageState::Running, ..first.clone() };
    commit(store, vec![Write::SaveMessage(Box::new(running))]).await;
    assert_eq!(found(&first).await, [1, 2]);
    let answered = Message { state: MessageState::Answered, sealed_text: None, ..first.clone() };
    commit(store, vec![Write::SaveMessage(Box::new(answered))]).await;
    assert_eq!((found(&first).await, found(&second).await), (vec![], vec![1]));
    let dead = Message { state: MessageState::Dead, updated_at: 10, ..second.clone() };
    commit(store, vec![Write::SaveMessage(Box::new(dead))]).await;
    assert_eq!(found(&second).await, [1]);
    prune(store, 50, 10).await;
    assert_eq!(found(&second).await, Vec::<u32>::new());
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}
