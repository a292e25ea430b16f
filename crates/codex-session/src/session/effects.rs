//! Performs the effects of a turn: calls, answers, questions to people, reconnects.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use codex_wire::answer::Answer;
use codex_wire::call::{CleanBackgroundTerminals, CompactStart, TurnInterrupt, TurnSteer};
use codex_wire::item::FileChange;
use codex_wire::peer::{CallError, Closed};
use codex_wire::request::ServerRequest;
use futures_util::FutureExt;
use tracing::{error, warn};

use super::actor::Actor;
use super::open::{self, Source, list_turns};
use super::running_turn::Posted;
use crate::ask::{Ask, Context};
use crate::decision::{Decider, Decision, RequestKey};
use crate::failure::FailureKind;
use crate::inspection::Inspection;
use crate::link::Link;
use crate::session_event::SessionEvent;
use crate::turn::{Decide, Effect, Input, Outgoing};

/// Pause between tries to reconnect to a living host.
const RECONNECT_PAUSE: Duration = Duration::from_millis(200);
/// How many of the newest turns are read to find ours.
const READ_BACK_TURNS: u32 = 5;

impl Actor {
    pub(super) async fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Call(call) => self.post(call).await,
                Effect::Answer { key, answer } => self.answer(&key, answer).await,
                Effect::Inspect { key, digest, request, patch } => self.inspect(key, digest, *request, patch),
                Effect::Ask { key, request, patch, inspection } => {
                    self.ask_person(key, &request, patch.as_deref(), &inspection).await;
                }
                Effect::AskProgram { key, request } => self.ask_program(key, *request),
                Effect::RequestClosed { key, closing } => {
                    if let Some(task) = self.asked.remove(&key) {
                        task.abort();
                    }
                    let closing = closing.without_answers();
                    self.tell(SessionEvent::RequestClosed { key, closing }).await;
                }
                Effect::Steered { token, outcome } => {
                    let steer = self.running.as_mut().and_then(|running| running.steers.remove(&token));
                    if let Some(steer) = steer {
                        // The caller may not wait for it.
                        steer.send(outcome.redacted(&self.config.redactor)).ok();
                    }
                }
                Effect::Tell(notice) => {
                    let now = self.now();
                    let mut told = Vec::new();
                    if let Some(running) = &mut self.running {
                        running.writer.tell(notice, now, &mut told);
                    }
                    self.tell_all(told).await;
                }
                Effect::HangUp => self.hang_up().await,
                Effect::Reconnect => self.reconnect(),
                Effect::DrainHost => self.drain_host(),
                Effect::End(result) => self.end_turn(*result).await,
            }
        }
    }

    pub(super) async fn tell(&mut self, event: SessionEvent) {
        if let Some(journal) = &self.config.journal {
            // The reader of the journal may be gone.
            journal.send(event.clone()).await.ok();
        }
        // Nobody may be listening.
        self.events.send(event).ok();
    }

    pub(super) async fn tell_all(&mut self, events: Vec<SessionEvent>) {
        for event in events {
            self.tell(event).await;
        }
    }

    pub(super) fn new_token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    pub(super) async fn post(&mut self, call: Outgoing) {
        let token = self.new_token();
        let Some(opened) = &self.opened else { return };
        let (peer, inbox) = (&opened.link.connection.peer, opened.inbox_sender.clone());
        let thread_id = opened.thread_id.clone();
        let limits = self.config.call_limits;
        let (posted, result) = match call {
            Outgoing::Start(start) => {
                self.had_a_turn = true;
                (Posted::Start, peer.post(&*start, limits.turn_start, inbox, token).await)
            }
            Outgoing::Compact => (
                Posted::Compact,
                peer.post(&CompactStart { thread_id }, limits.turn_start, inbox, token).await,
            ),
            Outgoing::Steer { token: steer, turn_id, input, client_id } => {
                let client_user_message_id = client_id;
                let call = TurnSteer { thread_id, input, client_user_message_id, expected_turn_id: turn_id };
                (Posted::Steer(steer), peer.post(&call, limits.turn_start, inbox, token).await)
            }
            Outgoing::Interrupt { turn_id } => {
                let call = TurnInterrupt { thread_id, turn_id };
                (Posted::Unwatched, peer.post(&call, limits.interrupt, inbox, token).await)
            }
            Outgoing::CleanTerminals => {
                let call = CleanBackgroundTerminals { thread_id };
                (Posted::Unwatched, peer.post(&call, limits.interrupt, inbox, token).await)
            }
            Outgoing::ListTurns => {
                let call = list_turns(thread_id, READ_BACK_TURNS);
                (Posted::Turns, peer.post(&call, limits.thread_resume, inbox, token).await)
            }
        };
        match result {
            Ok(()) => drop(self.posted.insert(token, posted)),
            // The end of the connection comes through the inbox.
            Err(CallError::Closed(_)) => {}
            Err(error) => {
                if let Some(reply) = posted.read(Err(error)) {
                    Box::pin(self.step(Input::Reply(reply))).await;
                }
            }
        }
    }

    async fn answer(&mut self, key: &RequestKey, answer: Answer) {
        // A second check: the machine answers only requests of the current epoch.
        if let Some(opened) = self.opened.as_ref().filter(|opened| opened.link.connection.epoch == key.epoch)
        {
            // The end of a connection is reported separately.
            if let Err(error) = opened.link.connection.peer.respond(&key.id, answer).await {
                warn!(request = ?key.id, %error, "an answer did not reach Codex");
            }
        }
    }

    async fn ask_person(
        &mut self,
        key: RequestKey,
        request: &ServerRequest,
        patch: Option<&FileChange>,
        inspection: &Inspection,
    ) {
        let Some(thread_id) = &self.thread_id else { return };
        let denied: Vec<&str> = self.denied.iter().map(String::as_str).collect();
        let context = Context {
            thread_id: thread_id.as_str(),
            cwd: &self.config.cwd.to_string_lossy(),
            sandbox: Some(self.config.sandbox.as_str()),
            denied: &denied,
            writable_path: &self.config.writable_path(),
            network: self.config.network,
            patch,
            inspection,
            allow_permanent_rules: self.config.approvals.allow_permanent_rules,
        };
        let Some(ask) = Ask::new(request, &context, &self.config.redactor) else { return };
        self.tell(SessionEvent::Asked { key: key.clone(), ask: Box::new(ask.clone()) }).await;
        let Some(approver) = self.approver.clone() else { return };
        let digest = ask.digest.clone();
        self.ask_beside(key.clone(), async move { approver.decide(ask).await }, |decision| {
            let (decision, by) = match decision {
                Some(decision) => (decision, Decider::Person("approver".to_owned())),
                None => (Decision::Decline, Decider::Policy("the approver failed".to_owned())),
            };
            Input::Decide(Decide { key, digest, decision, by })
        });
    }

    fn ask_program(&mut self, key: RequestKey, request: ServerRequest) {
        let (approver, refusal) = (self.approver.clone(), Answer::fail_closed(&request));
        let answer = async move {
            let approver = approver?;
            Some(match request {
                ServerRequest::ToolCall(call) => approver.call_tool(call).await,
                request => Answer::fail_closed(&request),
            })
        };
        self.ask_beside(key.clone(), answer, |answer| Input::ProgramAnswered {
            key,
            answer: answer.flatten().unwrap_or(refusal),
        });
    }

    /// Runs a question in a task until the request is closed. The result is an input of the turn; a panic gives none.
    pub(super) fn ask_beside<T>(
        &mut self,
        key: RequestKey,
        asking: impl Future<Output = T> + Send + 'static,
        input: impl FnOnce(Option<T>) -> Input + Send + 'static,
    ) {
        let asked = key.clone();
        let task = self
            .answers
            .spawn(async move { (asked, input(AssertUnwindSafe(asking).catch_unwind().await.ok())) });
        self.asked.insert(key, task);
    }

    /// Closes the connection, with the same consequences as if the host had closed it.
    async fn hang_up(&mut self) {
        if self.opened.as_ref().is_some_and(|opened| opened.link.outlives_connection()) {
            Box::pin(self.on_closed(&Closed::ByServer)).await;
        }
    }

    /// Tries to reconnect to the host until the machine gives up.
    fn reconnect(&mut self) {
        let (Some(thread_id), Some(host)) = (self.thread_id.clone(), self.lost_host.take()) else { return };
        let (config, dial, closing) =
            (Arc::clone(&self.config), Arc::clone(&self.dial), self.closing.clone());
        self.reconnecting = Some(Box::pin(async move {
            while host.is_alive() {
                // A dying host still looks alive for a moment, and dialling would start a new host in its place.
                if host.takes_connections().await {
                    let (config, dial) = (Arc::clone(&config), Arc::clone(&dial));
                    let source = Source::Resume(thread_id.clone());
                    match open::open(config, dial, source, closing.clone()).await {
                        Ok(opened) => return Ok(opened),
                        Err(failure) if failure.kind == FailureKind::Startup => {}
                        Err(failure) => return Err(failure.message),
                    }
                }
                tokio::time::sleep(RECONNECT_PAUSE).await;
            }
            Err(host.exit().await.unwrap_or_else(|| "the host has ended".to_owned()))
        }));
    }

    fn drain_host(&mut self) {
        let Some(opened) = &self.opened else { return };
        let (connection, backend) = (opened.link.connection.clone(), opened.link.backend.clone());
        let thread_id = opened.thread_id.clone();
        self.farewells.spawn(async move {
            let link = Link { connection, backend };
            // If the host cannot be ended, the machine gives the turn up and reports it.
            if let Err(error) = link.end_unless_shared(&thread_id).await {
                error!(thread = %thread_id, error, "a host that does not stop its turn could not be ended");
            }
        });
    }
}
