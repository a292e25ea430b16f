//! The verbs of the machine's owner: tokens, the store, the audit log, the end of the daemon.

use std::path::Path;

use super::{Caller, Desk, Verb};
use crate::bridge::Error;
use crate::store::AuditLine;
use crate::task::TimeMs;
use crate::token::{NewQuota, Role, Token, Used};

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

    /// Records who decides how far a directory is trusted. The program writes the operator's file.
    pub async fn note_trust(&self, caller: &Caller, detail: &str) -> Result<(), Error> {
        caller.may(Verb::Administer)?;
        self.bridge.note_trust(&caller.name, detail).await
    }
}
