//! A Codex session for any Rust program: prompt in, result out, with approvals, steering and interrupts in between.
//!
//! - [`Session`]: the handle. [`SessionConfig`] and [`TurnOptions`] set it up, [`TurnResult`] comes back.
//! - [`Dial`]: how Codex is reached. [`OnHost`] keeps turns alive when this program dies; [`OwnCodex`] is a child on
//!   pipes; [`Injected`] takes any transport.
//! - [`Session::decide`]: answers what Codex asks ([`SessionEvent::Asked`]). An [`Approver`] does it for programs that can
//!   answer in a function ([`Ask`] in, [`Decision`] out). Without either the answer is no.
//! - [`turn`]: the pure machine that holds the rules of a turn's life.
//!
//! What the messages look like on the wire is not known here, and nothing is remembered beyond the session.

pub mod approver;
pub mod ask;
pub mod decision;
pub mod failure;
pub mod inspection;
pub mod link;
pub mod policy;
pub mod projection;
pub mod result;
pub mod session;
pub mod session_event;
pub mod settings;
pub mod tool_display;
pub mod turn;

pub use approver::Approver;
pub use ask::Ask;
pub use decision::{Decider, Decision, RequestKey};
pub use failure::{Failure, FailureKind};
pub use inspection::Inspection;
pub use link::{Dial, Injected, OnHost, OwnCodex};
pub use policy::{ApprovalPolicy, Escalations};
pub use result::{TurnOutcome, TurnResult};
pub use session::{Events, Prompt, Session, SessionStatus};
pub use session_event::SessionEvent;
pub use settings::{ApprovalMode, CallLimits, Sandbox, SessionConfig, TurnOptions, WorkLimit};
pub use turn::{DecideOutcome, SteerOutcome};
