//! What is handed over: by whom, how long it may be, and whose quota it counts against. Start, continue, fork and steer all
//! come by here, whichever door they came through.

use super::{Bridge, Error, Inner};
use crate::store::Write;
use crate::task::{GiverKind, TaskId};
use crate::token::{self, NewQuota, Token, Used};

/// What anything that is handed over counts for at least: a task with a short prompt takes room as well.
const LEAST_BYTES: u64 = 1024;

/// Who hands something over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Giver {
    /// For the record.
    pub name: String,
    /// The token that they came by, whose quota it counts against.
    pub token: Option<String>,
    /// Whether it is the owner of the machine or somebody else.
    pub kind: GiverKind,
}

/// The name of an agent inside one of our own hosts.
pub(crate) const NESTED_AGENT: &str = "nested agent";
/// The names of callers with a token begin with this word.
pub(crate) const TOKEN: &str = "token ";

/// A caller's own name for a request, without the caller before it that the desk adds.
pub fn own_part(name: &str) -> &str {
    let is_prefixed = [TOKEN, NESTED_AGENT].iter().any(|prefix| name.starts_with(prefix));
    name.split_once(": ").filter(|_| is_prefixed).map_or(name, |(_, own)| own)
}

impl From<&str> for Giver {
    fn from(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }
}

/// What a hand-over does to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opens {
    /// The task is under way then.
    Yes,
    /// It stays as it is.
    No,
}

impl Inner {
    /// Refuses a prompt that says nothing, or too much.
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

    /// What texts count for.
    fn weight(texts: &[Option<&str>]) -> u64 {
        let bytes: usize = texts.iter().flatten().map(|text| text.len()).sum();
        u64::try_from(bytes).unwrap_or(u64::MAX).max(LEAST_BYTES)
    }

    /// Refuses a hand-over of these texts that goes beyond the quota of who makes it. Held to only by whoever holds
    /// [`Inner::changing`] until it is recorded.
    pub(super) async fn check_quota(
        &self,
        by: &Giver,
        opens: Opens,
        texts: &[Option<&str>],
    ) -> Result<(), Error> {
        let Some(name) = &by.token else { return Ok(()) };
        let quota = self.tokens.valid(name).ok_or_else(|| token::Error::Unknown(name.clone()))?.quota;
        let Used { open_tasks: open, bytes: used } = self.store.used_by(name).await?;
        if opens == Opens::Yes && open >= u64::from(quota.open_tasks) {
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

    /// Counts it, once it is committed.
    pub(super) fn counted(by: &Giver, task_id: &TaskId, texts: &[Option<&str>]) -> Option<Write> {
        let token = by.token.clone()?;
        Some(Write::HandOver { task_id: task_id.clone(), token, bytes: Self::weight(texts) })
    }
}

impl Bridge {
    /// What a token has used of its quota.
    pub async fn used_by(&self, token: &str) -> Result<Used, Error> {
        Ok(self.inner.store.used_by(token).await?)
    }

    /// Changes the quota of a token; what it has handed over already stays.
    pub async fn change_quota(&self, name: &str, new: NewQuota, by: &str) -> Result<Token, Error> {
        let (name, by) = (name.to_owned(), by.to_owned());
        self.to_its_end(|bridge| async move {
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

    /// Counts what is added to a turn before it is added, for callers with a quota.
    pub(super) async fn count_added(&self, by: &Giver, task_id: &TaskId, text: &str) -> Result<(), Error> {
        if by.token.is_none() {
            return Ok(());
        }
        let (by, task_id, text) = (by.clone(), task_id.clone(), text.to_owned());
        self.to_its_end(|bridge| async move {
            let inner = &bridge.inner;
            let _changing = inner.changing.lock().await;
            let texts = [Some(text.as_str())];
            inner.check_quota(&by, Opens::No, &texts).await?;
            Ok(inner.commit(Inner::counted(&by, &task_id, &texts).into_iter().collect()).await?)
        })
        .await
    }
}
