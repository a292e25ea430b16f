//! Decisions on requests: stored first, given to Codex once, reported when Codex has confirmed.

use std::time::Duration;

use codex_session::Decision;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::runner::{Command, Decide, Recorded};
use super::{Bridge, Error};
use crate::decision::{DecisionOutcome, DecisionReport, is_no, is_yes};
use crate::inbox::answer;
use crate::request::{RequestName, RequestRecord, RequestState};
use crate::store::RequestFilter;
use crate::task::TaskId;

/// How long Codex may take to confirm a decision before the caller is told that it is on its way.
const TAKEN_LIMIT: Duration = Duration::from_secs(30);
/// The most requests that are compared when a short name matches several.
const MAX_CANDIDATES: u32 = 16;

/// Selects the request that a decision is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestSelector<'a> {
    /// The request with this name and this digest, as somebody was shown it. Approvals need this form or `Revealed`.
    Shown {
        /// The request's name.
        request_id: &'a str,
        /// The digest of what was shown.
        digest: &'a str,
    },
    /// As `Shown`, with all secrets visible, at the machine itself.
    Revealed {
        /// The request's name.
        request_id: &'a str,
        /// The digest of what was shown.
        digest: &'a str,
    },
    /// The request with this name, whatever it asks. It can only be declined.
    Named(&'a str),
    /// The task's only open request, whatever it asks. It can only be declined.
    Only,
}

impl Bridge {
    /// Decides on a request. The first decision wins; later callers are told who decided and what.
    pub async fn decide(
        &self,
        task: &str,
        which: RequestSelector<'_>,
        decision: Decision,
        by: &str,
    ) -> Result<DecisionReport, Error> {
        self.record_decision(task, which, decision, by).await?.await
    }

    /// Stores a decision. The returned future waits until Codex has confirmed it.
    pub(crate) async fn record_decision(
        &self,
        task: &str,
        which: RequestSelector<'_>,
        decision: Decision,
        by: &str,
    ) -> Result<BoxFuture<'static, Result<DecisionReport, Error>>, Error> {
        let task_id = self.find(task).await?.id;
        let mut watch = self.watch(&task_id);
        let request = match which.names().0 {
            Some(request_id) => self.request(&task_id, request_id).await?,
            None => self.only_open_request(&task_id).await?,
        };
        let too_late = |request| Ok(ready(Ok(report(&request, late_outcome(request.state)))).boxed());
        if request.state != RequestState::Open {
            return too_late(request);
        }
        let (decision, by) = (self.checked(which, &request, decision)?, by.to_owned());
        let recorded =
            self.to_completion(|bridge| async move { bridge.record_by_runner(request, decision, by).await });
        let mut request = match recorded.await? {
            Recorded::First(request) => request,
            Recorded::TooLate(request) => return too_late(request),
        };
        let (bridge, give_up_at) = (self.clone(), Instant::now() + TAKEN_LIMIT);
        let taken = async move {
            while request.state == RequestState::Decided {
                if timeout_at(give_up_at, watch.changed()).await.is_err() {
                    return Ok(report(&request, DecisionOutcome::Sent));
                }
                request = bridge.request(&task_id, request.request_id.as_str()).await?;
            }
            let is_taken = request.state == RequestState::Resolved;
            let outcome = if is_taken { DecisionOutcome::Resolved } else { late_outcome(request.state) };
            Ok(report(&request, outcome))
        };
        Ok(taken.boxed())
    }

    /// Checks that the decision is possible on this request. Returns it in the form for Codex.
    fn checked(
        &self,
        which: RequestSelector<'_>,
        request: &RequestRecord,
        decision: Decision,
    ) -> Result<Decision, Error> {
        which.check(request, &self.digest_of_whole(request)?, &decision)?;
        if request.ask.is_question() && is_yes(&decision) {
            return Err(Error::IsQuestion(request.request_id.clone()));
        }
        if !request.offers(&decision) {
            let message = format!(
                "request {} can be accepted only once, not for the session: it asks for more than the sandbox allows",
                request.request_id.short()
            );
            return Err(Error::Refused(message));
        }
        answer::as_asked(&request.ask, decision).map_err(Error::BadAnswers)
    }

    /// Has the task's runner store a decision, because the runner owns the requests of its turn.
    async fn record_by_runner(
        &self,
        request: RequestRecord,
        decision: Decision,
        by: String,
    ) -> Result<Recorded, Error> {
        let RequestRecord { task_id, request_id, digest, .. } = request;
        let (reply, recorded) = oneshot::channel();
        let decide = Decide { request_id: request_id.clone(), digest, decision, by, reply };
        // No deadline: a runner replies, or drops the reply when it ends.
        if let Some(runner) = self.inner.runner(&task_id)
            && runner.send(Command::Decide(decide)).await.is_ok()
            && let Ok(recorded) = recorded.await
        {
            return recorded;
        }
        // No runner: the turn has ended, and its requests with it.
        Ok(Recorded::TooLate(self.request(&task_id, request_id.as_str()).await?))
    }

    /// The request without redaction. The audit log records who saw it.
    pub async fn reveal(&self, request: &RequestRecord, by: &str) -> Result<String, Error> {
        let id = &request.request_id;
        let Some(sealed) = request.sealed_ask.as_deref() else {
            let is_open = request.state == RequestState::Open;
            let why = match (is_open, request.ask.needs_reveal) {
                (false, _) => "is closed: the secrets in it are erased",
                (true, true) => "is too long to be stored with its secrets: it can only be declined",
                (true, false) => "hides nothing: its normal view is complete",
            };
            return Err(Error::Refused(format!("request {} {why}", id.short())));
        };
        let opened = self.inner.key.open(sealed, id.as_str())?;
        self.note(by, "reveal", Some(&request.task_id)).await?;
        String::from_utf8(opened).map_err(|error| Error::Refused(error.to_string()))
    }

    /// A request of a task, by its name, a unique beginning of its name, or Codex's own id.
    pub async fn request(&self, task_id: &TaskId, request_id: &str) -> Result<RequestRecord, Error> {
        let mut named = self.requests_named(Some(task_id), request_id).await?;
        match named.len() {
            0 => {}
            1 => return Ok(named.remove(0)),
            _ => return Err(Error::AmbiguousRequest(request_id.trim().to_owned())),
        }
        let requests = self.requests(task_id.clone()).await?;
        // The newest one: Codex counts its ids from 0 on each host.
        let found = requests.into_iter().rev().find(|request| request.key.id.to_string() == request_id);
        found.ok_or_else(|| Error::UnknownRequest(request_id.to_owned()))
    }

    /// The requests that a name can mean, in one task or in all: the request with exactly this name, or the requests whose
    /// names begin with it. A beginning has at least one digit after the prefix that all names share. More than
    /// [`MAX_CANDIDATES`] matches are an error.
    pub(crate) async fn requests_named(
        &self,
        task_id: Option<&TaskId>,
        name: &str,
    ) -> Result<Vec<RequestRecord>, Error> {
        let name = name.trim();
        let of_task = RequestFilter { task_id: task_id.cloned(), ..RequestFilter::default() };
        let exact = RequestFilter { request_id: Some(name.into()), ..of_task.clone() };
        let found = self.inner.store.requests(&exact).await?;
        let is_beginning = name.strip_prefix(RequestName::WORD).is_some_and(|digits| !digits.is_empty());
        if !found.is_empty() || !is_beginning {
            return Ok(found);
        }
        let (id_prefix, limit) = (Some(name.to_owned()), Some(MAX_CANDIDATES + 1));
        let found = self.inner.store.requests(&RequestFilter { id_prefix, limit, ..of_task }).await?;
        if found.len() > MAX_CANDIDATES as usize {
            return Err(Error::AmbiguousRequest(name.to_owned()));
        }
        Ok(found)
    }

    /// The digest of a request together with its complete changes. Only a caller who opened the changes knows it.
    pub(super) fn digest_of_whole(&self, request: &RequestRecord) -> Result<String, Error> {
        let text = format!("{} {}", request.request_id, request.digest);
        Ok(self.inner.key.mark(text.as_bytes(), "whole changes")?)
    }

    async fn only_open_request(&self, task_id: &TaskId) -> Result<RequestRecord, Error> {
        let mut open = self.open_requests(Some(task_id.clone())).await?;
        match open.len() {
            1 => Ok(open.remove(0)),
            0 => Err(Error::NoOpenRequest(task_id.clone())),
            _ => {
                let several = format!("task {} has several open requests: say which one", task_id.short());
                Err(Error::Refused(several))
            }
        }
    }
}

impl<'a> RequestSelector<'a> {
    /// The name of the request and the digest of what was shown.
    fn names(self) -> (Option<&'a str>, Option<&'a str>) {
        match self {
            Self::Shown { request_id, digest } | Self::Revealed { request_id, digest } => {
                (Some(request_id), Some(digest))
            }
            Self::Named(request_id) => (Some(request_id), None),
            Self::Only => (None, None),
        }
    }

    /// Whether the caller may make this decision. Declining is always allowed. Approving changes that lists show cut
    /// needs the digest of the complete changes.
    fn check(self, request: &RequestRecord, of_whole: &str, decision: &Decision) -> Result<(), Error> {
        let (digest, is_revealed) = (self.names().1, matches!(self, Self::Revealed { .. }));
        let names_whole = digest == Some(of_whole);
        match digest {
            // A request of an older version has no digest, and matches none.
            Some(digest) if request.digest.is_empty() || (digest != request.digest && !names_whole) => {
                Err(Error::AnotherRequest(request.request_id.clone()))
            }
            None if !is_no(decision) => Err(Error::NotShown(request.request_id.clone())),
            _ if request.ask.has_cut_diff() && !names_whole && !is_revealed && !is_no(decision) => {
                Err(Error::NotOpened(request.request_id.clone()))
            }
            _ if request.ask.needs_reveal && !is_revealed && !is_no(decision) => {
                Err(Error::NeedsReveal(request.request_id.clone()))
            }
            _ => Ok(()),
        }
    }
}

fn report(request: &RequestRecord, outcome: DecisionOutcome) -> DecisionReport {
    DecisionReport {
        task_id: request.task_id.clone(),
        request_id: request.request_id.clone(),
        decision: request.decision.clone(),
        outcome,
        decided_by: request.decided_by.clone(),
        decided_at: request.decided_at,
    }
}

fn late_outcome(state: RequestState) -> DecisionOutcome {
    match state {
        RequestState::Expired => DecisionOutcome::Expired,
        RequestState::Open | RequestState::Orphaned => DecisionOutcome::Orphaned,
        _ => DecisionOutcome::AlreadyResolved,
    }
}
