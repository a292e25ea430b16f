//! The command line and environment: where the script is and where to listen. Knows nothing of the protocol.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use testkit::log::Start;
use testkit::script::Script;

use crate::Failure;

/// What the command line says; what only the real Codex understands is ignored.
pub struct Arguments {
    /// Where clients come in.
    pub listen: Listen,
    /// Whether only the version is wanted.
    pub version: bool,
    script: Option<PathBuf>,
    log: Option<PathBuf>,
}

/// Where clients come in.
pub enum Listen {
    /// One client, on stdin and stdout.
    Stdio,
    /// Any number, by WebSocket on this socket.
    Unix(PathBuf),
}

impl Listen {
    /// The socket file, if there is one.
    pub fn socket_path(&self) -> Option<&Path> {
        match self {
            Self::Stdio => None,
            Self::Unix(path) => Some(path),
        }
    }
}

impl Arguments {
    /// Reads the arguments of this process.
    pub fn from_process() -> Self {
        let mut arguments = Self { listen: Listen::Stdio, version: false, script: None, log: None };
        let mut rest = env::args_os().skip(1);
        while let Some(argument) = rest.next() {
            match argument.to_str() {
                Some("--version" | "-V") => arguments.version = true,
                Some("--script") => arguments.script = rest.next().map(PathBuf::from),
                Some("--log") => arguments.log = rest.next().map(PathBuf::from),
                Some("--listen") => arguments.listen = listen(rest.next()),
                _ => {}
            }
        }
        arguments
    }

    /// The script and the directory that it lies in.
    pub fn load_script(&self) -> Result<(Script, PathBuf), Failure> {
        let found = self.script_candidates().into_iter().find(|path| path.is_file());
        let Some(path) = found else {
            return Err("no script: give --script FILE or set SCRIPTED_APP_SERVER".into());
        };
        let path = path.canonicalize()?;
        let text = std::fs::read_to_string(&path)?;
        let script = serde_json::from_str(&text)
            .map_err(|error| format!("{} is no script: {error}", path.display()))?;
        Ok((script, path.parent().map(Path::to_path_buf).unwrap_or_default()))
    }

    fn script_candidates(&self) -> Vec<PathBuf> {
        let named = self.script.clone().or_else(|| env::var_os("SCRIPTED_APP_SERVER").map(PathBuf::from));
        if let Some(path) = named {
            return vec![path];
        }
        let invoked = env::args_os().next().map(PathBuf::from);
        let executed = env::current_exe().ok();
        let beside = [invoked, executed].into_iter().flatten().map(|path| path.with_file_name("script.json"));
        let in_home = env::var_os("CODEX_HOME").map(|home| Path::new(&home).join("scripted-app-server.json"));
        beside.chain(in_home).collect()
    }

    /// Where the record of this process goes.
    pub fn log_file(&self, dir: &Path) -> PathBuf {
        let named = self.log.clone().or_else(|| env::var_os("SCRIPTED_APP_SERVER_LOG").map(PathBuf::from));
        named.unwrap_or_else(|| dir.join("log.jsonl"))
    }
}

fn listen(address: Option<OsString>) -> Listen {
    let address = address.unwrap_or_default().to_string_lossy().into_owned();
    match address.strip_prefix("unix://") {
        Some(path) => Listen::Unix(PathBuf::from(path)),
        None => Listen::Stdio,
    }
}

/// How this process was started.
pub fn this_process() -> io::Result<Start> {
    let text = |text: OsString| text.to_string_lossy().into_owned();
    Ok(Start {
        pid: std::process::id(),
        args: env::args_os().skip(1).map(text).collect(),
        cwd: env::current_dir()?,
        env: env::vars_os().map(|(name, value)| (text(name), text(value))).collect(),
    })
}
