//! The verbs of the machine's owner: tokens, trust, the store, the audit log, the end of the daemon.

use std::path::Path;

use super::{Caller, Desk, Verb};
use crate::bridge::Error;
use crate::place::Overlap;
use crate::refusal::{Refusal, Rule};
use crate::store::AuditLine;
use crate::task::{TaskId, TimeMs};
use crate::token::{NewQuota, Role, Token, Used};
use crate::trust::Trust;

impl Desk {
    /// Makes a token. The second value is its secret, which is stored nowhere.
    pub async fn create_token(
        &self,
        caller: &Caller,
        name: &str,
        role: Role,
        quota: NewQuota,
    ) -> Result<(Token, String), Error> {
        caller.may(Verb::Administer)?;
        self.bridge.create_token(name, role, quota, &caller.name).await
    }

    /// All tokens with what each has used, the oldest first; revoked ones too.
    pub async fn tokens(&self, caller: &Caller) -> Result<Vec<(Token, Used)>, Error> {
        caller.may(Verb::Administer)?;
        let mut listed = Vec::new();
        for token in self.bridge.tokens() {
            listed.push(self.with_use(token).await?);
        }
        Ok(listed)
    }

    /// Changes the quota of a token. What was handed over with it already stays.
    pub async fn change_quota(
        &self,
        caller: &Caller,
        name: &str,
        quota: NewQuota,
    ) -> Result<(Token, Used), Error> {
        caller.may(Verb::Administer)?;
        self.with_use(self.bridge.change_quota(name, quota, &caller.name).await?).await
    }

    /// Makes a token worthless, also for calls that are being answered.
    pub async fn revoke_token(&self, caller: &Caller, name: &str) -> Result<(Token, Used), Error> {
        caller.may(Verb::Administer)?;
        self.with_use(self.bridge.revoke_token(name, &caller.name).await?).await
    }

    async fn with_use(&self, token: Token) -> Result<(Token, Used), Error> {
        let used = self.bridge.store().used_by(&token.name).await?;
        Ok((token, used))
    }

    /// What is wrong with the store.
    pub async fn check_store(&self, caller: &Caller) -> Result<Vec<String>, Error> {
        caller.may(Verb::Administer)?;
        Ok(self.bridge.store().check().await?)
    }

    /// Copies the store to a new file.
    pub async fn back_up(&self, caller: &Caller, file: &Path) -> Result<(), Error> {
        caller.may(Verb::Administer)?;
        self.bridge.note(&caller.name, "back up store", None).await?;
        Ok(self.bridge.store().backup(file).await?)
    }

    /// Forgets tasks that are older than the configuration says. Gives their number.
    pub async fn forget_old(&self, caller: &Caller) -> Result<u64, Error> {
        caller.may(Verb::Administer)?;
        self.bridge.note(&caller.name, "forget old tasks", None).await?;
        self.bridge.forget_old().await
    }

    /// Who decided or commanded what, the oldest first; of one task if its id, or the beginning of its id, is given.
    pub async fn audit_log(
        &self,
        caller: &Caller,
        task: Option<&str>,
        since: Option<TimeMs>,
        limit: u32,
    ) -> Result<Vec<AuditLine>, Error> {
        caller.may(Verb::Administer)?;
        self.bridge.audit_log(task, since, limit).await
    }

    /// Records who stops the daemon. The program stops it.
    pub async fn note_stop(&self, caller: &Caller, with_hosts: bool) -> Result<(), Error> {
        caller.may(Verb::Administer)?;
        self.bridge.note(&caller.name, if with_hosts { "stop with hosts" } else { "stop" }, None).await
    }

    /// Checks whether a directory may have a level of trust: not if no task may work there, and `trusted` not if it holds the
    /// whole home.
    pub fn check_trust(&self, dir: &Path, level: Trust) -> Result<(), Error> {
        let refused = |what: &str, why: &Overlap| {
            let message = format!("{} {what}: {why}", dir.display());
            Refusal::new(Rule::TrustRefused, message, "name the directory of one project").into()
        };
        match self.rules().protected.overlap(dir) {
            Some(why @ Overlap::Inside(_)) => Err(refused("can have no level", &why)),
            Some(why @ Overlap::HoldsHome(_)) if level == Trust::Trusted => {
                Err(refused("cannot be trusted", &why))
            }
            _ => Ok(()),
        }
    }

    /// As [`Desk::check_trust`]. Also refuses to raise a directory to `trusted` while tasks can write in it: Codex would follow
    /// the configuration that they wrote.
    pub async fn may_trust(&self, caller: &Caller, dir: &Path, level: Trust) -> Result<(), Error> {
        caller.may(Verb::Administer)?;
        self.check_trust(dir, level)?;
        let is_raised = level == Trust::Trusted && !self.bridge.is_trusted_root(dir);
        let writers = if is_raised { self.bridge.writers_in(dir).await? } else { Vec::new() };
        let Some(first) = writers.first() else { return Ok(()) };
        let ids: Vec<&str> = writers.iter().take(5).map(TaskId::short).collect();
        let message = format!(
            "{} cannot be trusted while these tasks can write in it: {}",
            dir.display(),
            ids.join(", ")
        );
        let hint = format!("wait until they are finished, or run `codex-bridge interrupt {}`", first.short());
        Err(Refusal::new(Rule::TrustUnderWriters, message, hint).into())
    }

    /// Records who decides how far a directory is trusted. The program writes the operator's file.
    pub async fn note_trust(&self, caller: &Caller, detail: &str) -> Result<(), Error> {
        caller.may(Verb::Administer)?;
        self.bridge.note_trust(&caller.name, detail).await
    }
}
