//! Answering requests: recorded first, given to Codex once, reported when Codex took it.

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
use crate::request::{RequestRecord, RequestState};
use crate::store::RequestFilter;
use crate::task::TaskId;

/// How long Codex may take to take an answer before the caller is told that it is on its way.
const TAKEN_LIMIT: Duration = Duration::from_secs(30);

/// Which request a decision is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which<'a> {
    /// The one with this name and this digest, which somebody was shown. Nothing else can be agreed to.
    Shown {
        /// Its name.
        request_id: &'a str,
        /// Names what was shown.
        digest: &'a str,
    },
    /// The same, and it was shown with nothing hidden, at the machine itself.
    Revealed {
        /// Its name.
        request_id: &'a str,
        /// Names what was shown.
        digest: &'a str,
    },
    /// The one with this name, whatever it asks: to say no.
    Named(&'a str),
    /// The only one of the task that is open, whatever it asks: to say no.
    Only,
}

impl Bridge {
    /// Decides on a request. The first decision counts; who comes late is told who was first, and what they said.
    pub async fn decide(
        &self,
        task: &str,
        which: Which<'_>,
        decision: Decision,
        by: &str,
    ) -> Result<DecisionReport, Error> {
        self.begin_to_decide(task, which, decision, by).await?.await
    }

    /// Records a decision; what it gives waits for what Codex makes of it.
    pub(crate) async fn begin_to_decide(
        &self,
        task: &str,
        which: Which<'_>,
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
            self.to_its_end(|bridge| async move { bridge.have_recorded(request, decision, by).await });
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

    /// The decision as Codex is to get it, if it can be made on this request.
    fn checked(
        &self,
        which: Which<'_>,
        request: &RequestRecord,
        decision: Decision,
    ) -> Result<Decision, Error> {
        which.check(request, &self.digest_of_whole(request)?, &decision)?;
        if request.ask.is_question() && is_yes(&decision) {
            return Err(Error::IsQuestion(request.request_id.clone()));
        }
        if !request.offers(&decision) {
            let message = format!(
                "request {} cannot be accepted for longer than once: it asks for more than the sandbox gives",
                request.request_id
            );
            return Err(Error::Refused(message));
        }
        answer::as_asked(&request.ask, decision).map_err(Error::BadAnswers)
    }

    /// Has the task's runner record a decision: the requests of a turn are the runner's own.
    async fn have_recorded(
        &self,
        request: RequestRecord,
        decision: Decision,
        by: String,
    ) -> Result<Recorded, Error> {
        let RequestRecord { task_id, request_id, digest, .. } = request;
        let (reply, recorded) = oneshot::channel();
        let decide = Decide { request_id: request_id.clone(), digest, decision, by, reply };
        if let Some(runner) = self.inner.runner(&task_id)
            && runner.send(Command::Decide(decide)).await.is_ok()
            && let Ok(recorded) = recorded.await
        {
            return recorded;
        }
        // The turn is over, and with it all that it asked.
        Ok(Recorded::TooLate(self.request(&task_id, request_id.as_str()).await?))
    }

    /// What a request asks, with nothing hidden. Who saw it is on the record.
    pub async fn reveal(&self, request: &RequestRecord, by: &str) -> Result<String, Error> {
        let id = &request.request_id;
        let Some(sealed) = request.sealed_ask.as_deref() else {
            let is_open = request.state == RequestState::Open;
            let why = match (is_open, request.ask.needs_reveal) {
                (false, _) => "is closed: what was hidden in it is forgotten",
                (true, true) => "is too long to be kept with nothing hidden, and can only be declined",
                (true, false) => "hides nothing",
            };
            return Err(Error::Refused(format!("request {id} {why}")));
        };
        let opened =
            self.inner.key.open(sealed, id.as_str()).map_err(|error| Error::Refused(error.to_string()))?;
        self.note(by, "reveal", Some(&request.task_id)).await?;
        String::from_utf8(opened).map_err(|error| Error::Refused(error.to_string()))
    }

    /// A request of a task by its name, or by Codex's own id while that is unambiguous.
    pub async fn request(&self, task_id: &TaskId, request_id: &str) -> Result<RequestRecord, Error> {
        let of_task = RequestFilter { task_id: Some(task_id.clone()), ..RequestFilter::default() };
        let named = RequestFilter { request_id: Some(request_id.into()), ..of_task.clone() };
        if let Some(request) = self.inner.store.requests(&named).await?.pop() {
            return Ok(request);
        }
        let requests = self.inner.store.requests(&of_task).await?;
        // The newest: ids of Codex's begin again with each host.
        let found = requests.into_iter().rev().find(|request| request.key.id.to_string() == request_id);
        found.ok_or_else(|| Error::UnknownRequest(request_id.to_owned()))
    }

    /// Names a request together with its whole changes. Nobody can guess it, so whoever says it has opened them.
    pub(super) fn digest_of_whole(&self, request: &RequestRecord) -> Result<String, Error> {
        let text = format!("{} {}", request.request_id, request.digest);
        let mark = self.inner.key.mark(text.as_bytes(), "whole changes");
        mark.map_err(|error| Error::Refused(error.to_string()))
    }

    async fn only_open_request(&self, task_id: &TaskId) -> Result<RequestRecord, Error> {
        let mut open = self.open_requests(Some(task_id.clone())).await?;
        match open.len() {
            1 => Ok(open.remove(0)),
            0 => Err(Error::UnknownRequest(format!("is open on task {task_id}"))),
            _ => Err(Error::Refused(format!("task {task_id} has several open requests: say which one"))),
        }
    }
}

impl<'a> Which<'a> {
    /// The name of the request, and the digest of what was shown of it.
    fn names(self) -> (Option<&'a str>, Option<&'a str>) {
        match self {
            Self::Shown { request_id, digest } | Self::Revealed { request_id, digest } => {
                (Some(request_id), Some(digest))
            }
            Self::Named(request_id) => (Some(request_id), None),
            Self::Only => (None, None),
        }
    }

    /// Whether this decision can be about this request. A no harms nothing, whatever it is about. A yes to changes of which lists
    /// show the beginning needs the digest of the whole.
    fn check(self, request: &RequestRecord, of_whole: &str, decision: &Decision) -> Result<(), Error> {
        let (digest, is_revealed) = (self.names().1, matches!(self, Self::Revealed { .. }));
        let names_whole = digest == Some(of_whole);
        match digest {
            // What was recorded before there were digests matches none.
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
