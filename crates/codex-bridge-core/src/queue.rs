//! Who may work next: first in, first out within a directory, round robin across directories. Pure.
//!
//! Two tasks that may write never work in one directory at the same time; readers do not mind each other, nor a
//! writer beside them.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use crate::task::TaskId;

/// The tasks that wait and those that work.
#[derive(Debug)]
pub struct Queue {
    max_running: usize,
    /// Directories with tasks that wait, the one whose turn it is first.
    waiting: VecDeque<(PathBuf, VecDeque<Ticket>)>,
    running: Vec<Ticket>,
}

/// A task's wish to work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// Who.
    pub task_id: TaskId,
    /// Where.
    pub cwd: PathBuf,
    /// Whether it may write there.
    pub writes: bool,
}

impl Queue {
    /// A queue that lets so many work at once.
    pub fn new(max_running: usize) -> Self {
        Self { max_running, waiting: VecDeque::new(), running: Vec::new() }
    }

    /// Lines up.
    pub fn wait(&mut self, ticket: Ticket) {
        match self.waiting.iter_mut().find(|(cwd, _)| *cwd == ticket.cwd) {
            Some((_, line)) => line.push_back(ticket),
            None => self.waiting.push_back((ticket.cwd.clone(), VecDeque::from([ticket]))),
        }
    }

    /// Counts a task that works already, found after a restart: it is not asked to wait.
    pub fn admit(&mut self, ticket: Ticket) {
        self.running.push(ticket);
    }

    /// Whoever may begin now, in order. They count as working from here on.
    pub fn begin(&mut self) -> Vec<TaskId> {
        let mut begun = Vec::new();
        while self.running.len() < self.max_running {
            let Some(at) = self.waiting.iter().position(|(cwd, line)| self.may_begin(cwd, line)) else {
                break;
            };
            let Some((cwd, mut line)) = self.waiting.remove(at) else { break };
            let Some(ticket) = line.pop_front() else { break };
            if !line.is_empty() {
                self.waiting.push_back((cwd, line));
            }
            begun.push(ticket.task_id.clone());
            self.running.push(ticket);
        }
        begun
    }

    fn may_begin(&self, cwd: &Path, line: &VecDeque<Ticket>) -> bool {
        line.front().is_some_and(|first| {
            !first.writes || !self.running.iter().any(|ticket| ticket.writes && ticket.cwd == cwd)
        })
    }

    /// Leaves, wherever it stood.
    pub fn leave(&mut self, task_id: &TaskId) {
        self.running.retain(|ticket| ticket.task_id != *task_id);
        for (_, line) in &mut self.waiting {
            line.retain(|ticket| ticket.task_id != *task_id);
        }
        self.waiting.retain(|(_, line)| !line.is_empty());
    }

    /// How many work.
    pub fn running(&self) -> usize {
        self.running.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(id: &str, cwd: &str, writes: bool) -> Ticket {
        Ticket { task_id: TaskId(id.to_owned()), cwd: cwd.into(), writes }
    }

    fn begun(queue: &mut Queue) -> Vec<String> {
        queue.begin().into_iter().map(|id| id.0).collect()
    }

    #[test]
    fn directories_take_turns_and_each_keeps_its_order() {
        let mut queue = Queue::new(3);
        for (id, cwd) in [("a1", "/a"), ("a2", "/a"), ("a3", "/a"), ("b1", "/b"), ("c1", "/c")] {
            queue.wait(ticket(id, cwd, false));
        }
        assert_eq!(begun(&mut queue), ["a1", "b1", "c1"]);
        assert_eq!(begun(&mut queue), [""; 0]);
        queue.leave(&TaskId("b1".to_owned()));
        assert_eq!(begun(&mut queue), ["a2"]);
    }

    #[test]
    fn one_writer_at_a_time_in_a_directory() {
        let mut queue = Queue::new(8);
        queue.wait(ticket("w1", "/a", true));
        queue.wait(ticket("w2", "/a", true));
        queue.wait(ticket("w3", "/b", true));
        assert_eq!(begun(&mut queue), ["w1", "w3"]);
        queue.wait(ticket("r1", "/c", false));
        assert_eq!(begun(&mut queue), ["r1"]);
        queue.leave(&TaskId("w1".to_owned()));
        assert_eq!(begun(&mut queue), ["w2"]);
    }

    #[test]
    fn a_task_that_leaves_the_line_is_not_begun() {
        let mut queue = Queue::new(1);
        queue.admit(ticket("found", "/a", true));
        queue.wait(ticket("w1", "/a", true));
        queue.wait(ticket("w2", "/a", true));
        queue.leave(&TaskId("w1".to_owned()));
        queue.leave(&TaskId("found".to_owned()));
        assert_eq!(begun(&mut queue), ["w2"]);
        assert_eq!(queue.running(), 1);
    }
}
