//! Stores what a session reports: log lines, requests, and changes to the task.

use codex_session::ask::{Detail, Kind, ShownChange, Unredacted};
use codex_session::tool_display::Display;
use codex_session::turn::Closing;
use codex_session::{Ask, Decider, Decision, RequestKey, Session, SessionEvent};
use codex_wire::TurnId;
use codex_wire::thread::TokenUsage;
use tracing::{Span, warn};

use super::mailbox::give;
use super::{Runner, stop};
use crate::bridge::{Inner, LiveKind, Watchdog, append, state_event};
use crate::event::{
    Line, NewEvent, RequestDecided, Requested, Retrying, Steered, TerminalInput, ThreadOpened, TurnStarted,
    Warning,
};
use crate::failpoint;
use crate::outbox::Notice;
use crate::request::{DecisionWord, RequestName, RequestRecord, RequestState, StoredAsk, WholeChanges};
use crate::store::{self, RequestFilter, Write};
use crate::task::{Status, TurnProgress};

/// How many log lines are read at once.
const LOG_PAGE: u32 = 1000;
/// How many bytes of diffs a request has in a list of requests.
const LISTED_DIFF_BYTES: usize = 64 * 1024;
/// How many bytes of an unredacted request are stored.
const REVEALED_BYTES: usize = 1024 * 1024;
/// How many bytes of a prompt or a steer the log has.
const LOGGED_PROMPT_BYTES: usize = 64 * 1024;

impl Runner<'_> {
    pub(super) async fn record(
        &mut self,
        event: SessionEvent,
        session: &Session,
    ) -> Result<(), store::Error> {
        if is_of_the_model(&event) {
            self.served();
        }
        let is_live = is_live(&event);
        let work_is_unsaved = !is_live && self.count_work();
        match event {
            SessionEvent::Shown(Display::Text { delta }) => self.live(LiveKind::Text, &delta),
            SessionEvent::Shown(Display::Reasoning { delta }) => self.live(LiveKind::Reasoning, &delta),
            SessionEvent::Output { call_id, text } => {
                self.inner.news.tell_output(&self.task.id, call_id, &text);
            }
            SessionEvent::Shown(shown) => {
                if let Some(line) = Line::of_shown(shown) {
                    self.log_once(line).await?;
                }
            }
            SessionEvent::Heard { item_id, client_id, text } => self.heard(item_id, client_id, &text).await?,
            SessionEvent::Typed { call_id, command, text, cut_bytes } => {
                self.log(TerminalInput { of_call: call_id, command, text, text_cut_bytes: cut_bytes })
                    .await?;
            }
            SessionEvent::TurnStarted { turn_id } => self.turn_started(turn_id).await?,
            SessionEvent::Asked { key, ask } => self.asked(key, *ask, session).await?,
            SessionEvent::RequestClosed { key, closing } => self.request_closed(&key, closing).await?,
            SessionEvent::Usage(usage) => self.count_tokens(&usage, session).await?,
            SessionEvent::Diff { diff } => self.diff = Some(diff),
            SessionEvent::Retrying { message } => self.log(Retrying { message }).await?,
            SessionEvent::Warning { message } => self.log(Warning { message }).await?,
            // The opening and the end of a turn are stored by `thread_opened` and `end`.
            SessionEvent::ThreadOpened { .. }
            | SessionEvent::TurnEnded { .. }
            | SessionEvent::Missed { .. } => {}
        }
        if work_is_unsaved { self.save().await } else { Ok(()) }
    }

    fn live(&self, kind: LiveKind, text: &str) {
        self.inner.news.tell_live(&self.task.id, kind, text);
    }

    /// Writes a line. If the disk is full, keeps it until there is space, behind the lines kept before.
    pub(super) async fn log(&mut self, line: impl Into<Line>) -> Result<(), store::Error> {
        let line = line.into();
        failpoint::hit("event.before_record");
        let has_space = self.unwritten.is_empty() || self.write_unwritten().await?;
        let is_written =
            has_space && self.commit_lines(append(&self.task.id, self.inner.now(), line.clone())).await?;
        failpoint::hit("event.recorded");
        if is_written {
            self.logged.extend(LoggedItem::of(&line));
        } else {
            self.unwritten.keep(NewEvent { at: self.inner.now(), line });
        }
        Ok(())
    }

    /// Writes a line unless the log has it. Codex reports the items of a resumed turn again.
    async fn log_once(&mut self, line: Line) -> Result<(), store::Error> {
        let is_new = LoggedItem::of(&line).is_none_or(|item| !self.logged.contains(&item));
        if !is_new {
            return Ok(());
        }
        self.telemetry.line(&line);
        self.log(line).await
    }

    /// Logs a steer that Codex took. Its author is unknown if an earlier daemon sent it.
    async fn heard(
        &mut self,
        item_id: Option<String>,
        client_id: String,
        text: &str,
    ) -> Result<(), store::Error> {
        if client_id == self.turn.client_id {
            return Ok(());
        }
        let place = self.steerers.iter().position(|(of, _)| *of == client_id);
        let by = place.and_then(|place| self.steerers.remove(place)).map(|(_, by)| by);
        let (text, text_cut_bytes) = logged_words(text);
        let steered = Steered { item_id, client_id, by, text: Some(text), text_cut_bytes };
        self.log_once(steered.into()).await
    }

    /// Loads which items the log already has. Codex reports the items of a resumed turn again.
    pub(super) async fn remember_logged(&mut self) -> Result<(), store::Error> {
        let mut after = 0;
        loop {
            let page = self.inner.store.events(&self.task.id, after, LOG_PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.seq;
            self.logged.extend(page.iter().filter_map(|event| LoggedItem::of(&event.line)));
        }
    }

    pub(super) async fn thread_opened(&mut self, session: &Session) -> Result<(), store::Error> {
        let standing = session.status().await;
        self.task.thread_id.clone_from(&standing.thread_id);
        self.task.epoch.clone_from(&standing.epoch);
        self.task.host.clone_from(&standing.host);
        self.save().await?;
        self.telemetry.thread_opened(&self.task);
        if let (Some(host), Some(thread_id)) = (&self.task.host, &self.task.thread_id) {
            Span::current().record("host", host);
            self.inner.hosts.thread_opened(host, thread_id.as_str());
        }
        let (thread_id, host) = (self.task.thread_id.clone(), self.task.host.clone());
        self.log(ThreadOpened { thread_id, host }).await?;
        match standing.unjoined_turn {
            // The turn already runs: Codex will not report its start again.
            Some(turn_id) if Some(&turn_id) == self.turn.turn_id.as_ref() => self.at_work().await,
            _ => Ok(()),
        }
    }

    async fn at_work(&mut self) -> Result<(), store::Error> {
        if self.task.status == Status::Starting {
            self.task.status = Status::Working;
            self.inner.save_state(&mut self.task).await?;
        }
        Ok(())
    }

    async fn turn_started(&mut self, turn_id: TurnId) -> Result<(), store::Error> {
        if self.turn.turn_id.as_ref() == Some(&turn_id) {
            // An earlier daemon stored it.
            return self.at_work().await;
        }
        let now = self.inner.now();
        self.turn.progress = TurnProgress::Accepted;
        self.turn.turn_id = Some(turn_id.clone());
        self.task.turn_id = Some(turn_id.clone());
        if self.task.status == Status::Starting {
            self.task.status = Status::Working;
        }
        self.task.updated_at = now;
        let number = Some(self.turn.number);
        let bare = TurnStarted { turn_id, number, prompt: None, prompt_cut_bytes: None };
        let begun = |line: TurnStarted| {
            vec![
                Write::SaveTurn(Box::new(self.turn.clone())),
                Write::SaveTask(Box::new(self.task.clone())),
                append(&self.task.id, now, line),
                state_event(&self.task, now),
            ]
        };
        let (prompt, prompt_cut_bytes) = self.logged_prompt().unzip();
        let told = TurnStarted { prompt, prompt_cut_bytes: prompt_cut_bytes.flatten(), ..bare.clone() };
        failpoint::hit("turn.before_record");
        match self.inner.commit(begun(told)).await {
            // A long prompt may not fit on a full disk. The start of the turn must be stored in any case.
            Err(store::Error::DiskFull { .. }) => self.inner.commit(begun(bare)).await?,
            outcome => outcome?,
        }
        failpoint::hit("turn.recorded");
        Ok(())
    }

    /// The prompt for the log, and how many bytes are cut off.
    fn logged_prompt(&self) -> Option<(String, Option<usize>)> {
        // Redacted before it is cut, because half a secret is still one.
        Some(logged_words(&self.inner.config.redactor.redact(&self.prompt()?)))
    }

    /// Stores a request before anyone sees it. A request that an earlier daemon stored keeps its decision.
    async fn asked(&mut self, key: RequestKey, mut ask: Ask, session: &Session) -> Result<(), store::Error> {
        // A stored request with the same key but another digest is a different one: a decision on it does not count. A
        // stored request that was orphaned, and that Codex asks again, is open: its turn still runs.
        let known = match self.request(&key).await? {
            Some(known) if known.digest == ask.digest && known.state != RequestState::Orphaned => {
                return self.asked_again(known, session).await;
            }
            known => known,
        };
        let was_given_up = known.as_ref().is_some_and(|known| known.digest == ask.digest);
        let request_id = known.map_or_else(
            || RequestName(format!("{}{}", RequestName::WORD, self.inner.random_hex())),
            |known| known.request_id,
        );
        let whole_bytes = self.keep_whole_changes(&request_id, &mut ask).await?;
        if ask.kind != Kind::Questions {
            ask.details.push(Detail { label: "Repository".into(), text: self.trust.described() });
        }
        let now = self.inner.now();
        let limit = self.inner.config.approvals.answer_limit;
        let record = RequestRecord {
            key,
            task_id: self.task.id.clone(),
            digest: ask.digest.clone(),
            method: ask.method.clone(),
            state: RequestState::Open,
            sealed_ask: self.sealed(&request_id, ask.unredacted.as_ref()),
            ask: StoredAsk { ask, trust: Some(self.trust), whole_changes_bytes: whole_bytes },
            request_id,
            sealed_decision: None,
            decision: None,
            decided_by: None,
            decided_at: None,
            created_at: now,
            expires_at: limit.and_then(|limit| now.checked_add(i64::try_from(limit.as_millis()).ok()?)),
            closed_at: None,
        };
        failpoint::hit("request.before_record");
        self.put_to_people(record, was_given_up).await?;
        failpoint::hit("request.recorded");
        Ok(())
    }

    /// Stores an open request, with its log line and notices.
    async fn put_to_people(&self, request: RequestRecord, asked_again: bool) -> Result<(), store::Error> {
        let now = self.inner.now();
        let line = Requested {
            request_id: request.request_id.clone(),
            digest: request.digest.clone(),
            title: request.ask.title.clone(),
            asks: Some(request.ask.kind),
            call_id: request.ask.call_id.clone(),
            asked_again,
        };
        let mut batch = self.inner.deliveries_for(&self.task, &Notice::of_request(&self.task, &request), now);
        batch.extend([append(&self.task.id, now, line), Write::SaveRequest(Box::new(request))]);
        self.inner.commit(batch).await
    }

    /// The sealed request without redaction, for the person at the machine. One that is too long is not stored.
    fn sealed(&self, request_id: &RequestName, unredacted: Option<&Unredacted>) -> Option<Vec<u8>> {
        let text = unredacted?.expose();
        let is_kept = text.len() <= REVEALED_BYTES;
        is_kept.then(|| self.inner.key.seal(text.as_bytes(), request_id.as_str()).ok()).flatten()
    }

    /// Cuts diffs that are too long for a list, and stores the complete ones separately. Returns their length. If the
    /// disk is full, the complete ones are not stored, and the request says how much is missing.
    async fn keep_whole_changes(
        &mut self,
        request_id: &RequestName,
        ask: &mut Ask,
    ) -> Result<Option<usize>, store::Error> {
        let Some(whole) = ask.cut_diffs_to(LISTED_DIFF_BYTES) else { return Ok(None) };
        let bytes = whole.iter().map(|change| change.diff.len()).sum();
        let write = Write::SaveWholeChanges(Box::new(WholeChanges {
            request_id: request_id.clone(),
            task_id: self.task.id.clone(),
            changes: whole,
        }));
        match self.inner.commit(vec![write]).await {
            Ok(()) => Ok(Some(bytes)),
            Err(error @ store::Error::DiskFull { .. }) => {
                warn!(request = %request_id, bytes, %error, "the disk is full; the complete diff of a request is not stored");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Codex asks the same request again after a crash. A stored decision is given again. A decision that was not
    /// stored, or cannot be read, has to be made again.
    async fn asked_again(
        &mut self,
        mut request: RequestRecord,
        session: &Session,
    ) -> Result<(), store::Error> {
        if request.state != RequestState::Decided {
            return Ok(());
        }
        if let Some(decision) = self.recorded_decision(&request) {
            give(&self.inner, session, &request, decision);
            return Ok(());
        }
        (request.state, request.sealed_decision) = (RequestState::Open, None);
        (request.decision, request.decided_by, request.decided_at) = (None, None, None);
        self.put_to_people(request, true).await
    }

    async fn request(&self, key: &RequestKey) -> Result<Option<RequestRecord>, store::Error> {
        let filter = RequestFilter {
            task_id: Some(self.task.id.clone()),
            key: Some(key.clone()),
            ..RequestFilter::default()
        };
        Ok(self.inner.store.requests(&filter).await?.pop())
    }

    fn recorded_decision(&self, request: &RequestRecord) -> Option<Decision> {
        let Some(sealed) = request.sealed_decision.as_deref() else {
            return self.mailbox.unstored_decision(request);
        };
        serde_json::from_slice(&self.inner.key.open(sealed, request.request_id.as_str()).ok()?).ok()
    }

    async fn request_closed(&mut self, key: &RequestKey, closing: Closing) -> Result<(), store::Error> {
        self.mailbox.unstored.remove(key);
        let Some(mut request) = self.request(key).await? else {
            // The operator's settings decided it, so nobody was asked.
            return self.log(RequestDecided { closing }).await;
        };
        let state = note_closing(&mut request, closing);
        if state == RequestState::Expired {
            self.inner.counters.fire(Watchdog::Answer);
        }
        let closed = self.inner.close_request(&mut request, state);
        failpoint::hit("closing.before_record");
        self.inner.commit(closed.into()).await?;
        failpoint::hit("closing.recorded");
        self.inner.redact_whole_changes(&request).await
    }

    async fn count_tokens(&mut self, usage: &TokenUsage, session: &Session) -> Result<(), store::Error> {
        let used = usage.total.total_tokens;
        self.task.usage = Some(usage.into());
        self.save().await?;
        let limit = self.task.token_limit().filter(|limit| used > *limit && self.over_limit.is_none());
        if let Some(limit) = limit {
            self.over_limit = Some(format!("it has used {used} tokens, its limit is {limit}"));
            self.inner.counters.fire(Watchdog::Tokens);
            stop(&self.inner, session);
        }
        Ok(())
    }
}

/// The state that a request ends in. Its row then names the decision that Codex got: one that was recorded may have lost the race
/// against the time limit.
fn note_closing(request: &mut RequestRecord, closing: Closing) -> RequestState {
    match closing {
        Closing::Taken { by: Decider::TimeLimit, .. } => {
            (request.decision, request.decided_by, request.decided_at) = (None, None, None);
            RequestState::Expired
        }
        Closing::AnsweredElsewhere => {
            (request.decision, request.decided_by, request.decided_at) = (None, None, None);
            RequestState::AnsweredElsewhere
        }
        Closing::Taken { decision, by } => {
            request.decision = Some(DecisionWord::from(&decision));
            if let Decider::Person(name) = by {
                request.decided_by = Some(name);
            }
            RequestState::Resolved
        }
        Closing::Orphaned { .. } => RequestState::Orphaned,
    }
}

impl Inner {
    /// Redacts the secrets that complete diffs had to show for the decision.
    pub(crate) async fn redact_whole_changes(&self, request: &RequestRecord) -> Result<(), store::Error> {
        if request.ask.whole_changes_bytes.is_none() {
            return Ok(());
        }
        let Some(mut whole) = self.store.whole_changes(&request.request_id).await? else { return Ok(()) };
        let redacted: Vec<ShownChange> =
            whole.changes.iter().map(|it| it.redacted(&self.config.redactor)).collect();
        if redacted == whole.changes {
            return Ok(());
        }
        whole.changes = redacted;
        match self.commit(vec![Write::SaveWholeChanges(Box::new(whole))]).await {
            // A full disk takes no large rows. The unredacted diff is deleted with its task.
            Err(store::Error::DiskFull { .. }) => Ok(()),
            other => other,
        }
    }
}

/// A text for the log, and how many bytes are cut off.
fn logged_words(words: &str) -> (String, Option<usize>) {
    let kept = words.floor_char_boundary(LOGGED_PROMPT_BYTES);
    let cut_bytes = Some(words.len() - kept).filter(|bytes| *bytes > 0);
    (words[..kept].to_owned(), cut_bytes)
}

/// Whether only an answer of the model can have caused this event.
fn is_of_the_model(event: &SessionEvent) -> bool {
    matches!(
        event,
        SessionEvent::Shown(_)
            | SessionEvent::Output { .. }
            | SessionEvent::Typed { .. }
            | SessionEvent::Asked { .. }
            | SessionEvent::Diff { .. }
    )
}

/// Whether the event is announced but not stored.
fn is_live(event: &SessionEvent) -> bool {
    let is_piece = |shown: &Display| matches!(shown, Display::Text { .. } | Display::Reasoning { .. });
    match event {
        SessionEvent::Shown(shown) => is_piece(shown),
        SessionEvent::Output { .. } => true,
        _ => false,
    }
}

/// An item of Codex that has a line of this kind in the log.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct LoggedItem {
    kind: String,
    id: String,
}

impl LoggedItem {
    /// The item of a line that is logged once per item.
    pub(super) fn of(line: &Line) -> Option<Self> {
        Some(Self { kind: line.kind().to_owned(), id: line.item()?.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use codex_wire::RequestId;

    use super::*;
    use crate::store::conformance::samples;

    #[test]
    fn the_row_of_a_request_names_the_decision_that_codex_got() {
        let decided = |by: Decider, decision| {
            let mut request = samples::request(1, RequestId::Number(1), RequestState::Decided);
            (request.decision, request.decided_by) = (Some(DecisionWord::Accept), Some("Ann".to_owned()));
            let state = note_closing(&mut request, Closing::Taken { decision, by });
            (state, request.decision, request.decided_by)
        };
        let by_ben = decided(Decider::Person("Ben".to_owned()), Decision::Decline);
        assert_eq!(by_ben, (RequestState::Resolved, Some(DecisionWord::Decline), Some("Ben".to_owned())));
        let too_late = decided(Decider::TimeLimit, Decision::Decline);
        assert_eq!(too_late, (RequestState::Expired, None, None));
    }
}
