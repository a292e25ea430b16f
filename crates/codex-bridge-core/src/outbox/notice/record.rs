//! A notice as JSON: one flat object, the same in the store, for webhooks and for programs. Its fields are promised to
//! users. A field that has no meaning for an occasion is empty.

use serde::{Deserialize, Serialize};

use super::{
    AboutTask, Asked, Asks, Content, Excerpt, FinishedTask, Notice, Occasion, REMINDER, Reminder, Reply,
    Suggestion, TEST, TEST_PROMPT, TextFormat,
};
use crate::task::{Status, TaskError, TaskId, TimeMs};

/// The task id in a notice without a task.
pub const NO_TASK: &str = "codex-000000000000";

#[derive(Serialize, Deserialize)]
pub(super) struct Record {
    event: Occasion,
    task_id: TaskId,
    status: Status,
    prompt: String,
    cwd: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    #[serde(default)]
    answer_cut_chars: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<TaskError>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    work_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens: Option<u64>,
    #[serde(default)]
    files: Vec<String>,
    #[serde(default)]
    more_files: usize,
    #[serde(default)]
    requests: Vec<Asked>,
    /// Always 0: requests that do not fit go into another notice.
    #[serde(default)]
    more_requests: usize,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_of_conversation: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    closing: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    in_reply_to: Option<String>,
    #[serde(default, skip_serializing_if = "is_plain")]
    format: TextFormat,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    suggestions: Vec<Suggestion>,
    at: TimeMs,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_plain(format: &TextFormat) -> bool {
    *format == TextFormat::Plain
}

impl Record {
    /// The fields that every notice has.
    fn new(notice: &Notice) -> Self {
        let nobody =
            || AboutTask { id: TaskId(NO_TASK.to_owned()), status: Status::Completed, cwd: String::new() };
        let AboutTask { id, status, cwd } = notice.task().cloned().unwrap_or_else(nobody);
        Self {
            event: notice.occasion(),
            task_id: id,
            status,
            prompt: String::new(),
            cwd,
            answer: None,
            answer_cut_chars: 0,
            error: None,
            reason: None,
            work_ms: None,
            tokens: None,
            files: Vec::new(),
            more_files: 0,
            requests: Vec::new(),
            more_requests: 0,
            is_of_conversation: false,
            closing: None,
            in_reply_to: None,
            format: TextFormat::Plain,
            suggestions: Vec::new(),
            at: notice.at,
        }
    }

    fn with_answer(self, answer: Excerpt) -> Self {
        Self { answer: Some(answer.text), answer_cut_chars: answer.cut_chars, ..self }
    }
}

impl From<Notice> for Record {
    fn from(notice: Notice) -> Self {
        let mut record = Self::new(&notice);
        match notice.content {
            Content::Finished(finished) => {
                let FinishedTask {
                    task: _,
                    prompt,
                    tokens,
                    answer,
                    error,
                    reason,
                    work_ms,
                    files,
                    more_files,
                } = finished;
                if let Some(answer) = answer {
                    record = record.with_answer(answer);
                }
                Self { prompt, error, reason, work_ms, tokens, files, more_files, ..record }
            }
            Content::Asks(asks) => {
                let Asks { task: _, prompt, tokens, is_question: _, requests, in_conversation } = asks;
                Self { prompt, tokens, requests, is_of_conversation: in_conversation, ..record }
            }
            Content::Reminder(Reminder { task: _, requests }) => {
                Self { answer: Some(REMINDER.to_owned()), requests, ..record }
            }
            Content::Reply(Reply { task: _, text, format, closing, in_reply_to, suggestions }) => {
                Self { closing, in_reply_to, format, suggestions, ..record.with_answer(text) }
            }
            Content::Test => Self {
                prompt: TEST_PROMPT.to_owned(),
                cwd: "/".to_owned(),
                answer: Some(TEST.to_owned()),
                ..record
            },
        }
    }
}

impl From<Record> for Notice {
    fn from(record: Record) -> Self {
        let Record { event, task_id, status, prompt, cwd, answer, answer_cut_chars, tokens, .. } = record;
        let task = AboutTask { id: task_id, status, cwd };
        let answer = answer.map(|text| Excerpt { text, cut_chars: answer_cut_chars });
        let content = match event {
            Occasion::Completed | Occasion::Failed | Occasion::Paused => Content::Finished(FinishedTask {
                task,
                prompt,
                tokens,
                answer,
                error: record.error,
                reason: record.reason,
                work_ms: record.work_ms,
                files: record.files,
                more_files: record.more_files,
            }),
            Occasion::Approval | Occasion::Question => Content::Asks(Asks {
                task,
                prompt,
                tokens,
                is_question: event == Occasion::Question,
                requests: record.requests,
                in_conversation: record.is_of_conversation,
            }),
            Occasion::Reply if !record.requests.is_empty() => {
                Content::Reminder(Reminder { task, requests: record.requests })
            }
            Occasion::Reply => Content::Reply(Reply {
                task: Some(task).filter(|task| task.id.as_str() != NO_TASK),
                text: answer.unwrap_or_default(),
                format: record.format,
                closing: record.closing,
                in_reply_to: record.in_reply_to,
                suggestions: record.suggestions,
            }),
            Occasion::Test => Content::Test,
        };
        Self { at: record.at, content }
    }
}

#[cfg(test)]
mod tests;
