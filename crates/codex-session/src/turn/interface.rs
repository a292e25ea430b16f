//! What goes into the machine of a turn, and what comes out.

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

/// What a turn is to do. Fixed at its beginning.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The thread.
    pub thread_id: ThreadId,
    /// The start of the host that the thread lives on.
    pub epoch: Epoch,
    /// How the turn comes about.
    pub begin: Begin,
    /// When to stop it.
    pub limits: Limits,
    /// What is answered without asking.
    pub policy: ApprovalPolicy,
    /// Hides secrets before a long text is cut for the result.
    pub redactor: Redactor,
    /// Whether there is anyone to ask. If not, what a person would be asked is declined at once.
    pub someone_answers: bool,
}

/// How a turn comes about.
#[derive(Debug, Clone)]
pub enum Begin {
    /// A prompt is sent.
    Prompt(Box<TurnStart>),
    /// A prompt that may have been sent before we died: looked for first, then sent if it is not there.
    PromptOnce {
        /// The prompt, with the `clientUserMessageId` to look for.
        start: Box<TurnStart>,
        /// Whether the host that may have got it still lives: then it may be on its way, and one look is too few.
        host_lives: bool,
    },
    /// A turn that already runs is taken up.
    Attach(TurnId),
    /// The thread's history is summarised.
    Compact,
}

/// When to stop a turn. Both count only time in which Codex could work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Milliseconds of work in all.
    pub work_ms: Option<Millis>,
    /// Milliseconds without any event of the turn.
    pub idle_ms: Option<Millis>,
    /// Milliseconds of silence after a tool result that deserve a warning.
    pub quiet_after_tool_ms: Option<Millis>,
}

/// What the machine is told.
#[derive(Debug)]
pub enum Input {
    /// A notification that reached our inbox.
    Event {
        /// Whose it is.
        thread_id: Option<ThreadId>,
        /// Which turn's.
        turn_id: Option<TurnId>,
        /// What happened.
        event: Event,
    },
    /// A request that reached our inbox.
    Request {
        /// The id that the answer must carry.
        id: RequestId,
        /// What is asked.
        request: Box<ServerRequest>,
    },
    /// The reply to a call that an effect asked for.
    Reply(Reply),
    /// What was found out about a request, as an effect asked for.
    Inspected {
        /// Which.
        key: RequestKey,
        /// Names what it asks: another request may have its name by now.
        digest: String,
        /// What was found out.
        inspection: Inspection,
    },
    /// Someone decides on a request. [`Turn::outcome_of`](super::Turn::outcome_of) says whether it counts.
    Decide(Decide),
    /// The program's own answer to a request that is not for people.
    ProgramAnswered {
        /// Which.
        key: RequestKey,
        /// What.
        answer: Answer,
    },
    /// Add this to the running turn.
    Steer {
        /// Names the outcome.
        token: u64,
        /// What to add.
        input: Vec<UserInput>,
        /// The `clientUserMessageId` that it is sent with.
        client_id: Option<String>,
    },
    /// Stop the turn.
    Interrupt,
    /// The thread has left its bounds, in these words: stop the turn.
    Breach(String),
    /// The connection ended.
    Lost(Loss),
    /// A new connection to the thread stands.
    Attached {
        /// The start of the host that it leads to.
        epoch: Epoch,
    },
    /// Time has passed.
    Time,
}

/// A decision on a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Decide {
    /// Which request.
    pub key: RequestKey,
    /// Names what it asks, as whoever decides was shown it.
    pub digest: String,
    /// What is decided.
    pub decision: Decision,
    /// Who decides.
    pub by: Decider,
}

/// How a connection was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// The host lives and can be reached again.
    HostLives,
    /// The host is gone, in these words.
    HostGone(String),
    /// This side closed it.
    ClosedByUs,
}

/// Replies to [`Outgoing`] calls.
#[derive(Debug)]
pub enum Reply {
    /// To [`Outgoing::Start`].
    Start(Result<TurnId, CallError>),
    /// To [`Outgoing::Compact`].
    Compact(Result<(), CallError>),
    /// To [`Outgoing::Steer`]: the turn that took it, if told.
    Steer {
        /// The steer.
        token: u64,
        /// What came of it.
        result: Result<Option<TurnId>, CallError>,
    },
    /// To [`Outgoing::ListTurns`]: the newest first, with all their items.
    Turns(Result<Vec<WireTurn>, CallError>),
}

/// What is to be done.
#[derive(Debug)]
pub enum Effect {
    /// Make a call.
    Call(Outgoing),
    /// Answer a request.
    Answer {
        /// Which; never of another epoch than the current one.
        key: RequestKey,
        /// How.
        answer: Answer,
    },
    /// Find out what a request asks for. That it could not be found out is told too, and before long.
    Inspect {
        /// Which request.
        key: RequestKey,
        /// Names what it asks.
        digest: String,
        /// What it is.
        request: Box<ServerRequest>,
        /// The file change that it is about, if it is known.
        patch: Option<Box<FileChange>>,
    },
    /// Ask whoever may answer.
    Ask {
        /// Which request.
        key: RequestKey,
        /// What it is.
        request: Box<ServerRequest>,
        /// The file change that it is about, if it is known.
        patch: Option<Box<FileChange>>,
        /// What was found out about it.
        inspection: Inspection,
    },
    /// Let the program answer a request that is not for people.
    AskProgram {
        /// Which request.
        key: RequestKey,
        /// What it is.
        request: Box<ServerRequest>,
    },
    /// A request needs no more asking.
    RequestClosed {
        /// Which.
        key: RequestKey,
        /// How it ended.
        closing: Closing,
    },
    /// What came of a steer.
    Steered {
        /// Which.
        token: u64,
        /// What.
        outcome: SteerOutcome,
    },
    /// Tell whoever listens.
    Tell(Notice),
    /// Leave a connection that brings nothing of the turn, if the host goes on without it. Its end is then told as
    /// any other.
    HangUp,
    /// Connect to the thread again.
    Reconnect,
    /// The turn cannot be stopped: let the host finish what else it does, then end it.
    DrainHost,
    /// The turn ended. Nothing but refusals follows.
    End(Box<TurnResult>),
}

/// Calls that the machine wants made.
#[derive(Debug, Clone, PartialEq)]
pub enum Outgoing {
    /// `turn/start`.
    Start(Box<TurnStart>),
    /// `thread/compact/start`.
    Compact,
    /// `turn/steer`.
    Steer {
        /// Names the reply.
        token: u64,
        /// The turn that must be running.
        turn_id: TurnId,
        /// What to add.
        input: Vec<UserInput>,
        /// Our own id of it.
        client_id: Option<String>,
    },
    /// `turn/interrupt`; an empty id means whatever runs. No reply is waited for: the turn's end is the proof.
    Interrupt {
        /// Which turn, or "".
        turn_id: String,
    },
    /// `thread/backgroundTerminals/clean`. No reply is waited for.
    CleanTerminals,
    /// `thread/turns/list`.
    ListTurns,
}

/// News for whoever listens.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// An event of this turn.
    Happened(Event),
    /// Something to worry about.
    Warning(String),
}

/// What came of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecideOutcome {
    /// Codex gets it. Whether Codex took it is told when the request is closed.
    Given,
    /// Something else was decided first: by somebody else, a standing decision, or the time limit.
    AlreadyDecided,
    /// The request is not open: nobody is asked yet, it is closed, another start of the host asked it, or no turn runs.
    NotOpen,
    /// The request that has this key now asks something else.
    AnotherRequest,
}

/// What came of a steer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SteerOutcome {
    /// Codex took it.
    Accepted,
    /// No turn runs.
    NoActiveTurn,
    /// Another turn runs.
    WrongTurn,
    /// This kind of turn takes none (a review, a compaction).
    NotSteerable,
    /// It failed otherwise.
    Failed(String),
}

impl SteerOutcome {
    /// It was sent, and nobody said what came of it.
    pub(crate) fn unknown(why: &str) -> Self {
        Self::Failed(format!("{why}; it is not known whether it arrived"))
    }

    pub(crate) fn redacted(self, redactor: &Redactor) -> Self {
        match self {
            Self::Failed(message) => Self::Failed(redactor.redact(&message).into_owned()),
            outcome => outcome,
        }
    }
}
