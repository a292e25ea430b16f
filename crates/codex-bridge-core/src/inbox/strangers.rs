//! Strangers: people who wrote without being allowed to. Little is kept of them: the last ones in memory, and a few
//! lines in the audit log. Their texts are never kept. Pure.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::{ChannelName, ConversationKey};
use crate::task::TimeMs;

/// A stranger is recorded again only after this time.
const NOTED_MS: TimeMs = 60 * 60 * 1000;
/// How many strangers are kept in memory.
const KNOCKS: usize = 100;
/// How many strangers of one channel get their own audit line within [`NOTED_MS`]. They must not crowd out decisions.
const LINES: u32 = 20;
/// How many strangers of one channel are told their code within [`NOTED_MS`].
const INVITATIONS: u32 = 100;

/// A stranger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knock {
    /// The channel.
    pub channel: ChannelName,
    /// The platform's id, by which the operator could allow the stranger.
    pub sender_id: String,
    /// The stranger's name for people.
    pub sender_name: String,
    /// The conversation.
    pub conversation: ConversationKey,
    /// The code by which the operator can allow the stranger.
    pub code: String,
    /// How many attempts there were.
    pub count: u64,
    /// When the last attempt was.
    pub last_at: TimeMs,
}

/// A line for the audit log.
#[derive(Debug, PartialEq, Eq)]
pub struct KnockLine {
    /// The stranger.
    pub actor: String,
    /// How the stranger tried.
    pub detail: String,
}

/// Strangers, and how many audit lines and invitations were written.
#[derive(Debug, Default)]
pub struct Strangers {
    /// The last strangers, the newest last.
    last: Vec<Stranger>,
    lines: BTreeMap<ChannelName, Hourly>,
    invitations: BTreeMap<ChannelName, Hourly>,
}

#[derive(Debug)]
struct Stranger {
    knock: Knock,
    /// When the stranger's last audit line was due.
    noted_at: TimeMs,
    /// When the stranger was last told the code.
    invited_at: Option<TimeMs>,
}

/// Counts within [`NOTED_MS`].
#[derive(Debug, Default)]
struct Hourly {
    since: TimeMs,
    count: u32,
}

impl Hourly {
    /// Counts one more. Returns the new count.
    fn next(&mut self, now: TimeMs) -> u32 {
        if self.count == 0 || self.since + NOTED_MS < now {
            *self = Self { since: now, count: 0 };
        }
        self.count = self.count.saturating_add(1);
        self.count
    }
}

impl Strangers {
    /// The last strangers, the newest last.
    pub fn last(&self) -> Vec<Knock> {
        self.last.iter().map(|one| one.knock.clone()).collect()
    }

    /// Records a stranger. Returns the audit line to write, if any.
    pub fn knock(&mut self, knock: Knock, how: &str) -> Option<KnockLine> {
        let now = knock.last_at;
        let known = self.position(&knock.channel, &knock.sender_id).map(|at| self.last.remove(at));
        let is_news = known.as_ref().is_none_or(|known| known.noted_at + NOTED_MS < now);
        let line = if is_news { self.line(&knock, how) } else { None };
        self.last.push(match known {
            Some(Stranger { knock: before, noted_at, invited_at }) => Stranger {
                knock: Knock { count: before.count + 1, code: before.code, ..knock },
                noted_at: if is_news { now } else { noted_at },
                invited_at,
            },
            None => Stranger { knock, noted_at: now, invited_at: None },
        });
        let surplus = self.last.len().saturating_sub(KNOCKS);
        self.last.drain(..surplus);
        line
    }

    /// The code to tell a stranger who has just knocked. `None` if the stranger was told it within the hour, or too many
    /// others were.
    pub fn invite(&mut self, channel: &ChannelName, sender_id: &str, now: TimeMs) -> Option<String> {
        let at = self.position(channel, sender_id)?;
        let stranger = &mut self.last[at];
        let is_due = stranger.invited_at.is_none_or(|at| at + NOTED_MS < now);
        if !is_due || self.invitations.entry(channel.clone()).or_default().next(now) > INVITATIONS {
            return None;
        }
        stranger.invited_at = Some(now);
        Some(stranger.knock.code.clone())
    }

    /// The stranger with this code.
    pub fn with_code(&self, code: &str) -> Option<Knock> {
        let mut knocks = self.last.iter().map(|one| &one.knock);
        knocks.find(|knock| knock.code.eq_ignore_ascii_case(code)).cloned()
    }

    /// Forgets somebody who is no stranger any more.
    pub fn forget(&mut self, knock: &Knock) {
        self.last.retain(|one| one.knock.code != knock.code);
    }

    fn position(&self, channel: &ChannelName, sender_id: &str) -> Option<usize> {
        self.last.iter().position(|one| one.knock.channel == *channel && one.knock.sender_id == sender_id)
    }

    /// The stranger's own line, one line for all further strangers, or none.
    fn line(&mut self, knock: &Knock, how: &str) -> Option<KnockLine> {
        let Knock { channel, sender_id, last_at: now, .. } = knock;
        let count = self.lines.entry(channel.clone()).or_default().next(*now);
        let (actor, detail) = match count.cmp(&(LINES + 1)) {
            Ordering::Less => (format!("{channel}:{sender_id}"), how.to_owned()),
            Ordering::Equal => {
                (channel.to_string(), "and others, who are not recorded for an hour".to_owned())
            }
            Ordering::Greater => return None,
        };
        Some(KnockLine { actor, detail })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knock(who: u32, at: TimeMs) -> Knock {
        Knock {
            channel: "chat".into(),
            sender_id: who.to_string(),
            sender_name: "Eve".to_owned(),
            conversation: "room".into(),
            code: format!("{who}-{at}"),
            count: 1,
            last_at: at,
        }
    }

    #[test]
    fn a_stranger_is_told_the_code_once_an_hour_however_often_they_write() {
        let mut strangers = Strangers::default();
        let mut told = |who: u32, at: TimeMs| {
            strangers.knock(knock(who, at), "words");
            strangers.invite(&"chat".into(), &who.to_string(), at)
        };
        assert_eq!(
            (told(0, 1), told(0, NOTED_MS), told(0, NOTED_MS + 1)),
            (Some("0-1".to_owned()), None, None)
        );
        assert_eq!(told(0, NOTED_MS + 2), Some("0-1".to_owned()));
        let many = (1..=INVITATIONS + 50).filter(|who| told(*who, NOTED_MS + 3).is_some()).count();
        assert_eq!(many, INVITATIONS as usize - 1, "more than have an audit line, and not without end");
    }

    #[test]
    fn a_crowd_has_few_lines_and_each_hour_begins_anew() {
        let mut strangers = Strangers::default();
        let mut knock =
            |who: u32, at: TimeMs| strangers.knock(knock(who, at), "a button").map(|line| line.actor);
        assert_eq!((knock(0, 0), knock(0, 1)), (Some("chat:0".to_owned()), None), "one line an hour");
        let lines: Vec<_> = (1..50).filter_map(|who| knock(who, 2)).collect();
        assert_eq!((lines.len(), lines.last().unwrap().as_str()), (20, "chat"), "the last is for all others");
        assert_eq!(knock(0, NOTED_MS + 2), Some("chat:0".to_owned()));
        (0..200).for_each(|who| drop(knock(who, NOTED_MS + 3)));
        let last = strangers.last();
        assert_eq!((last.len(), last[99].sender_id.as_str(), last[99].count), (KNOCKS, "199", 1));
        let code = last[99].code.clone();
        let found = strangers.with_code(&code).unwrap();
        assert_eq!(found.sender_id, "199");
        strangers.forget(&found);
        assert_eq!(strangers.with_code(&code), None);
    }
}
