//! People whom the operator allows beside those of the configuration. A stranger has a code, by which the operator knows who is
//! meant; where the operator wants that, the stranger is told it.

use std::sync::Arc;

use super::Chats;
use crate::bridge::Error;
use crate::desk::{Caller, Verb};
use crate::inbox::strangers::Knock;
use crate::inbox::{Allowed, Arrival, ChannelName, ChannelRecord, Party, Room, Rules};
use crate::outbox::notice::{Content, Reply};
use crate::outbox::{Delivery, DeliveryId, Notice};
use crate::store::Write;
use crate::task::TimeMs;
use crate::token::Role;

/// The letters of a code: no two that look alike.
const LETTERS: &[u8; 32] = b"23456789ABCDEFGHJKLMNPQRSTUVWXYZ";
/// How many letters a code has.
const LENGTH: usize = 8;
/// How many people may be allowed beside those of the configuration.
const MOST: usize = 1_000;

/// A code of eight letters from random hexadecimal digits, such as `K7Q29XJD`.
pub(super) fn code(random_hex: &str) -> String {
    let pairs = random_hex.as_bytes().chunks_exact(2).take(LENGTH);
    let letter = |pair: &[u8]| {
        let number = std::str::from_utf8(pair).ok().and_then(|pair| usize::from_str_radix(pair, 16).ok());
        char::from(LETTERS[number.unwrap_or_default() % LETTERS.len()])
    };
    pairs.map(letter).collect()
}

impl Chats {
    /// The reply to a stranger, if strangers of this channel are told their code: once an hour, and never in a group.
    pub(super) fn invitation(&self, rules: &Rules, arrival: &Arrival, now: TimeMs) -> Option<Write> {
        let is_person = arrival.sender.party == Party::Person && arrival.room == Room::Direct;
        if !rules.pairing || !is_person {
            return None;
        }
        let code = self.inbox.strangers().invite(&rules.channel, &arrival.sender.id, now)?;
        let text = format!(
            "You may not write to Codex here yet. The operator can allow you with this command:\n\
             codex-bridge channel allow {code}"
        );
        let id = DeliveryId(format!("dlv-{}", self.inner().random_hex()));
        let content = Content::Reply(Reply::new(None, &text));
        let delivery = Delivery::new(id, &arrival.reply_to, Notice { at: now, content }, now);
        Some(Write::AddDelivery(Box::new(delivery)))
    }

    /// Allows the stranger with this code to write. Returns the stranger.
    pub async fn allow(&self, caller: &Caller, code: &str, role: Role) -> Result<Knock, Error> {
        caller.may(Verb::Administer)?;
        let knock = self.inbox.strangers().with_code(code);
        let knock = knock.ok_or_else(|| {
            Error::Refused(format!(
                "no stranger has the code {code}: codes end with the daemon; `codex-bridge channel list` shows them"
            ))
        })?;
        let allowed = Allowed { sender: knock.sender_id.clone(), role, place: None };
        let by = caller.name.clone();
        self.to_completion(|chats| async move {
            chats.change_allowed(&knock.channel, &by, &knock.sender_id, Some(allowed)).await?;
            chats.inbox.strangers().forget(&knock);
            Ok(knock)
        })
        .await
    }

    /// Takes back what [`Self::allow`] gave.
    pub async fn disallow(
        &self,
        caller: &Caller,
        channel: &ChannelName,
        sender_id: &str,
    ) -> Result<(), Error> {
        caller.may(Verb::Administer)?;
        let record = self.channel(channel).await?;
        if !record.allowed.iter().any(|one| one.sender == sender_id) {
            return Err(Error::Refused(format!(
                "{sender_id} was not allowed on {channel} by a code; who is in `allow` is taken out of the configuration file"
            )));
        }
        let (channel, by, sender_id) = (channel.clone(), caller.name.clone(), sender_id.to_owned());
        self.to_completion(|chats| async move { chats.change_allowed(&channel, &by, &sender_id, None).await })
            .await
    }

    /// Changes what the person with this id may do by a code: nothing if `allowed` is `None`.
    async fn change_allowed(
        &self,
        channel: &ChannelName,
        by: &str,
        sender_id: &str,
        allowed: Option<Allowed>,
    ) -> Result<(), Error> {
        // Taking messages in changes the record too.
        let _taking = self.inbox.taking.lock().await;
        let before = self.channel(channel).await?;
        let (action, detail) = match &allowed {
            Some(allowed) => ("allow", format!("{channel}:{sender_id} as {}", allowed.role)),
            None => ("disallow", format!("{channel}:{sender_id}")),
        };
        let others = before.allowed.iter().filter(|one| one.sender != sender_id).cloned();
        let all: Vec<Allowed> = others.chain(allowed).collect();
        if all.len() > MOST {
            return Err(Error::Refused(format!("more than {MOST} people cannot be allowed by codes")));
        }
        let noted = self.inner().audit(by, action, None, &detail);
        let record = ChannelRecord { allowed: all.clone(), updated_at: self.inner().now(), ..before };
        self.inner().commit(vec![noted, Write::SaveChannel(Box::new(record))]).await?;
        if let Some(rules) = self.inbox.rules(channel) {
            let rules = Rules { allowed_by_code: all, ..(*rules).clone() };
            self.inbox.channels().insert(channel.clone(), Arc::new(rules));
        }
        // A running turn may have lost the person who decides.
        self.inbox.wake_for_all();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_eight_letters_that_can_be_told_apart() {
        assert_eq!(code("00ff10ab7f20e1c9deadbeef"), "2ZJDZ23B");
        assert!("01OI".bytes().all(|letter| !LETTERS.contains(&letter)));
    }
}
