//! Creates, lists, revokes and recognizes tokens. All tokens are kept in memory, because every remote call needs one.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::watch;

use super::{Bridge, Error};
use crate::seal;
use crate::store::Write;
use crate::task::TimeMs;
use crate::token::{self, NewQuota, Quota, Role, Token};

/// The accuracy of a token's last use.
const SEEN_EVERY_MS: TimeMs = 60_000;

/// The stored tokens.
#[derive(Debug)]
pub(super) struct Tokens {
    known: RwLock<Vec<Token>>,
    /// Changes whenever a token is revoked.
    revoked: watch::Sender<()>,
}

impl Tokens {
    pub(super) fn new(stored: Vec<Token>) -> Self {
        Self { known: RwLock::new(stored), revoked: watch::Sender::new(()) }
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<Token>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Vec<Token>> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn valid(&self, name: &str) -> Option<Token> {
        self.read().iter().find(|token| token.name == name && token.is_valid()).cloned()
    }

    fn put(&self, token: Token) {
        let is_valid = token.is_valid();
        let mut tokens = self.write();
        tokens.retain(|known| known.name != token.name);
        tokens.push(token);
        drop(tokens);
        if !is_valid {
            self.revoked.send_replace(());
        }
    }
}

impl Bridge {
    /// Creates a token. Returns it with its secret, which is not stored. The name of a revoked token can be used again.
    pub async fn create_token(
        &self,
        name: &str,
        role: Role,
        quota: NewQuota,
        by: &str,
    ) -> Result<(Token, String), Error> {
        let (name, by) = (name.to_owned(), by.to_owned());
        self.to_completion(|bridge| async move {
            let inner = &bridge.inner;
            let _changing = inner.changing.lock().await;
            if inner.tokens.valid(&name).is_some() {
                return Err(token::Error::Exists(name).into());
            }
            let (token, secret) = Token::new(&name, role, quota.over(Quota::default())?, inner.now())?;
            bridge.save_token(&token, &by, &format!("create token with role {role}")).await?;
            Ok((token, secret))
        })
        .await
    }

    /// All tokens, revoked ones included, the oldest first.
    pub fn tokens(&self) -> Vec<Token> {
        let mut tokens = self.inner.tokens.read().clone();
        tokens.sort_by(|one, other| (one.created_at, &one.name).cmp(&(other.created_at, &other.name)));
        tokens
    }

    /// Revokes a token: for later calls, and for calls that are being answered ([`Bridge::revocations`]).
    pub async fn revoke_token(&self, name: &str, by: &str) -> Result<Token, Error> {
        let (name, by) = (name.to_owned(), by.to_owned());
        self.to_completion(|bridge| async move {
            let _changing = bridge.inner.changing.lock().await;
            let known = bridge.inner.tokens.valid(&name);
            let mut token = known.ok_or_else(|| token::Error::Unknown(name.clone()))?;
            token.revoked_at = Some(bridge.inner.now());
            bridge.save_token(&token, &by, "revoke token").await?;
            Ok(token)
        })
        .await
    }

    pub(super) async fn save_token(&self, token: &Token, by: &str, action: &str) -> Result<(), Error> {
        let batch =
            vec![Write::SaveToken(Box::new(token.clone())), self.inner.audit(by, action, None, &token.name)];
        self.inner.commit(batch).await?;
        self.inner.tokens.put(token.clone());
        Ok(())
    }

    /// The valid token with this secret.
    pub fn recognise(&self, secret: &str) -> Option<Token> {
        let hash = token::hash(secret);
        let tokens = self.inner.tokens.read();
        // Compares with all tokens, so that the time taken does not reveal which one matched.
        let found =
            tokens.iter().fold(None, |found, token| if token.is_of(&hash) { Some(token) } else { found });
        found.filter(|token| token.is_valid()).cloned()
    }

    /// Whether a token that was recognized before is still valid. Does not authenticate: the store has both.
    pub fn is_still_valid(&self, name: &str, hash: &[u8]) -> bool {
        self.inner.tokens.valid(name).is_some_and(|token| token.is_of(hash))
    }

    /// Changes whenever a token is revoked. A door that serves a long call must then check its token again.
    pub fn revocations(&self) -> watch::Receiver<()> {
        self.inner.tokens.revoked.subscribe()
    }

    /// Records from time to time that a token is in use. Does not wait.
    pub fn token_seen(&self, token: &Token) {
        let now = self.inner.now();
        if token.last_used_at.is_some_and(|seen| now - seen < SEEN_EVERY_MS) {
            return;
        }
        let bridge = self.clone();
        let name = token.name.clone();
        self.inner.tasks.spawn(async move {
            let _changing = bridge.inner.changing.lock().await;
            let Some(mut token) = bridge.inner.tokens.valid(&name) else { return };
            token.last_used_at = Some(now);
            bridge.inner.tokens.put(token.clone());
            // On a full disk this is not worth its space.
            if let Err(error) = bridge.inner.commit(vec![Write::SaveToken(Box::new(token))]).await {
                tracing::warn!(token = name, %error, "the time of a token's last use is not saved");
            }
        });
    }

    /// The key that seals data that callers bring back later.
    pub fn seal_key(&self) -> &seal::Key {
        &self.inner.key
    }
}
