//! Targets and what they subscribe to: `local`, `webhook:ci?on=failed,approval`. Spaces or commas separate several.
//!
//! This module knows the grammar, but no platform and no configured target.

use super::Occasion;
use crate::task::Task;

/// The target without deliveries: it gets its reports by asking.
pub const LOCAL: &str = "local";
/// The limit for targets of a task.
const MOST_TARGETS: usize = 16;
/// The limit for the length of a target.
const MOST_BYTES: usize = 256;
/// The default subscription of a target.
const BY_DEFAULT: [Occasion; 4] =
    [Occasion::Completed, Occasion::Failed, Occasion::Approval, Occasion::Question];

/// A target and what it subscribes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// The target: a platform and, after a colon, a place.
    pub target: String,
    /// The occasions.
    pub occasions: Vec<Occasion>,
}

/// Why a text is not a list of targets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The word is not a target.
    #[error("{0:?} is not a target: write a platform and a place, as in telegram:CHAT")]
    NoTarget(String),
    /// The filter names an unknown occasion.
    #[error("unknown occasion {0:?}: use completed, failed, approval, question, paused or all")]
    NoOccasion(String),
    /// The target has an unknown setting.
    #[error("unknown setting {0:?} of a target: use ?on=")]
    NoSetting(String),
    /// There are too many targets.
    #[error("a task has at most {MOST_TARGETS} targets")]
    TooMany,
}

impl Subscription {
    /// All subscriptions of a task: the targets that were named at its start, and its own conversation. The
    /// conversation gets requests; its answers come as replies. A conversation's target need not follow the grammar.
    pub(crate) fn of(task: &Task) -> Vec<Self> {
        // A text that cannot be read was refused at the start.
        let named = task.notify_target.as_deref().unwrap_or_default();
        let mut all = Self::parse_all(named).unwrap_or_default();
        let asked = vec![Occasion::Approval, Occasion::Question];
        let conversation = task.asks_in.clone().map(|target| Self { target, occasions: asked });
        keep(&mut all, conversation);
        all
    }

    /// All targets in a text. A target that is named twice is merged.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, Error> {
        let mut all: Vec<Self> = Vec::new();
        for word in text.split_whitespace() {
            let mut last: Option<Self> = None;
            for piece in word.split(',').filter(|piece| !piece.is_empty()) {
                // No target has the name of an occasion, so a comma can separate both.
                match (&mut last, Occasion::of_filter(piece)) {
                    (Some(last), Some(occasions)) if word.contains("?on=") => last.add(&occasions),
                    _ => keep(&mut all, last.replace(Self::parse(piece)?)),
                }
            }
            keep(&mut all, last);
        }
        if all.len() > MOST_TARGETS { Err(Error::TooMany) } else { Ok(all) }
    }

    fn parse(piece: &str) -> Result<Self, Error> {
        let (target, setting) = piece.split_once('?').map_or((piece, None), |(one, two)| (one, Some(two)));
        let is_plain = |char: char| char.is_ascii_alphanumeric() || "@:._-+=/!#$".contains(char);
        if target.is_empty() || target.len() > MOST_BYTES || !target.chars().all(is_plain) {
            return Err(Error::NoTarget(target.chars().take(MOST_BYTES).collect()));
        }
        let occasions = match setting {
            None => BY_DEFAULT.to_vec(),
            Some(setting) => {
                let word = setting.strip_prefix("on=").ok_or_else(|| Error::NoSetting(setting.to_owned()))?;
                Occasion::of_filter(word).ok_or_else(|| Error::NoOccasion(word.to_owned()))?
            }
        };
        Ok(Self { target: target.to_owned(), occasions })
    }

    fn add(&mut self, occasions: &[Occasion]) {
        for occasion in occasions {
            if !self.occasions.contains(occasion) {
                self.occasions.push(*occasion);
            }
        }
    }

    /// Whether the target subscribes to this occasion.
    pub fn wants(&self, occasion: Occasion) -> bool {
        self.occasions.contains(&occasion)
    }

    /// Whether the target gets its reports by asking, without deliveries.
    pub fn is_local(&self) -> bool {
        self.target == LOCAL
    }
}

fn keep(all: &mut Vec<Subscription>, one: Option<Subscription>) {
    let Some(one) = one else { return };
    match all.iter_mut().find(|known| known.target == one.target) {
        Some(known) => known.add(&one.occasions),
        None => all.push(one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(one: &Subscription) -> String {
        let words: Vec<&str> = one.occasions.iter().map(|occasion| occasion.as_str()).collect();
        let is_default = one.occasions == BY_DEFAULT;
        if is_default { one.target.clone() } else { format!("{}?on={}", one.target, words.join(",")) }
    }

    fn check(text: &str, expected: &[&str]) {
        let found = Subscription::parse_all(text).unwrap();
        let found: Vec<String> = found.iter().map(written).collect();
        assert_eq!(found, expected, "{text:?}");
        assert_eq!(Subscription::parse_all(&found.join(" ")).unwrap().len(), expected.len());
    }

    #[test]
    fn targets_stand_between_spaces_or_commas_with_their_filters() {
        check("local", &["local"]);
        check(" webhook:ci ,, exec:mail\n", &["webhook:ci", "exec:mail"]);
        check("webhook:ci,exec:mail,local", &["webhook:ci", "exec:mail", "local"]);
        check("webhook:ci?on=failed", &["webhook:ci?on=failed"]);
        check(
            "webhook:ci?on=failed,paused,exec:mail local",
            &["webhook:ci?on=failed,paused", "exec:mail", "local"],
        );
        check("telegram:-1001234567890:17 feishu:oc_a-B1", &["telegram:-1001234567890:17", "feishu:oc_a-B1"]);
        check("local?on=all", &["local?on=completed,failed,approval,question,paused"]);
        check("", &[]);
    }

    #[test]
    fn a_target_that_is_named_twice_is_told_once() {
        check("exec:a?on=failed exec:a?on=paused,failed", &["exec:a?on=failed,paused"]);
    }

    #[test]
    fn what_is_no_target_is_refused() {
        let error = |text: &str| Subscription::parse_all(text).unwrap_err();
        assert_eq!(error("webhook:ci?on=done"), Error::NoOccasion("done".into()));
        assert_eq!(error("webhook:ci?at=noon"), Error::NoSetting("at=noon".into()));
        assert_eq!(error("a\u{202e}b"), Error::NoTarget("a\u{202e}b".into()));
        assert_eq!(error("?on=failed"), Error::NoTarget(String::new()));
        let many: Vec<String> = (0..17).map(|number| format!("exec:{number}")).collect();
        assert_eq!(error(&many.join(" ")), Error::TooMany);
    }

    #[test]
    fn a_conversation_is_asked_under_whatever_name_it_has() {
        let task = |notify_target: Option<&str>, asks_in: &str| Task {
            notify_target: notify_target.map(str::to_owned),
            asks_in: Some(asks_in.to_owned()),
            ..crate::store::conformance::samples::new_task(1)
        };
        let long = format!("plugin:echo:{}", "é".repeat(300));
        for name in ["plugin:echo:general room", "plugin:echo:a?on=paused,b", &long] {
            let [one] = &Subscription::of(&task(None, name))[..] else { panic!("{name}") };
            assert_eq!(one.target, name);
            assert!(one.wants(Occasion::Approval) && one.wants(Occasion::Question));
            assert!(!one.wants(Occasion::Completed), "its end is a reply");
        }
        let all = Subscription::of(&task(Some("exec:a telegram:1?on=failed"), "telegram:1"));
        let all: Vec<String> = all.iter().map(written).collect();
        assert_eq!(all, ["exec:a", "telegram:1?on=failed,approval,question"]);
    }

    #[test]
    fn a_pause_is_told_only_to_who_asked_for_it() {
        let [plain, all] = &Subscription::parse_all("exec:a exec:b?on=all").unwrap()[..] else { panic!() };
        assert!(!plain.wants(Occasion::Paused) && all.wants(Occasion::Paused));
        assert!(plain.wants(Occasion::Failed) && plain.wants(Occasion::Question));
    }
}
