//! The strong set-up with two real users of this machine: the launcher as one, the daemon as the other.
//!
//! Only root can act as two users. The users `cbtest-daemon` and `cbtest-hosts` are made where they are missing, and stay.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use codex_wire::host::Host;
use codex_wire::host::launcher::Client;
use codex_wire::os::process::{self, Process};
use nix::unistd::User;
use rustix::process::{Signal, geteuid};
use scripted_model::{CodexConfig, ScriptedModel};
use serde_json::Value;
use tempfile::TempDir;
use testkit::rig::{self, Leftovers};

use crate::shell::{Said, until};

/// Set by whoever cannot be root and accepts that these tests show nothing there.
const WITHOUT_ROOT: &str = "CODEX_BRIDGE_TEST_WITHOUT_ROOT";

/// Whether the tests with two users can run here. They fail where they cannot, unless somebody has said that it shall be so.
pub fn can_run() -> bool {
    if geteuid().is_root() {
        return true;
    }
    let accepted = std::env::var_os(WITHOUT_ROOT).is_some_and(|value| value == "1");
    assert!(
        accepted,
        "the set-up with two users can only be tested by root: run this test as root, or set {WITHOUT_ROOT}=1 to leave it out"
    );
    eprintln!("not shown: {WITHOUT_ROOT}=1 is set");
    false
}

/// As whom something runs.
#[derive(Clone, Copy)]
pub enum As {
    Daemon,
    Hosts,
    Root,
    /// Neither of them.
    Nobody,
}

impl As {
    fn name(self) -> &'static str {
        match self {
            Self::Daemon => "cbtest-daemon",
            Self::Hosts => "cbtest-hosts",
            Self::Root => "root",
            Self::Nobody => "nobody",
        }
    }

    fn user(self) -> User {
        User::from_name(self.name()).unwrap().unwrap_or_else(|| panic!("there is no user {}", self.name()))
    }

    pub fn uid(self) -> u32 {
        self.user().uid.as_raw()
    }
}

/// The hosts' group is the one that the daemon is in too.
fn make_users() {
    let lock = File::create("/tmp/cbtest-users.lock").unwrap();
    lock.lock().unwrap();
    let make = |who: As, more: &[&str]| {
        if User::from_name(who.name()).unwrap().is_none() {
            let mut useradd = Command::new("useradd");
            useradd.args(["--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin"]);
            assert!(useradd.args(more).arg(who.name()).status().unwrap().success(), "useradd {}", who.name());
        }
    };
    make(As::Hosts, &[]);
    make(As::Daemon, &["--groups", As::Hosts.name()]);
}

/// Both of them, with a launcher and a daemon.
pub struct TwoUsers {
    pub model: ScriptedModel,
    launcher: Option<Child>,
    daemon: Option<Child>,
    leftovers: Leftovers,
    dir: TempDir,
}

impl TwoUsers {
    pub async fn new() -> Self {
        make_users();
        let model = ScriptedModel::start().await.unwrap();
        let dir = tempfile::Builder::new().prefix("cb-").tempdir_in("/tmp").unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let it = Self { model, launcher: None, daemon: None, leftovers: Leftovers::below(dir.path()), dir };
        it.lay_out();
        let mut it = it;
        it.start_launcher().await;
        it.start_daemon().await;
        it
    }

    /// As the packaged units and `docs/security.md` have it, in small.
    fn lay_out(&self) {
        for (path, owner, mode) in [
            ("d", As::Daemon, 0o700),
            ("h", As::Hosts, 0o750),
            ("h/codex", As::Hosts, 0o700),
            ("h/tmp", As::Hosts, 0o700),
            (&format!("h/tmp/tmux-{}", As::Hosts.uid()), As::Hosts, 0o700),
            (&format!("h/tmp/tmux-{}", As::Daemon.uid()), As::Hosts, 0o700),
            ("run", As::Hosts, 0o750),
            ("ws", As::Hosts, 0o770),
            ("ws2", As::Hosts, 0o770),
            ("packages", As::Hosts, 0o755),
            ("packages/codex-bridge", As::Hosts, 0o755),
            ("packages/codex-bridge/codex", As::Hosts, 0o755),
        ] {
            self.make_dir(path, owner, mode);
        }
        // Only root may link files of root.
        let codex = rig::codex().linked_copy(&self.path("packages/codex-bridge/codex")).unwrap();
        give(&self.path("packages/codex-bridge/codex/.lock"), As::Hosts, 0o600);
        for dir in ["bin", "etc"] {
            fs::create_dir(self.path(dir)).unwrap();
        }
        let built = Path::new(env!("CARGO_BIN_EXE_codex-bridge"));
        let program = self.program();
        fs::hard_link(built, &program).or_else(|_| fs::copy(built, &program).map(drop)).unwrap();

        let config = CodexConfig::new(self.model.base_url()).to_string();
        self.write("h/codex/config.toml", &config, As::Hosts);
        let hosts = format!("codex_bin = \"{}\"\n", codex.executable.display());
        self.write("etc/hosts.toml", &hosts, As::Hosts);
        let profile = "[profiles.open]\nsandbox = \"danger-full-access\"\napproval_policy = \"never\"\n";
        let daemon = format!(
            "roots = [\"{}\"]\n[hosts]\nlauncher = \"{}\"\n{profile}",
            self.workspace().display(),
            self.launcher_socket().display()
        );
        self.write("etc/config.toml", &daemon, As::Daemon);
    }

    pub fn make_dir(&self, name: &str, owner: As, mode: u32) {
        let path = self.path(name);
        fs::create_dir(&path).unwrap();
        give(&path, owner, mode);
    }

    pub fn write(&self, name: &str, text: &str, owner: As) {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        give(&path, owner, 0o600);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn workspace(&self) -> PathBuf {
        self.path("ws")
    }

    pub fn launcher_socket(&self) -> PathBuf {
        self.path("run/launcher.sock")
    }

    pub fn daemon_socket(&self) -> PathBuf {
        self.path("d/daemon.sock")
    }

    pub fn program(&self) -> PathBuf {
        self.path("bin/codex-bridge")
    }

    /// Any program as one of them, in their own environment.
    pub fn command(&self, who: As, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        let user = who.user();
        command.args(["--reuid", &user.uid.to_string(), "--regid", &user.gid.to_string(), "--init-groups"]);
        // As the packaged units have it.
        command.arg("--no-new-privs").arg("--").arg(program).args(args);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("LANG", "C.UTF-8");
        match who {
            As::Hosts => {
                command.env("HOME", self.path("h")).env("XDG_DATA_HOME", self.path("packages"));
                command.env("TMPDIR", self.path("h/tmp")).env("TMUX_TMPDIR", self.path("h/tmp"));
            }
            As::Daemon | As::Root | As::Nobody => {
                command.env("HOME", self.path("d"));
            }
        }
        command.current_dir("/").stdin(Stdio::null());
        command
    }

    /// Runs a program to its end, outside the runtime that the model lives on.
    pub async fn run(&self, who: As, program: &Path, args: &[&str]) -> Said {
        let mut command = self.command(who, program, args);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Said { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }

    /// A verb of the daemon's user.
    pub async fn verb(&self, args: &[&str]) -> Said {
        let (state, config) = (self.path("d"), self.path("etc/config.toml"));
        let ours = ["--state-dir", state.to_str().unwrap(), "--config", config.to_str().unwrap()];
        self.run(As::Daemon, &self.program(), &[&ours[..], &["--json", "--no-autostart"], args].concat())
            .await
    }

    /// A shell of the hosts' user, outside of any sandbox.
    pub async fn broken_out(&self, script: &str) -> Said {
        self.run(As::Hosts, Path::new("/bin/sh"), &["-c", script]).await
    }

    /// A service as its packaged unit starts it, with the places and names of this test.
    pub fn service(&self, who: As) -> Command {
        let unit = match who {
            As::Hosts => include_str!("../../../../packaging/two-users/codex-bridge-hosts.service"),
            As::Daemon | As::Root | As::Nobody => {
                include_str!("../../../../packaging/two-users/codex-bridge.service")
            }
        };
        let here = |text: &str| {
            [
                ("/usr/local/bin", "bin"),
                ("/run/codex-bridge-hosts", "run"),
                ("/var/lib/codex-hosts", "h"),
                ("/var/lib/codex-bridge", "d"),
                ("/etc/codex-bridge", "etc"),
            ]
            .iter()
            .fold(text.to_owned(), |text, (theirs, ours)| {
                text.replace(theirs, self.path(ours).to_str().unwrap())
            })
            .replace("--for codex-bridge ", "--for cbtest-daemon ")
        };
        let values = |key: &str| -> Vec<String> {
            unit.lines().filter_map(|line| line.strip_prefix(key)).map(here).collect()
        };
        let started = values("ExecStart=").concat();
        let mut words = started.split(' ');
        let program = PathBuf::from(words.next().unwrap());
        let mut command = self.command(who, &program, &words.collect::<Vec<_>>());
        command.envs(values("Environment=").iter().map(|pair| pair.split_once('=').unwrap()));
        command
    }

    pub async fn start_launcher(&mut self) {
        let mut child = self.service(As::Hosts).spawn().unwrap();
        until("the launcher", || ready(&mut child, &self.launcher_socket())).await;
        self.launcher = Some(child);
    }

    pub async fn start_daemon(&mut self) {
        let mut child = self.service(As::Daemon).spawn().unwrap();
        until("the daemon", || ready(&mut child, &self.daemon_socket())).await;
        self.daemon = Some(child);
    }

    /// Has the launcher say nothing more, or go on.
    pub fn signal_launcher(&self, signal: Signal) {
        Process::with_pid(self.launcher.as_ref().unwrap().id()).unwrap().signal(signal).unwrap();
    }

    pub fn kill_launcher(&mut self) {
        kill(self.launcher.take());
    }

    pub fn kill_daemon(&mut self) {
        kill(self.daemon.take());
    }

    pub fn daemon_pid(&self) -> u32 {
        self.daemon.as_ref().unwrap().id()
    }

    /// Hands over work and returns its id.
    pub async fn start(&self, prompt: &str) -> String {
        let cwd = self.workspace();
        let args = ["run", "-d", "-s", "workspace-write", "-C", cwd.to_str().unwrap(), prompt];
        self.verb(&args).await.ok().json()["task_id"].as_str().unwrap().to_owned()
    }

    /// Hands over work and waits until it asks for something.
    pub async fn start_asking(&self, prompt: &str) -> String {
        let id = self.start(prompt).await;
        let task = self.verb(&["wait", &id, "--timeout", "120"]).await;
        assert_eq!(task.code, 3, "{}{}", task.out, task.err);
        id
    }

    /// Approves the only open request of a task, as somebody who read it.
    pub async fn approve(&self, id: &str) {
        let open = self.verb(&["requests", id]).await.ok().json();
        let request_id = open[0]["request_id"].as_str().unwrap_or_else(|| panic!("nothing is open: {open}"));
        self.verb(&["approve", id, request_id]).await.ok();
    }

    /// Waits for a task to be at rest.
    pub async fn ended(&self, id: &str) -> Value {
        self.verb(&["wait", id, "--timeout", "120"]).await.ok().json()
    }

    /// The hosts that live, as the launcher tells root.
    pub async fn hosts(&self) -> Vec<Host> {
        Client::new(&self.launcher_socket()).hosts().await.unwrap()
    }

    /// What commands printed, as the model was told.
    pub fn printed(&self) -> String {
        let requests = self.model.requests();
        let outputs = requests.iter().flat_map(|request| request.tool_outputs());
        outputs.map(|(_, output)| output.to_string()).collect::<Vec<_>>().join("\n")
    }

    /// Ends the daemon with all hosts, then the launcher.
    pub async fn end(mut self) {
        let said = self.verb(&["stop", "--hosts"]).await;
        assert_eq!(said.code, 0, "{}{}", said.out, said.err);
        self.daemon.take().unwrap().wait().unwrap();
        let launcher = self.launcher.take().unwrap();
        self.assert_nothing_but(launcher.id()).await;
        kill(Some(launcher));
        self.leftovers.assert_none().await;
    }

    /// No process of the hosts' user is left here but one.
    async fn assert_nothing_but(&self, pid: u32) {
        let dir = self.dir.path().to_str().unwrap().to_owned();
        let left = || {
            let all = process::all().into_iter().filter(process::Stat::is_running);
            let ours = all
                .map(|stat| stat.process.pid)
                .filter(|other| *other != pid && *other != std::process::id());
            ours.filter(|pid| {
                let exe = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
                exe.starts_with(&dir)
            })
            .count()
        };
        until("all hosts to be gone", || (left() == 0).then_some(())).await;
    }
}

impl Drop for TwoUsers {
    fn drop(&mut self) {
        // What a failed test leaves goes with the directory's processes.
        for child in [self.daemon.take(), self.launcher.take()] {
            kill(child);
        }
    }
}

fn ready(child: &mut Child, socket: &Path) -> Option<()> {
    assert!(child.try_wait().unwrap().is_none(), "it ended at its start");
    std::os::unix::net::UnixStream::connect(socket).ok().map(drop)
}

fn kill(child: Option<Child>) {
    if let Some(mut child) = child {
        if let Some(process) = Process::with_pid(child.id()) {
            let _ = process.signal(Signal::KILL);
        }
        let _ = child.wait();
    }
}

fn give(path: &Path, owner: As, mode: u32) {
    let user = owner.user();
    chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}
