//! Finds, checks, links and installs the `codex` binary.
//!
//! Everything here is about files and one short `--version` run. It must not know the app-server protocol, and it
//! reads no environment: what to search, and with which `PATH`, is handed in.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use codex_binary::{Search, find};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let installed = find(&Search { path: std::env::var_os("PATH"), ..Search::default() })?;
//! // An update may move the installed package away; a linked copy stays where it is.
//! let codex = installed.linked_copy(Path::new("/var/lib/codex-bridge/codex"))?;
//! println!("{} {}", codex.executable.display(), codex.version);
//! # Ok(())
//! # }
//! ```

mod locate;
mod lock;
mod package;
mod probe;
mod reason;
mod version;

pub mod link;
pub mod pinned;

use std::path::PathBuf;

pub use locate::{Error, Search, find};
pub use reason::reason;
pub use version::{MINIMUM, Support, TESTED, Version};

/// A codex that was found, resolved to its native executable, and asked for its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Codex {
    /// The native executable, never the Node shim: through the shim a signal reaches only node.
    pub executable: PathBuf,
    /// The folder that must stay together (`bin/`, `codex-path/`, `codex-resources/`, `codex-package.json`): codex
    /// takes its sandbox and its search tool from there. `None` for a binary that stands alone.
    pub package_root: Option<PathBuf>,
    /// What `--version` said.
    pub version: Version,
}
