//! Which task begins next: first in, first out within a directory, round robin across directories. Pure.
//!
//! Two tasks that may write never run in one directory at the same time. Tasks that only read run beside any other.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use crate::task::TaskId;

/// The waiting and the running tasks.
#[derive(Debug)]
pub struct Queue {
    max_running: usize,
    /// Directories with waiting tasks. The next directory to be served is first.
    waiting: VecDeque<(PathBuf, VecDeque<Ticket>)>,
    running: Vec<Ticket>,
}

/// A task's place in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The task.
    pub task_id: TaskId,
    /// The task's directory.
    pub cwd: PathBuf,
    /// Whether the task may write in the directory.
    pub writes: bool,
    /// The CODEX_HOME whose account the task uses.
    pub home: PathBuf,
    /// Whether the task is held back until [`Queue::release`].
    pub is_held: bool,
}

impl Queue {
    /// A queue that lets `max_running` tasks run at once.
    pub fn new(max_running: usize) -> Self {
        Self { max_running, waiting: VecDeque::new(), running: Vec::new() }
    }

    /// Adds a task to the end of its directory's line.
    pub fn push(&mut self, ticket: Ticket) {
        match self.waiting.iter_mut().find(|(cwd, _)| *cwd == ticket.cwd) {
            Some((_, line)) => line.push_back(ticket),
            None => self.waiting.push_back((ticket.cwd.clone(), VecDeque::from([ticket]))),
        }
    }

    /// Counts a task that already runs, found after a restart.
    pub fn admit(&mut self, ticket: Ticket) {
        self.running.push(ticket);
    }

    /// The tasks that may begin now, in order. They count as running from now on.
    pub fn begin(&mut self) -> Vec<TaskId> {
        let mut begun = Vec::new();
        while self.running.len() < self.max_running {
            let Some(at) = self.waiting.iter().position(|(cwd, line)| self.may_begin(cwd, line)) else {
                break;
            };
            let Some((cwd, mut line)) = self.waiting.remove(at) else { break };
            let first = line.iter().position(|ticket| !ticket.is_held);
            let Some(ticket) = first.and_then(|first| line.remove(first)) else { break };
            if !line.is_empty() {
                self.waiting.push_back((cwd, line));
            }
            begun.push(ticket.task_id.clone());
            self.running.push(ticket);
        }
        begun
    }

    fn may_begin(&self, cwd: &Path, line: &VecDeque<Ticket>) -> bool {
        line.iter().find(|ticket| !ticket.is_held).is_some_and(|first| {
            // A task that resumes by itself is queued before its last turn has left `running`.
            let runs_still = self.running.iter().any(|ticket| ticket.task_id == first.task_id);
            !runs_still
                && (!first.writes || !self.running.iter().any(|ticket| ticket.writes && ticket.cwd == cwd))
        })
    }

    /// A turn of the task has ended. If the task is queued again, it stays in the queue.
    pub fn finish(&mut self, task_id: &TaskId) {
        // Removes one ticket only: a task may have been admitted twice.
        if let Some(at) = self.running.iter().position(|ticket| ticket.task_id == *task_id) {
            self.running.remove(at);
        }
    }

    /// Removes a waiting task. Returns whether it was waiting.
    pub fn leave(&mut self, task_id: &TaskId) -> bool {
        let before = self.tickets().count();
        for (_, line) in &mut self.waiting {
            line.retain(|ticket| ticket.task_id != *task_id);
        }
        self.waiting.retain(|(_, line)| !line.is_empty());
        self.tickets().count() < before
    }

    /// Holds back the waiting tasks of a home.
    pub fn hold(&mut self, home: &Path) {
        for ticket in self.tickets().filter(|ticket| ticket.home == home) {
            ticket.is_held = true;
        }
    }

    /// Ends the holding back of a task.
    pub fn release(&mut self, task_id: &TaskId) {
        for ticket in self.tickets().filter(|ticket| ticket.task_id == *task_id) {
            ticket.is_held = false;
        }
    }

    /// The tasks that are held back, with their homes, in the order of each directory.
    pub fn held(&mut self) -> Vec<(TaskId, PathBuf)> {
        let held = self.tickets().filter(|ticket| ticket.is_held);
        held.map(|ticket| (ticket.task_id.clone(), ticket.home.clone())).collect()
    }

    fn tickets(&mut self) -> impl Iterator<Item = &mut Ticket> {
        self.waiting.iter_mut().flat_map(|(_, line)| line)
    }

    /// Whether the task waits or runs.
    pub fn holds(&self, task_id: &TaskId) -> bool {
        let waiting = self.waiting.iter().flat_map(|(_, line)| line);
        waiting.chain(&self.running).any(|ticket| ticket.task_id == *task_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(id: &str, cwd: &str, writes: bool) -> Ticket {
        let home = PathBuf::from("/home/ada/.codex");
        Ticket { task_id: TaskId(id.to_owned()), cwd: cwd.into(), writes, home, is_held: false }
    }

    fn begun(queue: &mut Queue) -> Vec<String> {
        queue.begin().into_iter().map(|id| id.0).collect()
    }

    #[test]
    fn directories_take_turns_and_each_keeps_its_order() {
        let mut queue = Queue::new(3);
        for (id, cwd) in [("a1", "/a"), ("a2", "/a"), ("a3", "/a"), ("b1", "/b"), ("c1", "/c")] {
            queue.push(ticket(id, cwd, false));
        }
        assert_eq!(begun(&mut queue), ["a1", "b1", "c1"]);
        assert_eq!(begun(&mut queue), [""; 0]);
        queue.finish(&TaskId("b1".to_owned()));
        assert_eq!(begun(&mut queue), ["a2"]);
    }

    #[test]
    fn one_writer_at_a_time_in_a_directory() {
        let mut queue = Queue::new(8);
        queue.push(ticket("w1", "/a", true));
        queue.push(ticket("w2", "/a", true));
        queue.push(ticket("w3", "/b", true));
        assert_eq!(begun(&mut queue), ["w1", "w3"]);
        queue.push(ticket("r1", "/c", false));
        assert_eq!(begun(&mut queue), ["r1"]);
        queue.finish(&TaskId("w1".to_owned()));
        assert_eq!(begun(&mut queue), ["w2"]);
    }

    #[test]
    fn a_task_that_lines_up_again_begins_when_its_last_turn_is_put_away() {
        let mut queue = Queue::new(8);
        queue.push(ticket("r1", "/a", false));
        assert_eq!(begun(&mut queue), ["r1"]);
        queue.push(ticket("r1", "/a", false));
        assert_eq!(begun(&mut queue), [""; 0]);
        queue.finish(&TaskId("r1".to_owned()));
        assert_eq!((begun(&mut queue), queue.running.len()), (vec!["r1".to_owned()], 1));
    }

    #[test]
    fn a_task_that_was_admitted_twice_begins_when_both_are_over() {
        let mut queue = Queue::new(8);
        for _ in 0..2 {
            queue.admit(ticket("r1", "/a", false));
        }
        queue.push(ticket("r1", "/a", false));
        queue.finish(&TaskId("r1".to_owned()));
        assert_eq!(begun(&mut queue), [""; 0]);
        queue.finish(&TaskId("r1".to_owned()));
        assert_eq!(begun(&mut queue), ["r1"]);
    }

    #[test]
    fn who_is_held_back_lets_others_pass_and_keeps_its_place() {
        let mut queue = Queue::new(8);
        queue.push(ticket("h1", "/a", false));
        queue.push(ticket("h2", "/a", false));
        queue.hold(Path::new("/home/ada/.codex"));
        queue.push(Ticket { home: "/other".into(), ..ticket("r1", "/a", false) });
        assert_eq!(begun(&mut queue), ["r1"]);
        let held: Vec<String> = queue.held().into_iter().map(|(id, _)| id.0).collect();
        assert_eq!(held, ["h1", "h2"]);
        queue.release(&TaskId("h1".to_owned()));
        assert_eq!(begun(&mut queue), ["h1"]);
        assert!(queue.leave(&TaskId("h2".to_owned())));
        assert!(queue.held().is_empty());
    }

    #[test]
    fn a_task_that_leaves_the_line_is_not_begun() {
        let mut queue = Queue::new(1);
        queue.admit(ticket("found", "/a", true));
        queue.push(ticket("w1", "/a", true));
        queue.push(ticket("w2", "/a", true));
        assert!(queue.leave(&TaskId("w1".to_owned())));
        assert!(!queue.leave(&TaskId("found".to_owned())), "it works");
        queue.finish(&TaskId("found".to_owned()));
        assert_eq!(begun(&mut queue), ["w2"]);
        assert_eq!(queue.running.len(), 1);
    }
}
