//! Inspects a request in a task: reads the rollout of the asking thread and follows links in the file system. Messages
//! of Codex are processed meanwhile.

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
use crate::inspection::{Inspection, Source, WritableDirs};
use crate::settings::Sandbox;
use crate::turn::Input;

use super::actor::Actor;

/// How long an inspection may take. After that, the request is treated as an escalation.
const LIMIT: Duration = Duration::from_secs(5);
/// How often a call is searched for in the rollout, and the pause between two tries.
const LOOKS: u32 = 10;
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// Where the rollout of the asking thread is.
enum Rollout {
    /// The path; `None` if the thread has none.
    Known(Option<PathBuf>),
    /// The thread of a sub-agent: Codex is asked for the path.
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
        let dirs =
            WritableDirs { cwd: self.config.cwd.clone(), writable_roots: self.config.writable_roots.clone() };
        // Without a sandbox nothing is an escalation.
        let has_sandbox = self.config.sandbox != Sandbox::DangerFullAccess;
        let found = async move {
            let found = find_out(request, patch, dirs, (rollout, reach), has_sandbox);
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
    dirs: WritableDirs,
    (rollout, reach): (Rollout, Reach),
    has_sandbox: bool,
) -> Inspection {
    let is_of_files = matches!(request, ServerRequest::FileChange(_));
    let look = move || Inspection::of_request(&request, patch.as_deref(), &dirs);
    // For a patch, links on the disk are followed.
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
            // codex 0.166 writes the call before it asks, but on a busy disk the write may be late.
            Escalation::Unknown => tokio::time::sleep(LOOK_PAUSE).await,
            found => return found,
        }
    }
    Escalation::Unknown
}

/// Runs blocking work; `None` if it panicked.
async fn blocking<T: Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(look).await.ok()
}
