//! Records with a value in every field, so that a field that is not stored is noticed.

use codex_session::ask::{
    AskedBy, Choice, Detail, FieldKind, Kind, Offer, ShownChange, ShownChangeKind, ShownField, ShownOption,
    ShownQuestion,
};
use codex_session::{ApprovalMode, Ask, Escalations, RequestKey, Sandbox, TurnOutcome};
use codex_wire::escalation::Escalation;
use codex_wire::{Epoch, RequestId, ThreadId, TurnId};
use serde_json::json;

use crate::event::{Line, NewEvent, Other};
use crate::inbox::{
    About, Attached, AttachmentRecord, Conversation, Message, MessageId, MessageKind, MessageState, Party,
    Room,
};
use crate::outbox::{Content, Delivery, DeliveryId, Notice};
use crate::place::Place;
use crate::request::{DecisionWord, RequestName, RequestRecord, RequestState, StoredAsk};
use crate::store::Write;
use crate::task::{
    AuthorKind, Before, EscalationRule, Limits, Notification, NotificationStatus, Parked, Settings, Status,
    Task, TaskError, TaskId, Tokens, TurnProgress, TurnRecord, Usage, Used, Waived,
};
use crate::token::{Quota, Role, Token};
use crate::trust::Trust;

/// The id of the sample task with this number.
pub fn task_id(number: u32) -> TaskId {
    TaskId(format!("codex-{number:012x}"))
}

/// A new task, with only what it must have.
pub fn new_task(number: u32) -> Task {
    Task {
        id: task_id(number),
        client_request_id: None,
        status: Status::Queued,
        reason: None,
        prompt_summary: format!("prompt {number}"),
        settings: Settings::new("/srv/here"),
        parked: None,
        limits: Limits::default(),
        used: Used::default(),
        thread_id: None,
        turn_id: None,
        epoch: None,
        host: None,
        final_text: None,
        error: None,
        usage: None,
        notify_target: None,
        asks_in: None,
        token: None,
        notification: Notification::default(),
        created_at: 1_700_000_000_000 + i64::from(number),
        updated_at: 1_700_000_000_000 + i64::from(number),
        completed_at: None,
    }
}

/// A task with every field set.
pub fn full_task(number: u32) -> Task {
    Task {
        id: task_id(number),
        client_request_id: Some(format!("client-{number}")),
        status: Status::Paused,
        reason: Some("the account's limit is reached".into()),
        prompt_summary: "fix 'this' \"and\" that\nплюс 한글 \u{1f980} \u{0}end".into(),
        settings: Settings {
            cwd: "/srv/with space/ünï".into(),
            sandbox: Sandbox::WorkspaceWrite,
            approval_policy: ApprovalMode::OnRequest,
            model: Some("gpt-x".into()),
            effort: Some("high".into()),
            codex_home: Some("/home/someone/.codex".into()),
            developer_instructions: Some("be brief".into()),
            network: true,
            writable_roots: vec!["/srv/more".into()],
            trust: Trust::Instructions,
            place: Some(Place { device: 64_512, inode: 7 }),
            narrowed: Some("as asked".into()),
            trust_of_turn: Some(Trust::Trusted),
            turn_given_by: AuthorKind::Other,
            escalations: EscalationRule {
                of_profile: Some(Escalations::Decline),
                of_origin: Escalations::Ask,
            },
        },
        parked: Some(Parked::UsageLimit { resume_at: 1_700_000_500_000, is_known: true }),
        limits: Limits { turns: Some(3), work_ms: Some(600_000), tokens: Some(u64::MAX) },
        used: Used {
            turns: 2,
            work_ms: 12_345,
            host_losses: 1,
            limit_hits: 3,
            withheld: 1,
            waived: Waived::default(),
        },
        thread_id: Some(ThreadId("thread-1".into())),
        turn_id: Some(TurnId("turn-1".into())),
        epoch: Some(epoch()),
        host: Some("host-1".into()),
        final_text: Some("done; then some".repeat(1000)),
        error: Some(TaskError { kind: "usage_limit".into(), message: "try again later".into() }),
        usage: Some(Usage { last: count(1), total: count(1000), context_window: Some(272_000) }),
        notify_target: Some("local".into()),
        asks_in: Some("chat:a room, élan?on=all".into()),
        token: Some("phone".into()),
        notification: Notification {
            status: NotificationStatus::Failed,
            sent_at: Some(1_700_000_400_000),
            error: Some("nobody there".into()),
        },
        created_at: 1_700_000_000_000,
        updated_at: 1_700_000_300_000,
        completed_at: Some(1_700_000_200_000),
    }
}

fn count(factor: u64) -> Tokens {
    Tokens {
        total: 15 * factor,
        input: 2 * factor,
        cached_input: 3 * factor,
        output: 4 * factor,
        reasoning_output: 5 * factor,
    }
}

/// The epoch of the sample host.
pub fn epoch() -> Epoch {
    Epoch("boot-1:4711:99".into())
}

/// A turn with every field set.
pub fn turn(task: u32, number: u32) -> TurnRecord {
    TurnRecord {
        task_id: task_id(task),
        number,
        client_id: format!("client-{task}-{number}"),
        client_request_id: Some(format!("mine-{number}")),
        name_mark: Some("a1".into()),
        prompt_mark: Some("b2".into()),
        before: Some(Before { status: Status::Lost, reason: Some("its host died".into()), resumes: true }),
        progress: TurnProgress::Sending,
        sealed_prompt: Some(vec![0, 255, 1, 254, 0]),
        prompt_summary: format!("turn {number}"),
        images_of: Some("in-1".into()),
        turn_id: Some(TurnId(format!("turn-{task}-{number}"))),
        outcome: Some(TurnOutcome::Interrupted),
        final_text: Some("half of it".into()),
        error: Some(TaskError { kind: "model".into(), message: "cut off".into() }),
        created_at: 1_700_000_100_000,
        ended_at: Some(1_700_000_200_000),
    }
}

/// The content of a request with every field set.
fn asked() -> StoredAsk {
    let change = ShownChange {
        path: "/work/a b".into(),
        kind: ShownChangeKind::Update,
        moved_to: Some("/work/c".into()),
        diff: "--- /work/a b\n+++ /work/c\n@@ -1 +1 @@\n-1\n+2\n".into(),
        added_lines: Some(1),
        removed_lines: Some(1),
        cut_bytes: 7,
    };
    let options = vec![ShownOption { label: "Red".into(), description: "like blood".into() }];
    let question =
        ShownQuestion { id: "colour".into(), text: "Which?".into(), options, is_free: true, is_secret: true };
    let field = ShownField {
        name: "count".into(),
        title: Some("Count".into()),
        description: Some("How many".into()),
        kind: FieldKind::Integer,
        required: true,
        default: Some(json!(1)),
        choices: vec![Choice { value: "1".into(), label: Some("one".into()) }],
        minimum: Some(0.5),
        maximum: Some(9.0),
        min_length: Some(1),
        max_length: Some(2),
        format: Some("date".into()),
    };
    let ask = Ask {
        digest: "0123456789abcdef0123456789abcdef".into(),
        method: String::new(),
        kind: Kind::FileChange,
        title: "Let Codex change files?".into(),
        call_id: Some("call-1".into()),
        escalation: Some(Escalation::Asked),
        details: vec![Detail { label: "Directory".into(), text: "/work".into() }],
        cautions: 1,
        changes: vec![change],
        questions: vec![question],
        fields: vec![field],
        hidden_secrets: 2,
        asked_by: AskedBy::SubAgent { thread_id: "thread-9".into() },
        offers: vec![Offer::Accept, Offer::AcceptAlways { prefix: vec!["ls".into()] }, Offer::Decline],
        needs_reveal: true,
        offers_after_reveal: vec![Offer::Accept],
        unredacted: None,
    };
    StoredAsk { ask, trust: Some(Trust::Instructions), whole_changes_bytes: Some(100) }
}

/// A request with every field set.
pub fn request(task: u32, id: RequestId, state: RequestState) -> RequestRecord {
    let name = serde_json::to_string(&id).unwrap_or_default();
    RequestRecord {
        key: RequestKey { epoch: epoch(), id },
        task_id: task_id(task),
        request_id: RequestName(format!("request-{name}")),
        digest: "0123456789abcdef0123456789abcdef".into(),
        method: "item/commandExecution/requestApproval".into(),
        ask: asked(),
        state,
        sealed_ask: Some(vec![6; 100]),
        sealed_decision: Some(vec![7; 100]),
        decision: Some(DecisionWord::Accept),
        decided_by: Some("someone".into()),
        decided_at: Some(1_700_000_150_000),
        created_at: 1_700_000_140_000,
        expires_at: Some(1_700_000_190_000),
        closed_at: Some(1_700_000_160_000),
    }
}

/// A token with every field set.
pub fn token(name: &str, number: u8) -> Token {
    Token {
        name: name.to_owned(),
        role: Role::Operator,
        quota: Quota { open_tasks: 7, bytes: 1 << 40 },
        hash: vec![number; 32],
        created_at: 1_700_000_000_000 + i64::from(number),
        last_used_at: Some(1_700_000_100_000),
        revoked_at: Some(1_700_000_200_000),
    }
}

/// A delivery with every field set but its key.
pub fn delivery(task: u32, id: &str) -> Delivery {
    let test = Notice { at: 1_700_000_000_000, content: Content::Test };
    let mut delivery = Delivery::new(id.into(), "webhook:ci", test, 1_700_000_000_000);
    delivery.task_id = Some(task_id(task));
    delivery.attempts = 3;
    delivery.broken_off = 2;
    delivery.in_doubt = true;
    delivery.target_gone = true;
    delivery.last_error = Some("it answered 503".into());
    delivery.message_id = Some("om_1".into());
    delivery.taken_up_at = Some(1_700_000_400_000);
    delivery.updated_at = 1_700_000_500_000;
    delivery
}

/// A line with its number.
pub fn line(number: u32) -> NewEvent {
    let body =
        json!({"number": number, "text": format!("line {number} \u{1f980}"), "deep": {"list": [1, null]}});
    let body = body.as_object().cloned().unwrap_or_default();
    let line = Line::Other(Other { kind: "sample".into(), data: body });
    NewEvent { at: 1_700_000_000_000 + i64::from(number), line }
}

/// Lines for a task's log.
pub fn append(task: u32, numbers: impl IntoIterator<Item = u32>) -> Write {
    Write::Append { task_id: task_id(task), events: numbers.into_iter().map(line).collect() }
}

/// Adds a task.
pub fn add(task: Task) -> Write {
    Write::AddTask(Box::new(task))
}

/// A message with every field set, in this conversation.
pub fn message(number: u32, conversation: &str) -> Message {
    Message {
        id: MessageId(format!("in-{number:012x}")),
        channel: "chat".into(),
        external_id: format!("external-{number}"),
        conversation: conversation.into(),
        sender_id: "ada".into(),
        sender_name: "Ada \u{1f980}".into(),
        party: Party::Agent,
        hops: 3,
        room: Room::Shared,
        reply_to: "chat:room".into(),
        position: Some(i64::from(number)),
        summary: "please 'look'".into(),
        sealed_text: Some(vec![0, 1, 255]),
        kind: MessageKind::Prompt,
        about: Some(About::Reply("req-1".into())),
        edits: Some("external-0".into()),
        attached: Attached::Files,
        state: MessageState::Received,
        attempts: 2,
        next_at: 7,
        task_id: None,
        reply_id: Some(DeliveryId(format!("dlv-in-{number}"))),
        error: Some("it failed".into()),
        sent_at: 5,
        received_at: 1_000 + i64::from(number),
        acknowledged_at: None,
        updated_at: 9,
    }
}

/// A conversation with every field set.
pub fn conversation(key: &str) -> Conversation {
    Conversation {
        channel: "chat".into(),
        key: key.into(),
        task_id: None,
        workspace: Some("main".into()),
        model: Some("gpt-5".into()),
        effort: Some("high".into()),
        updated_at: 4,
    }
}

/// A file of a message.
pub fn attachment(message: u32, number: u32) -> AttachmentRecord {
    AttachmentRecord {
        message_id: MessageId(format!("in-{message:012x}")),
        number,
        sealed_about: vec![1, 0, 255],
        sealed_content: Some(vec![0, 1, u8::try_from(number).unwrap_or_default()]),
    }
}
