//! People whom the operator allows beside those of the configuration. A stranger has a code, by which the operator knows who is
//! meant; where the operator wants that, the stranger is told it.

use std::sync::Arc;

use super::Chats;
use crate::bridge::Error;
use crate::desk::{Caller, Verb};
use crate::inbox::strangers::KnockLine;
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
    pub(super) fn invitation(
        &self,
        rules: &Rules,
        arrival: &Arrival,
        line: &KnockLine,
        now: TimeMs,
    ) -> Option<Write> {
        let code = line.code.as_ref()?;
        let is_person = arrival.sender.party == Party::Person && arrival.room == Room::Direct;
        if !rules.pairing || !is_person {
            return None;
        }
        let text = format!(
            "You may not write to Codex here yet. The operator can allow you with this command:\n\
             codex-bridge channel allow {code}"
        );
        let id = DeliveryId(format!("dlv-{}", self.inner().random_hex()));
        let content = Content::Reply(Reply::new(None, &text));
        let delivery = Delivery::new(id, &arrival.reply_to, Notice { at: now, content }, now);
        Some(Write::AddDelivery(Box::new(delivery)))
    }

    /// Allows the stranger with this code to write. Returns the channel and the stranger's id.
    pub async fn allow(
        &self,
        caller: &Caller,
        code: &str,
        role: Role,
    ) -> Result<(ChannelName, Allowed), Error> {
        caller.may(Verb::Administer)?;
        let knock = self.inbox.strangers().let_in(code);
        let knock = knock.ok_or_else(|| {
            Error::Refused(format!(
                "no stranger has the code {code}: codes end with the daemon; `codex-bridge channel list` shows them"
            ))
        })?;
        let allowed = Allowed { sender: knock.sender_id, role, place: None };
        let (channel, by) = (knock.channel, caller.name.clone());
        self.to_completion(|chats| async move {
            let given = allowed.clone();
            chats
                .change_allowed(&channel, &by, "allow", &given.sender.clone(), move |all| all.push(given))
                .await?;
            Ok((channel, allowed))
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
        self.to_completion(|chats| async move {
            chats.change_allowed(&channel, &by, "disallow", &sender_id, |_| {}).await
        })
        .await
    }

    /// Changes who is allowed: first nobody of this id is, then `change` is made.
    async fn change_allowed(
        &self,
        channel: &ChannelName,
        by: &str,
        action: &str,
        sender_id: &str,
        change: impl FnOnce(&mut Vec<Allowed>) + Send,
    ) -> Result<(), Error> {
        // Taking messages in changes the record too.
        let _taking = self.inbox.taking.lock().await;
        let before = self.channel(channel).await?;
        let mut allowed = before.allowed.clone();
        allowed.retain(|one| one.sender != sender_id);
        change(&mut allowed);
        if allowed.len() > MOST {
            return Err(Error::Refused(format!("more than {MOST} people cannot be allowed by codes")));
        }
        let noted = self.inner().audit(by, action, None, &format!("{channel}:{sender_id}"));
        let record =
            ChannelRecord { allowed: allowed.clone(), updated_at: self.inner().now(), ..before.clone() };
        self.inner().commit(vec![noted, Write::SaveChannel(Box::new(record))]).await?;
        if let Some(rules) = self.inbox.rules(channel) {
            let mut allow = rules.allow.clone();
            allow.retain(|one| !before.allowed.contains(one));
            allow.extend(allowed);
            let rules = Rules { allow, ..(*rules).clone() };
            self.inbox.channels().insert(channel.clone(), Arc::new(rules));
        }
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
