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
    /// The stranger's code; `None` if the line is for several strangers.
    pub code: Option<String>,
    /// The stranger.
    pub actor: String,
    /// How the stranger tried.
    pub detail: String,
}

/// Strangers, and how many audit lines were written.
#[derive(Debug, Default)]
pub struct Strangers {
    /// The last strangers, the newest last.
    last: Vec<Knock>,
    /// Per channel: since when lines are counted, and how many there are.
    lines: BTreeMap<ChannelName, (TimeMs, u32)>,
}

impl Strangers {
    /// The last strangers, the newest last.
    pub fn last(&self) -> &[Knock] {
        &self.last
    }

    /// Records a stranger. Returns the audit line to write, if any.
    pub fn knock(&mut self, knock: Knock, how: &str) -> Option<KnockLine> {
        let is_same = |one: &Knock| (&one.channel, &one.sender_id) == (&knock.channel, &knock.sender_id);
        let known = self.last.iter().position(is_same).map(|at| self.last.remove(at));
        let is_news = known.as_ref().is_none_or(|known| known.last_at + NOTED_MS < knock.last_at);
        let knock = match known {
            Some(known) => Knock { count: known.count + 1, code: known.code, ..knock },
            None => knock,
        };
        let line = if is_news { self.line(&knock, how) } else { None };
        self.last.push(knock);
        let surplus = self.last.len().saturating_sub(KNOCKS);
        self.last.drain(..surplus);
        line
    }

    /// The stranger with this code, who is one no more.
    pub fn let_in(&mut self, code: &str) -> Option<Knock> {
        let at = self.last.iter().position(|one| one.code.eq_ignore_ascii_case(code))?;
        Some(self.last.remove(at))
    }

    /// The stranger's own line, one line for all further strangers, or none.
    fn line(&mut self, knock: &Knock, how: &str) -> Option<KnockLine> {
        let Knock { channel, sender_id, code, last_at: now, .. } = knock;
        let (since, count) = self.lines.entry(channel.clone()).or_insert((*now, 0));
        if *since + NOTED_MS < *now {
            (*since, *count) = (*now, 0);
        }
        *count = count.saturating_add(1);
        let (actor, detail, code) = match (*count).cmp(&(LINES + 1)) {
            Ordering::Less => (format!("{channel}:{sender_id}"), how.to_owned(), Some(code.clone())),
            Ordering::Equal => {
                (channel.to_string(), "and others, who are not recorded for an hour".to_owned(), None)
            }
            Ordering::Greater => return None,
        };
        Some(KnockLine { code, actor, detail })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_has_few_lines_and_each_hour_begins_anew() {
        let mut strangers = Strangers::default();
        let mut knock = |who: u32, at: TimeMs| {
            let knock = Knock {
                channel: "chat".into(),
                sender_id: who.to_string(),
                sender_name: "Eve".to_owned(),
                conversation: "room".into(),
                code: format!("{who}-{at}"),
                count: 1,
                last_at: at,
            };
            strangers.knock(knock, "a button").map(|line| line.actor)
        };
        assert_eq!((knock(0, 0), knock(0, 1)), (Some("chat:0".to_owned()), None), "one line an hour");
        let lines: Vec<_> = (1..50).filter_map(|who| knock(who, 2)).collect();
        assert_eq!((lines.len(), lines.last().unwrap().as_str()), (20, "chat"), "the last is for all others");
        assert_eq!(knock(0, NOTED_MS + 2), Some("chat:0".to_owned()));
        (0..200).for_each(|who| drop(knock(who, NOTED_MS + 3)));
        let last = strangers.last();
        assert_eq!((last.len(), last[99].sender_id.as_str(), last[99].count), (KNOCKS, "199", 1));
        let code = last[99].code.clone();
        assert_eq!(strangers.let_in(&code).map(|one| one.sender_id), Some("199".to_owned()));
        assert_eq!(strangers.let_in(&code), None);
    }
}
