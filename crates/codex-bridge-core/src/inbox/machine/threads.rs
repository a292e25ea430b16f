//! Which of its tasks a conversation continues: `/list`, `/switch` and `/resume`. Pure.

use super::commands::{NOTHING_YET, changed};
use super::{Effect, Facts, KnownTask, Outcome, answer};
use crate::inbox::{Conversation, Message};
use crate::task::{ShownStatus, TimeMs};
use crate::token::Role;

/// How many tasks are listed.
pub const LISTED: usize = 10;
/// How many characters of a prompt are shown.
const PROMPT_CHARS: usize = 60;

/// The tasks that the conversation had, the last one first.
pub fn list(facts: &Facts, now: TimeMs) -> String {
    if facts.tasks.is_empty() {
        return NOTHING_YET.to_owned();
    }
    let own = facts.task.as_ref().map(|task| &task.id);
    let line = |(number, KnownTask { task, .. }): (usize, &KnownTask)| {
        let here = if own == Some(&task.id) { ", here" } else { "" };
        let status = ShownStatus::of(task.status, &[]);
        let prompt: String = task.prompt_summary.chars().take(PROMPT_CHARS).collect();
        format!("{}. {prompt} – {status}, {}{here}", number + 1, ago(now - task.updated_at))
    };
    let lines: Vec<String> = facts.tasks.iter().enumerate().map(line).collect();
    format!("{}\n/switch NUMBER goes on with one of them.", lines.join("\n"))
}

/// Continues one of the tasks that the conversation had.
pub fn switch(
    message: &Message,
    conversation: Conversation,
    number: &str,
    facts: &Facts,
    now: TimeMs,
) -> Effect {
    let number = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    match number.and_then(|number| facts.tasks.get(number)) {
        Some(known) => go_on(message, conversation, known, now),
        None => answer(message, None, &format!("There is no such number.\n{}", list(facts, now)), now),
    }
}

/// Continues a task that was begun elsewhere, with a copy: the task itself stays as it is, with all that its owner set for it.
/// Whoever does that reads what was said in it, so only approvers may.
pub fn resume(message: &Message, conversation: Conversation, facts: &Facts, now: TimeMs) -> Effect {
    let say = |text: &str| answer(message, None, text, now);
    if facts.rules.role_of(message) != Some(Role::Approver) {
        return say("Only approvers may continue a task that was begun elsewhere.");
    }
    let Some(KnownTask { workspace, task }) = &facts.resumed else { return say(NO_TASK) };
    let (Some(_), outcome) = (workspace, &facts.outcome) else { return say(NOT_HERE) };
    match outcome {
        Some(Outcome::Forked(Ok(branch))) => {
            let branch = KnownTask { task: (**branch).clone(), workspace: workspace.clone() };
            go_on(message, conversation, &branch, now)
        }
        Some(Outcome::Forked(Err(why))) => say(&format!("This task cannot be continued here: {why}.")),
        _ => Effect::Fork(task.id.clone()),
    }
}

const NO_TASK: &str =
    "There is no such task that could be continued here. Name it with the id that codex-bridge ps shows.";
const NOT_HERE: &str =
    "That task works in a directory that this channel does not have. /project lists those that it has.";

fn go_on(message: &Message, conversation: Conversation, known: &KnownTask, now: TimeMs) -> Effect {
    let KnownTask { task, workspace: Some(workspace) } = known else {
        return answer(message, None, NOT_HERE, now);
    };
    let prompt: String = task.prompt_summary.chars().take(PROMPT_CHARS).collect();
    let text = format!("From here on this goes on with {}: {prompt}", task.id.short());
    let (task_id, workspace) = (Some(task.id.clone()), Some(workspace.clone()));
    changed(message, Conversation { task_id, workspace, ..conversation }, text, now)
}

/// `5 min ago`.
fn ago(elapsed: TimeMs) -> String {
    let minutes = elapsed.max(0) / 60_000;
    match (minutes / (24 * 60), minutes / 60) {
        (0, 0) if minutes == 0 => "just now".to_owned(),
        (0, 0) => format!("{minutes} min ago"),
        (0, hours) => format!("{hours} h ago"),
        (days, _) => format!("{days} d ago"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_their_largest_unit() {
        assert_eq!(
            [0, 59_000, 3 * 60_000, 3 * 3_600_000, 50 * 3_600_000].map(ago),
            ["just now", "just now", "3 min ago", "3 h ago", "2 d ago"]
        );
    }
}
