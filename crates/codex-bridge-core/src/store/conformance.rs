//! What every store must do, as stories that run on any store.
//!
//! [`store_stories!`](crate::store_stories) makes a test of each story. A story gets an empty store.

// Only tests run this.
#![allow(clippy::unwrap_used, clippy::panic)]

mod counts;
mod deliveries;
mod messages;
pub mod samples;

pub use counts::*;
pub use deliveries::*;
pub use messages::*;

use codex_session::ask::ShownChange;
use futures_util::future::{join, join_all};

use self::samples::{add, append, full_task, new_task, request, task_id, turn};
use super::{AuditFilter, AuditLine, Error, Prune, RequestFilter, Store, TaskFilter, Write};
use crate::event::{Diff, Event, Line, NewEvent, Seq, Steered};
use crate::request::{RequestState, WholeChanges};
use crate::task::{Status, Task, TimeMs, TurnProgress};
use crate::token::{Role, Used};
use codex_wire::RequestId;

/// Makes a test of each story. The expression gives a store, and something to keep until the story ends.
#[macro_export]
macro_rules! store_stories {
    ($open:expr) => {
        $crate::store_stories! { $open;
            what_is_written_is_read_back
            a_save_replaces_all_and_clears_what_is_gone
            a_batch_is_all_or_nothing
            an_empty_batch_changes_nothing
            the_same_client_request_starts_one_task
            an_unknown_task_is_refused
            tasks_are_found_by_their_status
            numbers_begin_at_one_and_have_no_gaps
            a_refused_batch_takes_no_number_and_harms_no_other
            events_are_read_by_cursor
            diffs_and_added_words_are_found_by_their_kind
            tasks_are_listed_by_page_and_filter
            tasks_are_found_by_place_activity_and_text
            requests_are_found_by_task_name_and_state
            a_request_key_belongs_to_one_request
            a_reader_never_sees_half_a_batch
            whole_changes_stand_beside_their_request
            a_prune_forgets_what_is_over_and_nothing_else
            a_prune_keeps_the_newest_events_and_their_numbers
            the_audit_log_is_found_by_task_and_time_and_outlives_its_tasks
            tokens_are_kept_by_name_and_told_apart_by_hash
            what_a_token_has_used_is_counted_until_its_tasks_are_forgotten
            messages_are_kept_once_and_found
            messages_are_done_with_once_their_replies_are
            the_next_messages_are_the_first_of_each_conversation
            conversations_and_channels_are_kept_by_name
            a_prune_forgets_conversations_long_after_their_tasks
            a_prune_forgets_messages_that_are_over
            the_files_of_a_message_are_kept_for_as_long_as_its_text
            deliveries_are_found_by_name_task_and_state
            what_has_the_same_key_joins_until_it_is_tried
            of_each_target_one_delivery_is_next
            replies_to_a_target_keep_their_order
            a_task_with_something_to_send_is_not_forgotten
            what_is_there_is_counted
        }
    };
    ($open:expr; $($story:ident)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $story() {
                let (store, _kept) = $open;
                $crate::store::conformance::$story(&store).await;
            }
        )+
    };
}

async fn commit(store: &dyn Store, batch: Vec<Write>) -> Vec<Event> {
    store.commit(batch).await.unwrap()
}

/// Prunes. Returns how many tasks were deleted.
async fn prune(store: &dyn Store, ended_before: TimeMs, events_per_task: u32) -> u64 {
    store.prune(Prune { ended_before, events_per_task }).await.unwrap()
}

async fn refused(store: &dyn Store, batch: Vec<Write>) -> Error {
    store.commit(batch).await.unwrap_err()
}

async fn seqs(store: &dyn Store, task: u32) -> Vec<Seq> {
    let events = store.events(&task_id(task), 0, u32::MAX).await.unwrap();
    events.iter().map(|event| event.seq).collect()
}

async fn listed(store: &dyn Store, filter: TaskFilter) -> Vec<String> {
    store.tasks(&filter).await.unwrap().into_iter().map(|task| task.id.0).collect()
}

async fn found(store: &dyn Store, filter: RequestFilter) -> Vec<String> {
    store.requests(&filter).await.unwrap().into_iter().map(|request| request.request_id.0).collect()
}

fn ids(numbers: &[u32]) -> Vec<String> {
    numbers.iter().map(|number| task_id(*number).0).collect()
}

fn save_request(task: u32, id: i64, state: RequestState) -> Write {
    Write::SaveRequest(Box::new(request(task, RequestId::Number(id), state)))
}

fn whole_changes(task: u32, request_id: &str) -> Write {
    let diff = "+x\n".repeat(100_000);
    let changes = vec![ShownChange { path: "a".into(), diff, ..ShownChange::default() }];
    let (request_id, task_id) = (request_id.into(), task_id(task));
    Write::SaveWholeChanges(Box::new(WholeChanges { request_id, task_id, changes }))
}

/// Lines of some kinds are found without reading the whole log.
pub async fn diffs_and_added_words_are_found_by_their_kind(store: &impl Store) {
    store.commit(vec![add(new_task(1)), add(new_task(2))]).await.unwrap();
    let id = task_id(1);
    assert_eq!(store.last_diff(&id).await.unwrap(), None);
    let (text, by, item_id) = (Some("be brief".into()), None, None);
    let steered = Steered { item_id, client_id: "msg-1".into(), by, text, text_cut_bytes: None };
    let lines: Vec<Line> =
        vec![Diff { diff: "one".into() }.into(), steered.into(), Diff { diff: "two".into() }.into()];
    let events = lines.into_iter().map(|line| NewEvent { at: 1, line }).collect();
    let batch = vec![Write::Append { task_id: id.clone(), events }, append(1, 1..=3)];
    store.commit(batch).await.unwrap();
    let last = store.last_diff(&id).await.unwrap().unwrap();
    assert_eq!((last.seq, last.line), (3, Diff { diff: "two".into() }.into()));
    assert!(store.was_steered(&id, "msg-1").await.unwrap());
    assert!(!store.was_steered(&id, "msg-2").await.unwrap());
    assert!(!store.was_steered(&task_id(2), "msg-1").await.unwrap());
    assert_eq!(store.last_diff(&task_id(2)).await.unwrap(), None);
}

/// Complete changes are stored apart from their request, which may come later or never.
pub async fn whole_changes_stand_beside_their_request(store: &impl Store) {
    let write = whole_changes(1, "request-0");
    assert!(matches!(refused(store, vec![write.clone()]).await, Error::Other(_)), "there is no such task");
    commit(store, vec![add(new_task(1)), write.clone()]).await;
    let Write::SaveWholeChanges(whole) = &write else { panic!("{write:?}") };
    assert_eq!(store.whole_changes(&"request-0".into()).await.unwrap().as_ref(), Some(&**whole));
    assert_eq!(store.whole_changes(&"request-1".into()).await.unwrap(), None);
    let changed = WholeChanges { changes: Vec::new(), ..(**whole).clone() };
    commit(store, vec![Write::SaveWholeChanges(Box::new(changed.clone()))]).await;
    assert_eq!(store.whole_changes(&"request-0".into()).await.unwrap(), Some(changed));
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

/// Every field of every record is stored.
pub async fn what_is_written_is_read_back(store: &impl Store) {
    let text_id = request(1, RequestId::Text("0".into()), RequestState::AnsweredElsewhere);
    let number_id = request(1, RequestId::Number(0), RequestState::Open);
    let committed = commit(
        store,
        vec![
            add(full_task(1)),
            add(new_task(2)),
            Write::SaveTurn(Box::new(turn(1, 1))),
            Write::SaveTurn(Box::new(turn(1, 2))),
            Write::SaveTurn(Box::new(turn(2, 1))),
            Write::SaveRequest(Box::new(text_id.clone())),
            Write::SaveRequest(Box::new(number_id.clone())),
            append(1, 1..=3),
            Write::Audit(AuditLine {
                at: 1,
                actor: "someone".into(),
                action: "start".into(),
                task_id: Some(task_id(1)),
                detail: "x".into(),
            }),
        ],
    )
    .await;
    assert_eq!(store.task(&task_id(1)).await.unwrap(), Some(full_task(1)));
    assert_eq!(store.task(&task_id(2)).await.unwrap(), Some(new_task(2)));
    assert_eq!(store.task(&task_id(3)).await.unwrap(), None);
    assert_eq!(store.turns(&task_id(1)).await.unwrap(), [turn(1, 1), turn(1, 2)]);
    let (seen, open) = store.task_with_open(&task_id(1)).await.unwrap().unwrap();
    assert_eq!((seen, open), (full_task(1), vec![number_id.clone()]));
    assert_eq!(store.task_with_open(&task_id(9)).await.unwrap(), None);
    let requests = store.requests(&RequestFilter::default()).await.unwrap();
    assert_eq!(requests, [text_id, number_id], "0 and \"0\" are two ids");
    let events = store.events(&task_id(1), 0, 10).await.unwrap();
    assert_eq!(committed, events, "what is told is what is kept");
    let expected: Vec<_> = (1..=3).map(|number| samples::line(number).line).collect();
    assert_eq!(events.into_iter().map(|event| event.line).collect::<Vec<_>>(), expected);
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

/// A field that becomes NULL is erased, above all sealed ones.
pub async fn a_save_replaces_all_and_clears_what_is_gone(store: &impl Store) {
    let open = request(1, RequestId::Number(0), RequestState::Open);
    let first = vec![
        add(full_task(1)),
        Write::SaveTurn(Box::new(turn(1, 1))),
        Write::SaveRequest(Box::new(open.clone())),
    ];
    commit(store, first).await;
    let mut ended = turn(1, 1);
    ended.sealed_prompt = None;
    ended.turn_id = None;
    ended.progress = TurnProgress::Ended;
    let mut closed = open;
    closed.sealed_decision = None;
    closed.expires_at = None;
    closed.state = RequestState::Resolved;
    let second = vec![
        Write::SaveTask(Box::new(new_task(1))),
        Write::SaveTurn(Box::new(ended.clone())),
        Write::SaveRequest(Box::new(closed.clone())),
    ];
    commit(store, second).await;
    assert_eq!(store.task(&task_id(1)).await.unwrap(), Some(new_task(1)));
    assert_eq!(store.turns(&task_id(1)).await.unwrap(), [ended]);
    assert_eq!(store.requests(&RequestFilter::default()).await.unwrap(), [closed]);
}

/// If the last change of a batch is refused, no change of it is stored.
pub async fn a_batch_is_all_or_nothing(store: &impl Store) {
    commit(store, vec![add(new_task(1))]).await;
    let mut changed = new_task(1);
    changed.status = Status::Working;
    let batch = vec![
        Write::SaveTask(Box::new(changed)),
        add(new_task(2)),
        append(1, 1..=2),
        append(2, 1..=2),
        append(9, 1..=1),
    ];
    refused(store, batch).await;
    assert_eq!(store.task(&task_id(1)).await.unwrap(), Some(new_task(1)));
    assert_eq!(listed(store, TaskFilter::default()).await, ids(&[1]));
    assert_eq!(seqs(store, 1).await, [0; 0]);
    commit(store, vec![add(new_task(2)), append(2, 1..=1)]).await;
    assert_eq!(seqs(store, 2).await, [1]);
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

/// A batch without changes, and an append without lines, have no effect.
pub async fn an_empty_batch_changes_nothing(store: &impl Store) {
    assert_eq!(commit(store, Vec::new()).await, []);
    commit(store, vec![add(new_task(1))]).await;
    assert_eq!(commit(store, vec![append(1, [])]).await, []);
    assert_eq!(commit(store, vec![append(1, [1])]).await[0].seq, 1);
}

/// Also when both come at once, and also when the second task has another id.
pub async fn the_same_client_request_starts_one_task(store: &impl Store) {
    let attempt = |number| {
        let task = crate::task::Task { client_request_id: Some("same".into()), ..new_task(number) };
        store.commit(vec![add(task), append(number, [1])])
    };
    let outcomes = join_all((1..=10).map(attempt)).await;
    let started = listed(store, TaskFilter::default()).await;
    assert_eq!(started.len(), 1, "{started:?}");
    let refusals: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
    assert_eq!(refusals.len(), 9);
    for refusal in refusals {
        assert_eq!(refusal, Error::Duplicate(crate::task::TaskId(started[0].clone())));
    }
    let found =
        listed(store, TaskFilter { client_request_id: Some("same".into()), ..TaskFilter::default() }).await;
    assert_eq!(found, started);
    // A task without a `client_request_id` is never a duplicate; a second one with the same id is an error.
    commit(store, vec![add(new_task(20)), add(new_task(21))]).await;
    assert!(matches!(refused(store, vec![add(new_task(20))]).await, Error::Other(_)));
}

/// Only `AddTask` creates a task.
pub async fn an_unknown_task_is_refused(store: &impl Store) {
    for write in [
        Write::SaveTask(Box::new(new_task(1))),
        Write::SaveTurn(Box::new(turn(1, 1))),
        save_request(1, 0, RequestState::Open),
        append(1, [1]),
        append(1, []),
    ] {
        let error = refused(store, vec![write.clone()]).await;
        assert!(matches!(error, Error::Other(_)), "{write:?} gave {error:?}");
    }
    assert_eq!(store.tasks(&TaskFilter::default()).await.unwrap(), []);
    assert_eq!(store.turns(&task_id(1)).await.unwrap(), []);
    assert_eq!(store.events(&task_id(1), 0, 10).await.unwrap(), []);
    assert_eq!(store.last_events(&task_id(1), 10).await.unwrap(), []);
    assert_eq!(store.requests(&RequestFilter::default()).await.unwrap(), []);
}

/// Each status is stored.
pub async fn tasks_are_found_by_their_status(store: &impl Store) {
    commit(store, vec![add(new_task(1))]).await;
    for status in Status::ALL {
        commit(store, vec![Write::SaveTask(Box::new(crate::task::Task { status, ..new_task(1) }))]).await;
        let filter = TaskFilter { statuses: vec![status], ..TaskFilter::default() };
        assert_eq!(listed(store, filter).await, ids(&[1]), "{status}");
    }
}

/// Numbers are per task, in the order of the batch, however many callers write at once.
pub async fn numbers_begin_at_one_and_have_no_gaps(store: &impl Store) {
    commit(store, (1..=5).map(|number| add(new_task(number))).collect()).await;
    let writers = (1..=5).map(|task| async move {
        let mut last = 0;
        for round in 0..20 {
            let batch = vec![append(task, [round, round]), append(task % 5 + 1, []), append(task, [round])];
            let events = commit(store, batch).await;
            let expected: Vec<_> = (last + 1..=last + 3).collect();
            assert_eq!(events.iter().map(|event| event.seq).collect::<Vec<_>>(), expected);
            last += 3;
        }
    });
    join_all(writers).await;
    for task in 1..=5 {
        assert_eq!(seqs(store, task).await, (1..=60).collect::<Vec<_>>());
    }
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

/// Batches that come together may share a transaction, but each succeeds or fails by itself.
pub async fn a_refused_batch_takes_no_number_and_harms_no_other(store: &impl Store) {
    commit(store, vec![add(new_task(1)), add(new_task(2))]).await;
    let good = join_all((0..40).map(|number| store.commit(vec![append(1, [number]), append(2, [number])])));
    let bad = join_all((0..40).map(|number| store.commit(vec![append(1, [number]), append(9, [number])])));
    let (good, bad) = join(good, bad).await;
    assert!(good.iter().all(Result::is_ok), "{good:?}");
    assert!(bad.iter().all(Result::is_err), "{bad:?}");
    assert_eq!(seqs(store, 1).await, (1..=40).collect::<Vec<_>>());
    assert_eq!(seqs(store, 2).await, (1..=40).collect::<Vec<_>>());
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

/// After a number, or the last ones; only those of the task.
pub async fn events_are_read_by_cursor(store: &impl Store) {
    commit(store, vec![add(new_task(1)), add(new_task(2)), append(1, 1..=10), append(2, 1..=3)]).await;
    let id = task_id(1);
    let numbers = |events: Vec<crate::event::Event>| events.iter().map(|event| event.seq).collect::<Vec<_>>();
    assert_eq!(numbers(store.events(&id, 0, 4).await.unwrap()), [1, 2, 3, 4]);
    assert_eq!(numbers(store.events(&id, 4, 4).await.unwrap()), [5, 6, 7, 8]);
    assert_eq!(numbers(store.events(&id, 8, 4).await.unwrap()), [9, 10]);
    assert_eq!(numbers(store.events(&id, 10, 4).await.unwrap()), [0; 0]);
    assert_eq!(numbers(store.events(&id, 0, 0).await.unwrap()), [0; 0]);
    assert_eq!(numbers(store.last_events(&id, 3).await.unwrap()), [8, 9, 10]);
    assert_eq!(numbers(store.last_events(&task_id(2), 100).await.unwrap()), [1, 2, 3]);
    assert_eq!(store.last_events(&task_id(2), 1).await.unwrap()[0].task_id, Some(task_id(2)));
}

/// The newest first, by creation and not by name or time.
pub async fn tasks_are_listed_by_page_and_filter(store: &impl Store) {
    // Neither ids nor times are in the order of creation.
    for number in [5, 3, 0xa1, 0xa2, 1] {
        commit(store, vec![add(new_task(number))]).await;
    }
    let mut done = new_task(3);
    done.status = Status::Completed;
    commit(store, vec![Write::SaveTask(Box::new(done))]).await;
    let all = TaskFilter::default();
    assert_eq!(listed(store, all.clone()).await, ids(&[1, 0xa2, 0xa1, 3, 5]));
    let page =
        |before: Option<u32>| TaskFilter { before: before.map(task_id), limit: Some(2), ..all.clone() };
    assert_eq!(listed(store, page(None)).await, ids(&[1, 0xa2]));
    assert_eq!(listed(store, page(Some(0xa2))).await, ids(&[0xa1, 3]));
    assert_eq!(listed(store, page(Some(3))).await, ids(&[5]));
    assert_eq!(listed(store, page(Some(99))).await, [""; 0], "nothing comes before what is not there");
    let statuses = |statuses: &[Status]| TaskFilter { statuses: statuses.to_vec(), ..all.clone() };
    assert_eq!(listed(store, statuses(&[Status::Completed])).await, ids(&[3]));
    assert_eq!(listed(store, statuses(&[Status::Completed, Status::Queued])).await.len(), 5);
    assert_eq!(listed(store, statuses(&[Status::Failed])).await, [""; 0]);
    let prefix = |prefix: &str| TaskFilter { id_prefix: Some(prefix.into()), ..all.clone() };
    assert_eq!(listed(store, prefix("codex-0000000000a")).await, ids(&[0xa2, 0xa1]));
    assert_eq!(listed(store, prefix("codex-0000000000a1")).await, ids(&[0xa1]));
    assert_eq!(listed(store, prefix("")).await.len(), 5);
    for odd in ["codex-%", "codex_0", "CODEX-", "'", "codex-0000000000a10", "\u{10ffff}"] {
        assert_eq!(listed(store, prefix(odd)).await, [""; 0], "{odd}");
    }
    let both = TaskFilter { limit: Some(1), ..prefix("codex-0") };
    assert_eq!(listed(store, TaskFilter { statuses: vec![Status::Queued], ..both }).await, ids(&[1]));
    let of_thread = |id: &str| TaskFilter { thread_id: Some(id.into()), ..all.clone() };
    let opened =
        crate::task::Task { thread_id: Some(codex_wire::ThreadId("thread-9".into())), ..new_task(1) };
    commit(store, vec![Write::SaveTask(Box::new(opened))]).await;
    assert_eq!(listed(store, of_thread("thread-9")).await, ids(&[1]));
    assert_eq!(listed(store, of_thread("thread")).await, [""; 0], "the whole id or nothing");
}

/// What people search for in a list.
pub async fn tasks_are_found_by_place_activity_and_text(store: &impl Store) {
    let with = |number, cwd: &str, change: &dyn Fn(&mut crate::task::Task)| {
        let mut task = new_task(number);
        task.settings.cwd = cwd.into();
        change(&mut task);
        add(task)
    };
    let batch = vec![
        with(1, "/srv/a", &|task| (task.status, task.updated_at) = (Status::Completed, 1000)),
        with(2, "/srv/a/b", &|task| (task.status, task.updated_at) = (Status::Working, 1000)),
        with(3, "/srv/ab", &|task| (task.status, task.updated_at) = (Status::Lost, 2000)),
        with(4, "/srv/100%_'x", &|task| task.prompt_summary = "fix 100% of 'Ähm' BUGS".into()),
        with(5, "/", &|task| task.final_text = Some("All bugs\nare fixed".into())),
    ];
    commit(store, batch).await;
    let below = |cwd: &str| TaskFilter { cwd: Some(cwd.into()), ..TaskFilter::default() };
    assert_eq!(listed(store, below("/srv/a")).await, ids(&[2, 1]));
    assert_eq!(listed(store, below("/srv/a/")).await, ids(&[2, 1]));
    assert_eq!(listed(store, below("/srv/100%_'x")).await, ids(&[4]));
    assert_eq!(listed(store, below("/srv/%")).await, [""; 0]);
    assert_eq!(listed(store, below("/")).await.len(), 5);
    let since = |since| TaskFilter { active_since: Some(since), ..below("/srv") };
    assert_eq!(listed(store, since(1001)).await, ids(&[4, 3, 2]));
    assert_eq!(listed(store, since(1000)).await, ids(&[4, 3, 2, 1]));
    let told = |text: &str| TaskFilter { text: Some(text.into()), ..TaskFilter::default() };
    assert_eq!(listed(store, told("bUgS")).await, ids(&[5, 4]));
    assert_eq!(listed(store, told("'Ähm'")).await, ids(&[4]));
    assert_eq!(listed(store, told("CODEX-000000000003")).await, ids(&[3]));
    assert_eq!(listed(store, told("%")).await, ids(&[4]));
    assert_eq!(listed(store, told("bugs nobody has")).await, [""; 0]);
}

/// The oldest first.
pub async fn requests_are_found_by_task_name_and_state(store: &impl Store) {
    let batch = vec![
        add(new_task(1)),
        add(new_task(2)),
        save_request(2, 9, RequestState::Open),
        save_request(1, 5, RequestState::Decided),
        save_request(1, 4, RequestState::Resolved),
    ];
    commit(store, batch).await;
    // A changed request keeps its place.
    commit(store, vec![save_request(2, 9, RequestState::Expired)]).await;
    let all = RequestFilter::default();
    assert_eq!(found(store, all.clone()).await, ["request-9", "request-5", "request-4"]);
    let of_one = RequestFilter { task_id: Some(task_id(1)), ..all.clone() };
    assert_eq!(found(store, of_one.clone()).await, ["request-5", "request-4"]);
    let decided = RequestFilter { states: vec![RequestState::Open, RequestState::Decided], ..of_one };
    assert_eq!(found(store, decided).await, ["request-5"]);
    let named = |name: &str| RequestFilter { request_id: Some(name.into()), ..all.clone() };
    assert_eq!(found(store, named("request-9")).await, ["request-9"]);
    assert_eq!(found(store, named("request-")).await, [""; 0]);
    let begins = |prefix: &str| RequestFilter { id_prefix: Some(prefix.into()), ..all.clone() };
    assert_eq!(found(store, begins("request-")).await, ["request-9", "request-5", "request-4"]);
    assert_eq!(found(store, begins("request-5")).await, ["request-5"]);
    let of_another = RequestFilter { task_id: Some(task_id(2)), ..begins("request-5") };
    assert_eq!(found(store, of_another).await, [""; 0], "a beginning reaches no other task");
    let first = RequestFilter { limit: Some(2), ..begins("r") };
    assert_eq!(found(store, first).await, ["request-9", "request-5"]);
    let long = "request-".repeat(10_000);
    for odd in
        ["", "%", "request-%", "request_", "REQUEST-", "Request-5", "'", "request-50", "\u{10ffff}", &long]
    {
        assert_eq!(found(store, begins(odd)).await, [""; 0], "{odd:.20}");
    }
    let keyed = |id| RequestFilter { key: Some(request(1, id, RequestState::Open).key), ..all.clone() };
    assert_eq!(found(store, keyed(RequestId::Number(5))).await, ["request-5"]);
    assert_eq!(found(store, keyed(RequestId::Text("5".into()))).await, [""; 0]);
    for state in [RequestState::Open, RequestState::Orphaned, RequestState::AnsweredElsewhere] {
        commit(store, vec![save_request(1, 4, state)]).await;
        let filter = RequestFilter { states: vec![state], ..all.clone() };
        assert_eq!(found(store, filter).await, ["request-4"], "{state:?}");
    }
}

/// So a decision cannot reach another request than the one it was made for.
pub async fn a_request_key_belongs_to_one_request(store: &impl Store) {
    commit(store, vec![add(new_task(1)), save_request(1, 0, RequestState::Open)]).await;
    let mut other = request(1, RequestId::Number(0), RequestState::Open);
    other.request_id = "another".into();
    assert!(matches!(refused(store, vec![Write::SaveRequest(Box::new(other))]).await, Error::Other(_)));
    assert_eq!(found(store, RequestFilter::default()).await, ["request-0"]);
}

/// Two tasks always change together, so readers always see them alike.
pub async fn a_reader_never_sees_half_a_batch(store: &impl Store) {
    commit(store, vec![add(new_task(1)), add(new_task(2))]).await;
    let save = |number, turns| {
        let mut task = new_task(number);
        task.used.turns = turns;
        Write::SaveTask(Box::new(task))
    };
    let write = async {
        for turns in 1..=200 {
            commit(store, vec![save(1, turns), append(1, [turns, turns]), save(2, turns)]).await;
        }
    };
    let read = async {
        let mut latest = 0;
        while latest < 200 {
            let tasks = store.tasks(&TaskFilter::default()).await.unwrap();
            assert_eq!(tasks[0].used, tasks[1].used);
            latest = tasks[0].used.turns;
            let events = store.events(&task_id(1), 0, u32::MAX).await.unwrap();
            assert_eq!(events.len() % 2, 0);
            assert!(events.len() >= 2 * latest as usize, "an acknowledged event is seen by every later read");
        }
    };
    join(write, read).await;
}

/// Finished long ago, with no open request and not parked.
pub async fn a_prune_forgets_what_is_over_and_nothing_else(store: &impl Store) {
    let with = |number, change: &dyn Fn(&mut crate::task::Task)| {
        let mut task = full_task(number);
        (task.parked, task.status) = (None, Status::Completed);
        (task.updated_at, task.completed_at) = (1000, Some(900));
        change(&mut task);
        add(task)
    };
    let batch = vec![
        with(1, &|_| {}),
        with(2, &|task| task.status = Status::Working),
        with(3, &|task| task.status = Status::Queued),
        with(4, &|task| task.updated_at = 2000),
        with(5, &|task| task.completed_at = Some(2000)),
        with(6, &|_| {}),
        with(7, &|_| {}),
        with(8, &|task| (task.status, task.completed_at) = (Status::Lost, None)),
        with(9, &|task| (task.status, task.parked) = (Status::Paused, full_task(9).parked)),
        with(10, &|_| {}),
        save_request(6, 6, RequestState::Open),
        save_request(7, 7, RequestState::Decided),
        save_request(1, 1, RequestState::Resolved),
        whole_changes(1, "request-1"),
        whole_changes(6, "request-6"),
        Write::SaveTurn(Box::new(turn(1, 1))),
        Write::SaveTurn(Box::new(turn(2, 1))),
        append(1, 1..=700),
        append(2, 1..=3),
    ];
    commit(store, batch).await;
    assert_eq!(prune(store, 1001, 10_000).await, 3);
    assert_eq!(listed(store, TaskFilter::default()).await, ids(&[9, 7, 6, 5, 4, 3, 2]));
    assert_eq!(seqs(store, 1).await, [0; 0]);
    assert_eq!(seqs(store, 2).await, [1, 2, 3]);
    assert_eq!(store.turns(&task_id(1)).await.unwrap(), []);
    assert_eq!(store.turns(&task_id(2)).await.unwrap(), [turn(2, 1)]);
    assert_eq!(found(store, RequestFilter::default()).await, ["request-6", "request-7"]);
    assert_eq!(store.whole_changes(&"request-1".into()).await.unwrap(), None);
    assert!(store.whole_changes(&"request-6".into()).await.unwrap().is_some());
    assert_eq!(prune(store, 1001, 10_000).await, 0);
    // A deleted id can be used again.
    commit(store, vec![add(full_task(1)), append(1, [1])]).await;
    assert_eq!(seqs(store, 1).await, [1]);
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

/// A log that was shortened continues its numbers.
pub async fn a_prune_keeps_the_newest_events_and_their_numbers(store: &impl Store) {
    let working = |number| add(crate::task::Task { status: Status::Working, ..new_task(number) });
    let batch =
        vec![working(1), working(2), working(3), append(1, 1..=1000), append(2, 1..=5), append(3, 1..=6)];
    commit(store, batch).await;
    assert_eq!(prune(store, 0, 5).await, 0);
    assert_eq!(seqs(store, 1).await, (996..=1000).collect::<Vec<_>>());
    assert_eq!(seqs(store, 2).await, (1..=5).collect::<Vec<_>>());
    assert_eq!(seqs(store, 3).await, (2..=6).collect::<Vec<_>>());
    assert_eq!(commit(store, vec![append(1, [1])]).await[0].seq, 1001);
    prune(store, 0, 0).await;
    assert_eq!(seqs(store, 1).await, [0; 0]);
    assert_eq!(commit(store, vec![append(1, [1])]).await[0].seq, 1002);
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

/// A change replaces all fields. Pruning deletes no token. Two tokens cannot share a secret.
pub async fn tokens_are_kept_by_name_and_told_apart_by_hash(store: &impl Store) {
    let (first, second) = (samples::token("phone", 1), samples::token("ci", 2));
    let save = |token: &crate::token::Token| Write::SaveToken(Box::new(token.clone()));
    commit(store, vec![save(&first), save(&second)]).await;
    assert_eq!(store.tokens().await.unwrap(), [second.clone(), first.clone()], "by name");
    let changed = crate::token::Token {
        role: Role::Viewer,
        last_used_at: None,
        revoked_at: None,
        hash: vec![3; 32],
        ..first
    };
    commit(store, vec![save(&changed)]).await;
    prune(store, i64::MAX, 0).await;
    assert_eq!(store.tokens().await.unwrap(), [second.clone(), changed]);
    let same_secret = crate::token::Token { name: "other".into(), ..second };
    assert!(matches!(refused(store, vec![save(&same_secret)]).await, Error::Other(_)));
    assert_eq!(store.tokens().await.unwrap().len(), 2);
}

/// Open are the token's unfinished tasks. Handed-over bytes count as long as their tasks are stored.
pub async fn what_a_token_has_used_is_counted_until_its_tasks_are_forgotten(store: &impl Store) {
    let by = |number, token: Option<&str>, status| Task {
        token: token.map(str::to_owned),
        status,
        ..new_task(number)
    };
    let hand =
        |task, token: &str, bytes| Write::HandOver { task_id: task_id(task), token: token.into(), bytes };
    let parked = Task { parked: samples::full_task(5).parked, ..by(5, Some("ci"), Status::Paused) };
    let tasks = [
        by(1, Some("ci"), Status::Queued),
        by(2, Some("ci"), Status::Completed),
        by(3, Some("phone"), Status::Working),
        by(4, None, Status::Working),
        parked,
    ];
    commit(store, tasks.into_iter().map(add).collect()).await;
    commit(store, vec![hand(1, "ci", 10), hand(2, "ci", 5), hand(2, "ci", 6), hand(3, "phone", 100)]).await;
    commit(store, vec![hand(3, "ci", 1)]).await;
    let used = async |token: &str| store.used_by(token).await.unwrap();
    assert_eq!(used("ci").await, Used { open_tasks: 2, bytes: 22 }, "one waits, one goes on by itself");
    assert_eq!(used("phone").await, Used { open_tasks: 1, bytes: 100 });
    assert_eq!(used("nobody").await, Used::default());
    prune(store, i64::MAX, 0).await;
    assert_eq!(used("ci").await.bytes, 11, "the task that had ended is forgotten");
    assert!(matches!(refused(store, vec![hand(2, "ci", 1)]).await, Error::Other(_)), "it has no such task");
}

/// The audit log outlives its tasks.
pub async fn the_audit_log_is_found_by_task_and_time_and_outlives_its_tasks(store: &impl Store) {
    let line = |at, task: Option<u32>| {
        Write::Audit(AuditLine {
            at,
            actor: "someone".into(),
            action: "decide accept".into(),
            task_id: task.map(task_id),
            detail: format!("line {at}"),
        })
    };
    let ended = Task { status: Status::Completed, ..new_task(1) };
    commit(store, vec![add(ended), line(10, Some(1)), line(20, Some(2)), line(30, None), line(40, Some(1))])
        .await;
    prune(store, i64::MAX, 0).await;
    assert_eq!(store.task(&task_id(1)).await.unwrap(), None, "it is forgotten");
    let times = async |filter: AuditFilter| -> Vec<i64> {
        store.audit(&filter).await.unwrap().into_iter().map(|line| line.at).collect()
    };
    let all = AuditFilter::default();
    assert_eq!(times(all.clone()).await, [10, 20, 30, 40], "the oldest first");
    assert_eq!(times(AuditFilter { limit: Some(2), ..all.clone() }).await, [30, 40], "the newest of them");
    assert_eq!(times(AuditFilter { since: Some(20), ..all.clone() }).await, [20, 30, 40]);
    let of_one = AuditFilter { task_id_prefix: Some(task_id(1).0), ..all };
    assert_eq!(times(of_one.clone()).await, [10, 40]);
    let line = store.audit(&AuditFilter { limit: Some(1), ..of_one }).await.unwrap().remove(0);
    let told = (line.actor.as_str(), line.action.as_str(), line.task_id, line.detail.as_str());
    assert_eq!(told, ("someone", "decide accept", Some(task_id(1)), "line 40"));
}
