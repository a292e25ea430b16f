//! A host as far as one thread sees it: its turns, and what it asks.

use std::collections::BTreeMap;

use codex_wire::answer::{Answer, CommandDecision, Verdict};
use codex_wire::event::Event;
use codex_wire::item::Item;
use codex_wire::request::ServerRequest;
use codex_wire::thread::{Turn as WireTurn, TurnStatus};
use codex_wire::{RequestId, ThreadId};

use super::super::tests::{command, message, prompt_item, refused, wire_turn};
use super::super::{Input, Outgoing, Reply};

#[derive(Debug)]
pub(super) enum ToHost {
    Call(Outgoing),
    Answer(RequestId, Answer),
}

#[derive(Debug)]
pub(super) struct Host {
    pub(super) turns: Vec<WireTurn>,
    is_running: bool,
    pub(super) is_announced: bool,
    items: u32,
    requests: u32,
    pub(super) pending: BTreeMap<RequestId, ServerRequest>,
    pub(super) prompts: u32,
}

impl Host {
    pub(super) fn new() -> Self {
        Self {
            turns: Vec::new(),
            is_running: false,
            is_announced: false,
            items: 0,
            requests: 0,
            pending: BTreeMap::new(),
            prompts: 0,
        }
    }

    pub(super) fn begin_turn(&mut self, items: Vec<Item>) {
        self.turns.push(wire_turn(&format!("u{}", self.turns.len() + 1), TurnStatus::InProgress, items));
        (self.is_running, self.is_announced) = (true, false);
    }

    pub(super) fn take(&mut self, message: ToHost) -> Vec<Input> {
        match message {
            ToHost::Call(call) => self.take_call(call),
            ToHost::Answer(id, answer) => {
                if self.pending.remove(&id).is_none() {
                    return Vec::new();
                }
                let mut told = vec![resolved(id)];
                if answer == Answer::Command(CommandDecision::Plain(Verdict::Cancel)) {
                    told.extend(self.end_turn(TurnStatus::Interrupted));
                }
                told
            }
        }
    }

    pub(super) fn take_call(&mut self, call: Outgoing) -> Vec<Input> {
        let reply = match call {
            Outgoing::Start(_) => {
                self.prompts += 1;
                self.begin_turn(vec![prompt_item("c1")]);
                Reply::Start(Ok(self.turns[self.turns.len() - 1].id.clone()))
            }
            Outgoing::Compact => {
                self.begin_turn(vec![]);
                Reply::Compact(Ok(()))
            }
            Outgoing::Steer { token, turn_id, .. } => {
                let runs = self.is_running && self.turns.last().is_some_and(|turn| turn.id == turn_id);
                let result = if runs { Ok(Some(turn_id)) } else { Err(refused("no active turn to steer")) };
                Reply::Steer { token, result }
            }
            Outgoing::Interrupt { turn_id } => {
                let is_it = self.turns.last().is_some_and(|turn| turn.id.0 == turn_id) && self.is_announced;
                let stops = self.is_running && (turn_id.is_empty() || is_it);
                return if stops { self.end_turn(TurnStatus::Interrupted) } else { Vec::new() };
            }
            Outgoing::CleanTerminals => return Vec::new(),
            Outgoing::ListTurns => Reply::Turns(Ok(self.turns.iter().rev().cloned().collect())),
        };
        vec![Input::Reply(reply)]
    }

    pub(super) fn announce(&mut self) -> Vec<Input> {
        if !self.is_running || std::mem::replace(&mut self.is_announced, true) {
            return Vec::new();
        }
        self.turns
            .last()
            .cloned()
            .map(|turn| told(&turn.id.0.clone(), Event::TurnStarted(turn)))
            .into_iter()
            .collect()
    }

    pub(super) fn work(&mut self, kind: u8) -> Vec<Input> {
        if !self.is_running {
            return Vec::new();
        }
        self.items += 1;
        let id = self.items.to_string();
        let item = match kind % 4 {
            0 => message(&id, "<turn_aborted>"),
            1 => command(&id, "completed"),
            _ => message(&id, "text"),
        };
        let Some(turn) = self.turns.last_mut() else { return Vec::new() };
        turn.items.push(item.clone());
        vec![told(&turn.id.0, Event::ItemCompleted(item))]
    }

    pub(super) fn ask(&mut self, request: ServerRequest, by_text: bool) -> Vec<Input> {
        if !self.is_running {
            return Vec::new();
        }
        let id = if by_text {
            RequestId::Text(format!("s-{}", self.requests))
        } else {
            RequestId::Number(i64::from(self.requests))
        };
        self.requests += 1;
        self.pending.insert(id.clone(), request.clone());
        vec![asks(id, request)]
    }

    pub(super) fn answered_elsewhere(&mut self) -> Vec<Input> {
        self.pending.pop_first().map(|(id, _)| resolved(id)).into_iter().collect()
    }

    /// codex 0.166: first the end, then what was pending is cleared.
    pub(super) fn end_turn(&mut self, status: TurnStatus) -> Vec<Input> {
        if !self.is_running {
            return Vec::new();
        }
        let mut told_so_far = self.announce();
        self.is_running = false;
        let Some(turn) = self.turns.last_mut() else { return told_so_far };
        turn.status = status;
        let turn = WireTurn { items: Vec::new(), ..turn.clone() };
        let end = told(&turn.id.0.clone(), Event::TurnCompleted(turn));
        let cleared = std::mem::take(&mut self.pending).into_keys().map(resolved);
        told_so_far.extend(std::iter::once(end).chain(cleared));
        told_so_far
    }
}

pub(super) fn told(turn_id: &str, event: Event) -> Input {
    Input::Event { thread_id: Some(ThreadId::from("t")), turn_id: Some(turn_id.into()), event }
}

fn resolved(id: RequestId) -> Input {
    Input::Event { thread_id: Some(ThreadId::from("t")), turn_id: None, event: Event::RequestResolved(id) }
}

pub(super) fn asks(id: RequestId, request: ServerRequest) -> Input {
    Input::Request { id, request: Box::new(request) }
}
