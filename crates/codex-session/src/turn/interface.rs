//! The inputs and effects of the turn machine.

use codex_wire::answer::Answer;
use codex_wire::call::{TurnStart, UserInput};
use codex_wire::event::Event;
use codex_wire::item::FileChange;
use codex_wire::peer::CallError;
use codex_wire::request::ServerRequest;
use codex_wire::thread::Turn as WireTurn;
use codex_wire::{Epoch, RequestId, ThreadId, TurnId};
use redact::Redactor;

use super::{Closing, Millis};
use crate::decision::{Decider, Decision, RequestKey};
use crate::inspection::Inspection;
use crate::policy::ApprovalPolicy;
use crate::result::TurnResult;

/// The parameters of a turn, fixed at its beginning.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The thread.
    pub thread_id: ThreadId,
    /// The epoch of the host that the thread is open on.
    pub epoch: Epoch,
    /// How the turn begins.
    pub begin: Begin,
    /// The limits.
    pub limits: Limits,
    /// Which requests are answered without asking.
    pub policy: ApprovalPolicy,
    /// Hides secrets before a long text is cut for the result.
    pub redactor: Redactor,
    /// Whether requests can be answered by a person or a program. If not, they are declined at once.
    pub someone_answers: bool,
}

/// How a turn begins.
#[derive(Debug, Clone)]
pub enum Begin {
    /// A prompt is sent.
    Prompt(Box<TurnStart>),
    /// A prompt that may have been sent before a restart: it is searched for, and sent if it is not found.
    PromptOnce {
        /// The prompt, with the `clientUserMessageId` to look for.
        start: Box<TurnStart>,
        /// Whether the host that may have got it still lives. Then the prompt may be in flight, and one search is not
        /// enough.
        host_lives: bool,
    },
    /// A running turn is joined.
    Attach(TurnId),
    /// The thread's history is summarised.
    Compact,
}

/// The limits of a turn. Only time in which Codex could work counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Milliseconds of work in all.
    pub work_ms: Option<Millis>,
    /// Milliseconds without any event of the turn.
    pub idle_ms: Option<Millis>,
    /// Milliseconds of silence after a tool result that deserve a warning.
    pub quiet_after_tool_ms: Option<Millis>,
}

/// An input of the machine.
#[derive(Debug)]
pub enum Input {
    /// A notification.
    Event {
        /// Its thread.
        thread_id: Option<ThreadId>,
        /// Its turn.
        turn_id: Option<TurnId>,
        /// What happened.
        event: Event,
    },
    /// A request of Codex.
    Request {
        /// The id that the answer must carry.
        id: RequestId,
        /// The request.
        request: Box<ServerRequest>,
    },
    /// The reply to a call that an effect asked for.
    Reply(Reply),
    /// The result of [`Effect::Inspect`].
    Inspected {
        /// The key of the request.
        key: RequestKey,
        /// The digest of the inspected request: another request may have the same key by now.
        digest: String,
        /// The result.
        inspection: Inspection,
    },
    /// A decision on a request. [`Turn::outcome_of`](super::Turn::outcome_of) tells whether it counts.
    Decide(Decide),
    /// The program's own answer to a request that is not for people.
    ProgramAnswered {
        /// The key of the request.
        key: RequestKey,
        /// The answer.
        answer: Answer,
    },
    /// A steer for the running turn.
    Steer {
        /// Identifies the outcome.
        token: u64,
        /// What to add.
        input: Vec<UserInput>,
        /// The `clientUserMessageId` that it is sent with.
        client_id: Option<String>,
    },
    /// Stop the turn.
    Interrupt,
    /// The thread has left its bounds, with this explanation: stop the turn.
    Breach(String),
    /// The connection ended.
    Lost(Loss),
    /// The thread is open on a new connection.
    Attached {
        /// The epoch of the host at the other end.
        epoch: Epoch,
    },
    /// Time has passed.
    Time,
}

/// A decision on a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Decide {
    /// The key of the request.
    pub key: RequestKey,
    /// The digest of the request that was shown.
    pub digest: String,
    /// The decision.
    pub decision: Decision,
    /// Who decides.
    pub by: Decider,
}

/// How a connection was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// The host lives and can be reached again.
    HostLives,
    /// The host has ended, with this explanation.
    HostGone(String),
    /// We closed it.
    ClosedByUs,
}

/// Replies to [`Outgoing`] calls.
#[derive(Debug)]
pub enum Reply {
    /// To [`Outgoing::Start`].
    Start(Result<TurnId, CallError>),
    /// To [`Outgoing::Compact`].
    Compact(Result<(), CallError>),
    /// To [`Outgoing::Steer`]: the turn that accepted it, if known.
    Steer {
        /// The steer.
        token: u64,
        /// The reply.
        result: Result<Option<TurnId>, CallError>,
    },
    /// To [`Outgoing::ListTurns`]: the newest first, with all their items.
    Turns(Result<Vec<WireTurn>, CallError>),
}

/// An effect to perform.
#[derive(Debug)]
pub enum Effect {
    /// Make a call.
    Call(Outgoing),
    /// Answer a request.
    Answer {
        /// The request; always of the current epoch.
        key: RequestKey,
        /// The answer.
        answer: Answer,
    },
    /// Find out what a request asks for. The result is always reported, within a few seconds.
    Inspect {
        /// The key of the request.
        key: RequestKey,
        /// The digest of the request.
        digest: String,
        /// The request.
        request: Box<ServerRequest>,
        /// The file change that it is about, if it is known.
        patch: Option<Box<FileChange>>,
    },
    /// Ask a person, or the approver.
    Ask {
        /// The key of the request.
        key: RequestKey,
        /// The request.
        request: Box<ServerRequest>,
        /// The file change that it is about, if it is known.
        patch: Option<Box<FileChange>>,
        /// The result of its inspection.
        inspection: Inspection,
    },
    /// Let the program answer a request that is not for people.
    AskProgram {
        /// The key of the request.
        key: RequestKey,
        /// The request.
        request: Box<ServerRequest>,
    },
    /// A request is closed.
    RequestClosed {
        /// The key of the request.
        key: RequestKey,
        /// How it was closed.
        closing: Closing,
    },
    /// The outcome of a steer.
    Steered {
        /// The steer.
        token: u64,
        /// The outcome.
        outcome: SteerOutcome,
    },
    /// Report this to listeners.
    Tell(Notice),
    /// Close a connection that delivers no events of the turn, if the host goes on without it. The end of the
    /// connection is then reported as usual.
    HangUp,
    /// Connect to the thread again.
    Reconnect,
    /// The turn cannot be stopped: let the host finish its other turns, then end it.
    DrainHost,
    /// The turn ended. Only refusals follow.
    End(Box<TurnResult>),
}

/// A call to make.
#[derive(Debug, Clone, PartialEq)]
pub enum Outgoing {
    /// `turn/start`.
    Start(Box<TurnStart>),
    /// `thread/compact/start`.
    Compact,
    /// `turn/steer`.
    Steer {
        /// Identifies the reply.
        token: u64,
        /// The turn that must be running.
        turn_id: TurnId,
        /// What to add.
        input: Vec<UserInput>,
        /// Our id of the message.
        client_id: Option<String>,
    },
    /// `turn/interrupt`; an empty id means the running turn. The reply is ignored: the end of the turn is the proof.
    Interrupt {
        /// Which turn, or "".
        turn_id: String,
    },
    /// `thread/backgroundTerminals/clean`. The reply is ignored.
    CleanTerminals,
    /// `thread/turns/list`.
    ListTurns,
}

/// A report for listeners.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// An event of this turn.
    Happened(Event),
    /// A problem.
    Warning(String),
}

/// The outcome of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecideOutcome {
    /// The decision is sent to Codex. Whether Codex took it is reported when the request is closed.
    Given,
    /// The request was decided before: by another person, a standing decision, or the time limit.
    AlreadyDecided,
    /// The request is not open: it is still being inspected, it is closed, it belongs to another epoch, or no turn
    /// runs.
    NotOpen,
    /// The key now belongs to a request with another digest.
    AnotherRequest,
}

/// The outcome of a steer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SteerOutcome {
    /// Codex accepted it.
    Accepted,
    /// No turn runs.
    NoActiveTurn,
    /// Another turn runs.
    WrongTurn,
    /// This kind of turn cannot be steered (a review, a compaction).
    NotSteerable,
    /// Codex refused it for another reason.
    Failed(String),
    /// It was sent or waits to be sent, and Codex has not confirmed that this turn has it. It may have arrived, so look at the
    /// thread before sending it again.
    Unconfirmed(String),
}

impl SteerOutcome {
    pub(crate) fn redacted(self, redactor: &Redactor) -> Self {
        match self {
            Self::Failed(message) => Self::Failed(redactor.redact(&message).into_owned()),
            Self::Unconfirmed(message) => Self::Unconfirmed(redactor.redact(&message).into_owned()),
            outcome => outcome,
        }
    }
}
