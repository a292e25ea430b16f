//! Whether people were shown what they agree to in words: whole, at the very place where they write, and before they
//! wrote. A no needs none of this.

use super::super::{Bridge, Error};
use crate::inbox::Message;
use crate::outbox::{Asked, Delivery, State};
use crate::request::RequestRecord;
use crate::store::DeliveryFilter;
use crate::task::TimeMs;

/// What people at a place had seen of a request when one of them wrote something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sight {
    /// Nothing.
    None,
    /// Not all of it, or without knowing whether they did.
    Part,
    /// Nothing yet: it was shown after they had written.
    After,
    /// All of it.
    Whole,
}

impl Sight {
    /// Why a yes does not count, and what to do; none if it does.
    pub(super) fn objection(self, request: &RequestRecord) -> Option<String> {
        let (id, task) = (&request.request_id, &request.task_id);
        let elsewhere = format!(
            "`codex-bridge requests {task}` and the web page show all of it, `codex-bridge approve {task} {id}` \
             approves it; /deny {id} denies it."
        );
        Some(match self {
            Self::Whole => return None,
            Self::After => {
                format!("{id} was shown here only after this was written. Read it; then write /approve {id}.")
            }
            Self::Part => format!("{id} is not approved: it could not be shown here whole. {elsewhere}"),
            Self::None => format!("{id} is not approved: it has not been shown here. {elsewhere}"),
        })
    }
}

impl Bridge {
    /// What had been seen of a request where this message was written.
    pub(super) async fn sight_of(&self, request: &RequestRecord, message: &Message) -> Result<Sight, Error> {
        let told = DeliveryFilter {
            task_ids: vec![request.task_id.clone()],
            states: vec![State::Delivered],
            request_id: Some(request.request_id.clone()),
            ..DeliveryFilter::default()
        };
        let told = self.inner.store.deliveries(&told).await?.into_iter();
        let here = told.filter(|one| is_same_place(&one.target, &message.reply_to));
        Ok(here.map(|one| sight(&one, request, written_until(message.sent_at))).max().unwrap_or(Sight::None))
    }
}

/// What a notice that was delivered has shown of a request until then.
fn sight(delivery: &Delivery, request: &RequestRecord, until: TimeMs) -> Sight {
    // Under the same name something else may have been asked.
    let is_it = |asked: &&Asked| asked.request_id == request.request_id && asked.digest == request.digest;
    match delivery.notice.requests().iter().find(is_it) {
        // What was delivered changes no more.
        Some(asked) if asked.was_shown && delivery.updated_at <= until => Sight::Whole,
        Some(asked) if asked.was_shown => Sight::After,
        Some(_) => Sight::Part,
        None => Sight::None,
    }
}

/// The last moment at which something may have been written: Telegram tells whole seconds.
fn written_until(sent_at: TimeMs) -> TimeMs {
    if sent_at % 1_000 == 0 { sent_at + 999 } else { sent_at }
}

/// A plugin's place can be named as such.
fn is_same_place(one: &str, other: &str) -> bool {
    let bare = |target: &'_ str| target.strip_prefix("plugin:").unwrap_or(target).to_owned();
    bare(one) == bare(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::Notice;
    use crate::request::RequestState;
    use crate::store::conformance::samples;

    #[test]
    fn only_what_was_shown_whole_before_counts() {
        let request = samples::request(1, codex_wire::RequestId::Number(0), RequestState::Open);
        let mut notice = Notice::of_request(&samples::new_task(1), &request);
        let at = |notice: &Notice, shown_at, until| {
            let delivery =
                Delivery { updated_at: shown_at, ..Delivery::new("dlv-1".into(), "a:b", notice.clone(), 0) };
            sight(&delivery, &request, until)
        };
        assert_eq!(at(&notice, 5, 9), Sight::Part);
        notice.note_shown(std::slice::from_ref(&request.request_id), &redact::Redactor::default());
        assert_eq!((at(&notice, 5, 5), at(&notice, 5, 4)), (Sight::Whole, Sight::After));
        notice.requests_mut().unwrap()[0].digest = "another".to_owned();
        assert_eq!(at(&notice, 5, 9), Sight::None);
        notice.requests_mut().unwrap().clear();
        assert_eq!(at(&notice, 5, 9), Sight::None);
    }

    #[test]
    fn a_time_in_seconds_is_any_moment_of_its_second() {
        assert_eq!((written_until(7_000), written_until(7_001)), (7_999, 7_001));
        assert!(is_same_place("plugin:echo:room", "echo:room") && !is_same_place("echo:room", "echo:room2"));
    }
}
