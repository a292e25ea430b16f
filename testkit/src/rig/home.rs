//! A directory per test that holds all that a Codex process may touch.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tempfile::TempDir;
use tokio::process::Command;

use super::{Leftovers, codex_path};

/// Set for every process of a home, to its directory, so that what is left of a test can be found.
const MARKER: &str = "CODEX_BRIDGE_TEST_HOME";

/// A CODEX_HOME, a HOME, a work directory and a temporary directory of its own.
///
/// Its path is short (`/tmp/cb-XXXXXX`): the path of a unix socket has at most 107 bytes. Dropping it fails
/// the test if a process is left that has anything to do with the directory.
#[derive(Debug)]
pub struct Home {
    leftovers: Leftovers,
    dir: TempDir,
}

impl Home {
    /// A home whose Codex talks to the scripted model at `base_url`, such as `http://127.0.0.1:4000/v1`.
    pub fn new(base_url: &str) -> Self {
        Self::with_config(&scripted_model::codex_config(base_url, ""))
    }

    /// A home whose Codex has no model that it can reach.
    pub fn without_model() -> Self {
        // nothing listens on the discard port of a machine that runs tests
        Self::new("http://127.0.0.1:9/v1")
    }

    /// A home with this text as its `config.toml`; see [`scripted_model::CodexConfig`].
    pub fn with_config(config: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("cb-").tempdir_in("/tmp").expect("a directory in /tmp");
        let home = Self { leftovers: Leftovers::below(dir.path()), dir };
        for part in [home.codex_home(), home.user_home(), home.workspace(), home.temp()] {
            fs::create_dir(part).expect("a directory in the home");
        }
        home.write_config(config);
        home
    }

    /// Replaces `config.toml`.
    pub fn write_config(&self, config: &str) {
        fs::write(self.codex_home().join("config.toml"), config).expect("config.toml can be written");
    }

    /// The directory that holds it all.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The CODEX_HOME.
    pub fn codex_home(&self) -> PathBuf {
        self.dir.path().join("codex")
    }

    /// The HOME: empty, so that login shells find no profile.
    pub fn user_home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// The work directory of threads.
    pub fn workspace(&self) -> PathBuf {
        self.dir.path().join("ws")
    }

    /// The TMPDIR. codex 0.166 keeps no binaries of its own in a CODEX_HOME that lies below it.
    pub fn temp(&self) -> PathBuf {
        self.dir.path().join("tmp")
    }

    /// A path for a socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    /// The whole environment for a process of this home; clear the inherited one first.
    pub fn env(&self) -> Vec<(String, String)> {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let variables = [
            ("PATH", std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".into())),
            ("HOME", text(self.user_home())),
            ("CODEX_HOME", text(self.codex_home())),
            ("TMPDIR", text(self.temp())),
            ("LANG", "C.UTF-8".into()),
            ("NO_COLOR", "1".into()),
            (MARKER, text(self.dir.path().into())),
        ];
        variables.map(|(name, value)| (name.to_owned(), value)).into()
    }

    /// The real Codex with these arguments, in the work directory, with all of stdio piped; the process is
    /// killed when the child is dropped. Whoever starts it must read its stderr.
    pub fn codex(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = Command::new(codex_path());
        command.args(args).env_clear().envs(self.env()).current_dir(self.workspace());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// Waits a little for all processes of this home to end; kills and names those that do not.
    pub async fn assert_no_processes(&self) {
        self.leftovers.assert_none().await;
    }
}
