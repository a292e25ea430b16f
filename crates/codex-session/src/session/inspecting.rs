//! Finding out what a request asks for, beside everything else: the rollout of the asking thread, and the links of the file
//! system. The stream of Codex goes on meanwhile.

use std::path::PathBuf;
use std::time::Duration;

use codex_wire::ThreadId;
use codex_wire::call::ThreadRead;
use codex_wire::escalation::Escalation;
use codex_wire::host::Reach;
use codex_wire::item::FileChange;
use codex_wire::peer::Peer;
use codex_wire::request::ServerRequest;

use crate::decision::RequestKey;
use crate::inspection::{Ground, Inspection, Source};
use crate::settings::Sandbox;
use crate::turn::Input;

use super::actor::Actor;

/// How long finding out may take. What is not known by then is treated as an escalation.
const LIMIT: Duration = Duration::from_secs(5);
/// A call that is not in the rollout yet is looked for this often, and so long after the time before.
const LOOKS: u32 = 10;
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// Where the rollout of the asking thread is.
enum Rollout {
    /// Here; none if the thread has none.
    Known(Option<PathBuf>),
    /// In the rollout of a sub-agent, whose thread Codex knows.
    Of(ThreadId, Peer),
}

impl Actor {
    pub(super) fn inspect(
        &mut self,
        key: RequestKey,
        digest: String,
        request: ServerRequest,
        patch: Option<Box<FileChange>>,
    ) {
        let (rollout, reach) = (self.rollout_of(&request), self.reach.clone());
        let ground =
            Ground { cwd: self.config.cwd.clone(), writable_roots: self.config.writable_roots.clone() };
        // Without a sandbox there is none to leave.
        let has_sandbox = self.config.sandbox != Sandbox::DangerFullAccess;
        let found = async move {
            let found = find_out(request, patch, ground, (rollout, reach), has_sandbox);
            tokio::time::timeout(LIMIT, found).await.ok()
        };
        self.ask_beside(key.clone(), found, |found| {
            let inspection = found.flatten().unwrap_or_else(Inspection::unknown);
            Input::Inspected { key, digest, inspection }
        });
    }

    fn rollout_of(&self, request: &ServerRequest) -> Rollout {
        let asking = request.thread_id().filter(|asking| Some(asking) != self.thread_id.as_ref());
        match (asking, &self.opened) {
            (None, _) => Rollout::Known(self.rollout.clone()),
            (Some(asking), Some(opened)) => Rollout::Of(asking, opened.link.connection.peer.clone()),
            (Some(_), None) => Rollout::Known(None),
        }
    }
}

async fn find_out(
    request: ServerRequest,
    patch: Option<Box<FileChange>>,
    ground: Ground,
    (rollout, reach): (Rollout, Reach),
    has_sandbox: bool,
) -> Inspection {
    let is_of_files = matches!(request, ServerRequest::FileChange(_) | ServerRequest::LegacyPatch(_));
    let look = move || Inspection::of_request(&request, patch.as_deref(), &ground);
    // A patch is compared with the links on the disk.
    let source = if is_of_files { blocking(look).await } else { Some(look()) };
    match source {
        None => Inspection::unknown(),
        Some(Source::Request(inspection)) => inspection,
        Some(Source::Call(_)) if !has_sandbox => Inspection::default(),
        Some(Source::Call(call_id)) => of_call(rollout, &reach, &call_id).await.into(),
    }
}

async fn of_call(rollout: Rollout, reach: &Reach, call_id: &str) -> Escalation {
    let path = match rollout {
        Rollout::Known(path) => path,
        Rollout::Of(thread_id, peer) => {
            let read = ThreadRead { thread_id, include_turns: false };
            peer.call(&read, LIMIT).await.ok().and_then(|read| read.thread.path).map(PathBuf::from)
        }
    };
    let Some(path) = path else { return Escalation::Unknown };
    for _ in 0..LOOKS {
        match reach.escalation(&path, call_id).await {
            // codex 0.166 had always written the call before it asked. On a busy disk it may be late.
            Escalation::Unknown => tokio::time::sleep(LOOK_PAUSE).await,
            found => return found,
        }
    }
    Escalation::Unknown
}

/// Runs what waits for a disk; none if it failed.
async fn blocking<T: Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(look).await.ok()
}
