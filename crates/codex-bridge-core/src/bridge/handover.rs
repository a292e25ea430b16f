//! Checks on everything that is handed over: its author, its length, and the quota that it counts against. Start,
//! continue, fork and steer all pass here.

use super::{Bridge, Error, Inner};
use crate::store::Write;
use crate::task::{AuthorKind, TaskId};
use crate::token::{self, NewQuota, Token, Used};

/// The least that a hand-over counts for. A task with a short prompt takes space too.
const LEAST_BYTES: u64 = 1024;

/// Who hands over work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Author {
    /// The name for the audit log.
    pub name: String,
    /// The token of the caller, whose quota is used.
    pub token: Option<String>,
    /// Whether this is the owner of the machine.
    pub kind: AuthorKind,
}

/// The caller name of an agent inside one of our hosts.
pub(crate) const NESTED_AGENT: &str = "nested agent";
/// The prefix of caller names with a token.
pub(crate) const TOKEN: &str = "token ";

/// A `client_request_id` without the caller prefix that the desk adds.
pub fn without_caller(name: &str) -> &str {
    let is_prefixed = [TOKEN, NESTED_AGENT].iter().any(|prefix| name.starts_with(prefix));
    name.split_once(": ").filter(|_| is_prefixed).map_or(name, |(_, own)| own)
}

impl From<&str> for Author {
    fn from(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }
}

/// Whether a hand-over makes a task unfinished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpensTask {
    /// The task is unfinished afterwards.
    Yes,
    /// The task's status does not change.
    No,
}

impl Inner {
    /// Refuses an empty prompt and one that is too long.
    pub(super) fn check_prompt(&self, prompt: &str) -> Result<(), Error> {
        let (bytes, limit) = (prompt.len(), self.config.prompt_limit_bytes);
        if prompt.trim().is_empty() {
            Err(Error::EmptyPrompt)
        } else if bytes > limit {
            Err(Error::PromptTooLong { bytes, limit })
        } else {
            Ok(())
        }
    }

    /// How many bytes these texts count for.
    fn weight(texts: &[Option<&str>]) -> u64 {
        let bytes: usize = texts.iter().flatten().map(|text| text.len()).sum();
        u64::try_from(bytes).unwrap_or(u64::MAX).max(LEAST_BYTES)
    }

    /// Refuses a hand-over beyond the quota of its author. The caller holds [`Inner::changing`] until the commit.
    pub(super) async fn check_quota(
        &self,
        by: &Author,
        opens: OpensTask,
        texts: &[Option<&str>],
    ) -> Result<(), Error> {
        let Some(name) = &by.token else { return Ok(()) };
        let quota = self.tokens.valid(name).ok_or_else(|| token::Error::Unknown(name.clone()))?.quota;
        let Used { open_tasks: open, bytes: used } = self.store.used_by(name).await?;
        if opens == OpensTask::Yes && open >= u64::from(quota.open_tasks) {
            return Err(
                token::Error::TooManyOpen { name: name.clone(), open, limit: quota.open_tasks }.into()
            );
        }
        let more = Self::weight(texts);
        if used.saturating_add(more) > quota.bytes {
            let (name, limit) = (name.clone(), quota.bytes);
            return Err(token::Error::TooManyBytes { name, used, more, limit }.into());
        }
        Ok(())
    }

    /// The write that counts a hand-over.
    pub(super) fn counted(by: &Author, task_id: &TaskId, texts: &[Option<&str>]) -> Option<Write> {
        let token = by.token.clone()?;
        Some(Write::HandOver { task_id: task_id.clone(), token, bytes: Self::weight(texts) })
    }
}

impl Bridge {
    /// Changes the quota of a token. What was handed over before still counts.
    pub async fn change_quota(&self, name: &str, new: NewQuota, by: &str) -> Result<Token, Error> {
        let (name, by) = (name.to_owned(), by.to_owned());
        self.to_completion(|bridge| async move {
            let _changing = bridge.inner.changing.lock().await;
            let known = bridge.inner.tokens.valid(&name);
            let token = known.ok_or_else(|| token::Error::Unknown(name.clone()))?;
            let quota = new.over(token.quota)?;
            let token = Token { quota, ..token };
            let what = format!("set quota to {} open tasks, {} bytes", quota.open_tasks, quota.bytes);
            bridge.save_token(&token, &by, &what).await?;
            Ok(token)
        })
        .await
    }

    /// Counts a steer against its author's quota, before the text is added.
    pub(super) async fn count_steer(&self, by: &Author, task_id: &TaskId, text: &str) -> Result<(), Error> {
        if by.token.is_none() {
            return Ok(());
        }
        let (by, task_id, text) = (by.clone(), task_id.clone(), text.to_owned());
        self.to_completion(|bridge| async move {
            let inner = &bridge.inner;
            let _changing = inner.changing.lock().await;
            let texts = [Some(text.as_str())];
            inner.check_quota(&by, OpensTask::No, &texts).await?;
            Ok(inner.commit(Inner::counted(&by, &task_id, &texts).into_iter().collect()).await?)
        })
        .await
    }
}
