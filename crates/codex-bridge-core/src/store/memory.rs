//! A store that forgets everything when it is dropped: the model that others are compared with, and the store of tests
//! that own the clock. No thread, no file: a commit is done when it is first polled.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::{BoxFuture, ready};

use super::{Committed, Error, RequestFilter, Store, TaskFilter, Write};
use crate::event::{Event, NewEvent, Seq};
use crate::request::{RequestRecord, RequestState};
use crate::task::{Status, Task, TaskId, TimeMs, TurnRecord};

/// A store in memory.
#[derive(Debug, Default)]
pub struct Memory {
    state: Mutex<State>,
}

#[derive(Debug, Default, Clone)]
struct State {
    /// In the order of creation.
    tasks: Vec<Task>,
    turns: BTreeMap<(TaskId, u32), TurnRecord>,
    logs: BTreeMap<TaskId, Log>,
    requests: Vec<RequestRecord>,
}

#[derive(Debug, Default, Clone)]
struct Log {
    last_seq: Seq,
    events: Vec<Event>,
}

impl Memory {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply(&self, batch: Vec<Write>) -> Result<Committed, Error> {
        let mut state = self.state();
        let mut changed = state.clone();
        let mut committed = Committed::default();
        let is_alone = batch.len() == 1;
        for write in batch {
            match write {
                Write::AddTask(task) => changed.add_task(*task)?,
                Write::SaveTask(task) => changed.save_task(*task)?,
                Write::SaveTurn(turn) => changed.save_turn(*turn)?,
                Write::SaveRequest(request) => changed.save_request(*request)?,
                Write::Append { task_id, events } => {
                    committed.events.extend(changed.append(&task_id, events)?);
                }
                Write::Audit { .. } => {}
                Write::Prune { ended_before, events_per_task } if is_alone => {
                    committed.pruned_tasks = changed.prune(ended_before, events_per_task);
                }
                Write::Prune { .. } => return Err(refused("a prune stands alone in its batch")),
            }
        }
        *state = changed;
        Ok(committed)
    }
}

impl State {
    fn add_task(&mut self, task: Task) -> Result<(), Error> {
        let asked = task.client_request_id.as_ref();
        let taken =
            self.tasks.iter().find(|known| asked.is_some() && known.client_request_id.as_ref() == asked);
        if let Some(taken) = taken {
            return Err(Error::Duplicate(taken.id.clone()));
        }
        if self.has(&task.id) {
            return Err(refused("that id is taken"));
        }
        check_status(task.status)?;
        self.logs.insert(task.id.clone(), Log::default());
        self.tasks.push(task);
        Ok(())
    }

    fn save_task(&mut self, task: Task) -> Result<(), Error> {
        check_status(task.status)?;
        let asked = task.client_request_id.as_ref();
        let is_taken = |known: &Task| known.id != task.id && known.client_request_id.as_ref() == asked;
        if asked.is_some() && self.tasks.iter().any(is_taken) {
            return Err(refused("that client request id is taken"));
        }
        let known =
            self.tasks.iter_mut().find(|known| known.id == task.id).ok_or_else(|| unknown(&task.id))?;
        *known = task;
        Ok(())
    }

    fn save_turn(&mut self, turn: TurnRecord) -> Result<(), Error> {
        if !self.has(&turn.task_id) {
            return Err(unknown(&turn.task_id));
        }
        self.turns.insert((turn.task_id.clone(), turn.number), turn);
        Ok(())
    }

    fn save_request(&mut self, request: RequestRecord) -> Result<(), Error> {
        if !self.has(&request.task_id) {
            return Err(unknown(&request.task_id));
        }
        let same_name = |known: &RequestRecord| known.request_id == request.request_id;
        if self.requests.iter().any(|known| known.key == request.key && !same_name(known)) {
            return Err(refused("that key is taken"));
        }
        match self.requests.iter_mut().find(|known| same_name(known)) {
            Some(known) => *known = request,
            None => self.requests.push(request),
        }
        Ok(())
    }

    fn append(&mut self, task_id: &TaskId, events: Vec<NewEvent>) -> Result<Vec<Event>, Error> {
        let log = self.logs.get_mut(task_id).ok_or_else(|| unknown(task_id))?;
        let numbered = events.into_iter().zip(log.last_seq + 1..).map(|(event, seq)| Event {
            task_id: Some(task_id.clone()),
            seq,
            at: event.at,
            kind: event.kind,
            body: event.body,
        });
        let numbered: Vec<_> = numbered.collect();
        log.last_seq = numbered.last().map_or(log.last_seq, |event| event.seq);
        log.events.extend_from_slice(&numbered);
        Ok(numbered)
    }

    fn prune(&mut self, ended_before: TimeMs, events_per_task: u32) -> u64 {
        let waits = |task: &Task| {
            let is_waiting = |state| matches!(state, RequestState::Open | RequestState::Decided);
            self.requests.iter().any(|request| request.task_id == task.id && is_waiting(request.state))
        };
        let is_over = |task: &Task| {
            let since = task.updated_at.max(task.completed_at.unwrap_or(task.updated_at));
            task.status.is_at_rest() && task.parked.is_none() && since < ended_before && !waits(task)
        };
        let (over, kept) = self.tasks.clone().into_iter().partition(is_over);
        let over: Vec<Task> = over;
        self.tasks = kept;
        for task in &over {
            self.logs.remove(&task.id);
            self.turns.retain(|(task_id, _), _| *task_id != task.id);
            self.requests.retain(|request| request.task_id != task.id);
        }
        for log in self.logs.values_mut() {
            let surplus = log.events.len().saturating_sub(events_per_task as usize);
            log.events.drain(..surplus);
        }
        over.len() as u64
    }

    fn has(&self, id: &TaskId) -> bool {
        self.tasks.iter().any(|task| task.id == *id)
    }

    fn tasks(&self, filter: &TaskFilter) -> Vec<Task> {
        let TaskFilter { statuses, client_request_id, id_prefix, before, limit } = filter;
        let older = match before {
            Some(before) => self.tasks.iter().position(|task| task.id == *before).unwrap_or(0),
            None => self.tasks.len(),
        };
        let fits = |task: &&Task| {
            (statuses.is_empty() || statuses.contains(&task.status))
                && (client_request_id.is_none() || task.client_request_id == *client_request_id)
                && id_prefix.as_ref().is_none_or(|prefix| task.id.as_str().starts_with(prefix))
        };
        let limit = limit.map_or(usize::MAX, |limit| limit as usize);
        self.tasks[..older].iter().rev().filter(fits).take(limit).cloned().collect()
    }

    fn requests(&self, filter: &RequestFilter) -> Vec<RequestRecord> {
        let RequestFilter { task_id, request_id, states } = filter;
        let fits = |request: &&RequestRecord| {
            task_id.as_ref().is_none_or(|id| request.task_id == *id)
                && request_id.as_ref().is_none_or(|id| request.request_id == *id)
                && (states.is_empty() || states.contains(&request.state))
        };
        self.requests.iter().filter(fits).cloned().collect()
    }
}

fn check_status(status: Status) -> Result<(), Error> {
    match status {
        Status::WaitingForApproval | Status::WaitingForUserInput => Err(refused("waiting is not stored")),
        _ => Ok(()),
    }
}

fn unknown(id: &TaskId) -> Error {
    Error::Other(format!("there is no task {id}"))
}

fn refused(why: &str) -> Error {
    Error::Other(why.to_owned())
}

impl Store for Memory {
    fn commit(&self, batch: Vec<Write>) -> BoxFuture<'_, Result<Committed, Error>> {
        Box::pin(async move { self.apply(batch) })
    }

    fn task<'a>(&'a self, id: &'a TaskId) -> BoxFuture<'a, Result<Option<Task>, Error>> {
        Box::pin(async move { Ok(self.state().tasks.iter().find(|task| task.id == *id).cloned()) })
    }

    fn tasks<'a>(&'a self, filter: &'a TaskFilter) -> BoxFuture<'a, Result<Vec<Task>, Error>> {
        Box::pin(async move { Ok(self.state().tasks(filter)) })
    }

    fn turns<'a>(&'a self, id: &'a TaskId) -> BoxFuture<'a, Result<Vec<TurnRecord>, Error>> {
        Box::pin(async move {
            let state = self.state();
            let own = state.turns.range((id.clone(), 0)..=(id.clone(), u32::MAX));
            Ok(own.map(|(_, turn)| turn.clone()).collect())
        })
    }

    fn events<'a>(
        &'a self,
        id: &'a TaskId,
        after: Seq,
        limit: u32,
    ) -> BoxFuture<'a, Result<Vec<Event>, Error>> {
        Box::pin(async move {
            let state = self.state();
            let events = state.logs.get(id).into_iter().flat_map(|log| &log.events);
            Ok(events.filter(|event| event.seq > after).take(limit as usize).cloned().collect())
        })
    }

    fn last_events<'a>(&'a self, id: &'a TaskId, limit: u32) -> BoxFuture<'a, Result<Vec<Event>, Error>> {
        Box::pin(async move {
            let state = self.state();
            let events = state.logs.get(id).map(|log| log.events.as_slice()).unwrap_or_default();
            Ok(events[events.len().saturating_sub(limit as usize)..].to_vec())
        })
    }

    fn requests<'a>(&'a self, filter: &'a RequestFilter) -> BoxFuture<'a, Result<Vec<RequestRecord>, Error>> {
        Box::pin(async move { Ok(self.state().requests(filter)) })
    }

    fn check(&self) -> BoxFuture<'_, Result<Vec<String>, Error>> {
        Box::pin(ready(Ok(Vec::new())))
    }

    fn backup<'a>(&'a self, _file: &'a Path) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(ready(Err(refused("there is nothing to copy from memory"))))
    }
}
