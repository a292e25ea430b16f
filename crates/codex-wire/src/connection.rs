//! The handshake of a connection: `initialize` exactly once, and a check of the version.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use codex_binary::{MINIMUM, Support, TESTED, Version};

use crate::backing::Backing;
use crate::call::{Capabilities, ClientInfo, Initialize};
use crate::contract;
use crate::id::Epoch;
use crate::peer::{CallError, Peer};
use crate::transport::Transport;

/// Notifications that are not used here. Codex is asked not to send them, which saves time.
const UNUSED_NOTIFICATIONS: &[&str] = &[
    "item/reasoning/summaryPartAdded",
    "item/fileChange/patchUpdated",
    "item/plan/delta",
    "remoteControl/status/changed",
    "thread/goal/cleared",
    "thread/goal/updated",
    "thread/name/updated",
    "thread/queue/changed",
    "thread/readState/changed",
    "turn/plan/updated",
];

/// How long `initialize` may take, unless configured otherwise.
pub const INITIALIZE_LIMIT: Duration = Duration::from_secs(10);

/// The parameters of a handshake.
pub struct Handshake {
    /// How long it may take.
    pub limit: Duration,
    /// The epoch of the server.
    pub epoch: Epoch,
    /// The server's binary, if known. If it is newer than the tested version, its schema is compared.
    pub binary: Option<PathBuf>,
    /// The process behind the transport, if there is one.
    pub backing: Option<Arc<dyn Backing>>,
}

impl Handshake {
    /// A handshake with the defaults.
    pub fn new(epoch: Epoch) -> Self {
        Self { limit: INITIALIZE_LIMIT, epoch, binary: None, backing: None }
    }
}

/// A connection that is ready for calls. Cheap to clone.
#[derive(Clone)]
pub struct Connection {
    /// The calls.
    pub peer: Peer,
    /// The epoch of the server.
    pub epoch: Epoch,
    /// The server at the other end.
    pub server: Arc<Server>,
    backing: Option<Arc<dyn Backing>>,
}

/// The server at the other end.
#[derive(Debug)]
pub struct Server {
    /// The version, if the server reported one.
    pub version: Option<Version>,
    /// The CODEX_HOME, if the server reported one.
    pub codex_home: Option<String>,
    /// Something that the operator should know, such as an untested version.
    pub warning: Option<String>,
}

/// Why the handshake failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server did not answer, or refused.
    #[error("initialize failed: {0}")]
    Initialize(#[source] CallError),
    /// The server is too old.
    #[error(
        "codex {found} is too old: {MINIMUM} or newer is needed; update it with `npm i -g @openai/codex@{TESTED}`"
    )]
    TooOld {
        /// Its version.
        found: Version,
    },
    /// The server is newer than tested, and the shapes of its approvals have changed.
    #[error(
        "codex {found} is newer than the tested {TESTED} and its approvals have changed ({}); \
         update codex-bridge or install codex {TESTED}", .drift.join("; ")
    )]
    Drifted {
        /// Its version.
        found: Version,
        /// What changed.
        drift: Vec<String>,
    },
}

impl Connection {
    /// Performs the handshake over a new transport. On failure the transport is closed.
    pub async fn open(transport: Transport, handshake: Handshake) -> Result<Self, Error> {
        let peer = Peer::new(transport);
        match shake_hands(&peer, &handshake).await {
            Ok(server) => {
                let Handshake { epoch, backing, .. } = handshake;
                Ok(Self { peer, epoch, server: Arc::new(server), backing })
            }
            Err(error) => {
                peer.close();
                Err(error)
            }
        }
    }

    /// The last lines of the server's stderr, redacted; empty without a process behind the transport.
    pub async fn stderr_tail(&self, lines: usize) -> Vec<String> {
        match &self.backing {
            Some(backing) => backing.stderr_tail(lines).await,
            None => Vec::new(),
        }
    }

    /// How the server's process ended, if it has ended and that is known.
    pub async fn exit(&self) -> Option<String> {
        self.backing.as_ref()?.exit().await
    }

    /// Whether the server's process is known to live; `false` without a process behind the transport.
    pub fn server_lives(&self) -> bool {
        self.backing.as_ref().is_some_and(|backing| backing.is_alive())
    }
}

async fn shake_hands(peer: &Peer, handshake: &Handshake) -> Result<Server, Error> {
    let initialize = Initialize {
        client_info: ClientInfo {
            name: "codex_bridge".to_owned(),
            title: "codex-bridge".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        capabilities: Capabilities {
            experimental_api: true,
            opt_out_notification_methods: UNUSED_NOTIFICATIONS.iter().map(ToString::to_string).collect(),
        },
    };
    let initialized = peer.call(&initialize, handshake.limit).await.map_err(Error::Initialize)?;
    let version = Version::parse_user_agent(&initialized.user_agent);
    let warning = check_version(version, handshake).await?;
    peer.notify("initialized").await.map_err(|closed| Error::Initialize(closed.into()))?;
    Ok(Server { version, codex_home: initialized.codex_home, warning })
}

/// Older is refused; newer is a warning, unless the approvals have changed.
async fn check_version(version: Option<Version>, handshake: &Handshake) -> Result<Option<String>, Error> {
    let Some(found) = version else {
        return Ok(Some("the server did not report its version".to_owned()));
    };
    match found.support() {
        Support::Supported => Ok(None),
        Support::Older => Err(Error::TooOld { found }),
        Support::Newer => {
            let drift = match &handshake.binary {
                Some(binary) => contract::drifted_approvals(binary).await,
                None => Vec::new(),
            };
            if drift.is_empty() {
                Ok(Some(format!("codex {found} is newer than the tested {TESTED}")))
            } else {
                Err(Error::Drifted { found, drift })
            }
        }
    }
}
