//! Approvers, for programs that decide requests in a function. The decision takes the same path as
//! [`Session::decide`](crate::Session::decide).

use std::future::Future;

use codex_wire::answer::Answer;
use codex_wire::request::{DynamicToolCall, ServerRequest};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::ask::Ask;
use crate::decision::Decision;

/// Decides requests of Codex. It may take any time: no clock of the turn runs meanwhile, and the future is dropped when
/// the request is closed. A panic declines.
///
/// Async closures are approvers:
///
/// ```
/// use codex_session::{Approver, Ask, Decision};
///
/// fn takes(_: impl Approver) {}
/// takes(|ask: Ask| async move {
///     println!("{}", ask.text());
///     Decision::Decline
/// });
/// ```
pub trait Approver: Send + Sync + 'static {
    /// Decides on a request.
    fn decide(&self, ask: Ask) -> BoxFuture<'static, Decision>;

    /// Runs a tool that was offered to Codex at the start of the thread. By default the model is told that there is
    /// none.
    fn call_tool(&self, call: DynamicToolCall) -> BoxFuture<'static, Answer> {
        std::future::ready(Answer::fail_closed(&ServerRequest::ToolCall(call))).boxed()
    }
}

impl<F, D> Approver for F
where
    F: Fn(Ask) -> D + Send + Sync + 'static,
    D: Future<Output = Decision> + Send + 'static,
{
    fn decide(&self, ask: Ask) -> BoxFuture<'static, Decision> {
        self(ask).boxed()
    }
}
