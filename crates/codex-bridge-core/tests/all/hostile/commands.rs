//! What commands of a task try: every read, socket and signal.

use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;

use codex_bridge_core::Config;
use codex_bridge_core::trust::Trust;
use codex_session::Sandbox;
use scripted_model::{Scenario, ToolCall};
use serde_json::json;

use super::{done, new, told_to};
use crate::workbench::Workbench;

/// Everything that a command could try without being let out, in Python: what it says in capitals must not be said.
const TRY_EVERYTHING: &str = r"
import ctypes, glob, os, signal, socket, sys
state, codex_home, hosts, temp, free_socket, port = sys.argv[1:7]

def attempt(name, act):
    try:
        print(name.upper().replace(' ', '-'), act())
    except Exception as error:
        print('failed:', name, type(error).__name__)

def connect(kind, address, family=socket.AF_UNIX):
    s = socket.socket(family, kind)
    s.settimeout(2)
    s.connect(address)
    return 'connected'

def processes_seen():
    pids = [int(pid) for pid in os.listdir('/proc') if pid.isdigit()]
    if len(pids) > 8:
        return len(pids)
    raise OSError('only our own')

# Reads.
attempt('read state', lambda: open(state + '/secret').read())
attempt('read state by proc', lambda: open('/proc/self/root' + state + '/secret').read())
attempt('read state by link', lambda: open('to-state/secret').read())
attempt('read codex', lambda: open(codex_home + '/config.toml').read())
attempt('list hosts', lambda: os.listdir(hosts))
attempt('list daemon', lambda: os.listdir(f'/tmp/codex-daemon-{os.getuid()}'))
attempt('write state', lambda: open(state + '/planted', 'w').write('x'))
attempt('write codex', lambda: open(codex_home + '/rules/planted', 'w').write('x'))
attempt('write host socket', lambda: open(f'/tmp/codex-daemon-{os.getuid()}/planted', 'w').write('x'))
attempt('read environment', lambda: [e for e in os.environ if 'KEY' in e or 'SECRET' in e or e == 'GIT_DIR'][0])
for pid in ('1', str(os.getppid())):
    attempt('read key of process', lambda: b'sk-of-the-provider' in open(f'/proc/{pid}/environ', 'rb').read() or 1/0)
# Processes and signals.
attempt('see processes', processes_seen)
for pid in sys.argv[7:]:
    attempt('signal a host', lambda: os.kill(int(pid), 0))
attempt('trace', lambda: ctypes.CDLL(None).ptrace(16, int(sys.argv[7]), 0, 0) == 0 or 1/0)
# Sockets.
for name in glob.glob(f'/tmp/codex-daemon-{os.getuid()}/*') + glob.glob(hosts + '/*/s'):
    attempt('connect to host', lambda: connect(socket.SOCK_STREAM, name))
attempt('connect to state', lambda: connect(socket.SOCK_STREAM, state + '/daemon.sock'))
try:
    connect(socket.SOCK_STREAM, ('127.0.0.1', int(port)), socket.AF_INET)
    print('it has the network')
except OSError:
    print('it has no network')
    attempt('unix socket', lambda: connect(socket.SOCK_STREAM, free_socket))
    attempt('datagrams', lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).connect(free_socket))
    attempt('abstract socket', lambda: connect(socket.SOCK_STREAM, '\0codex-bridge-test-' + port))
    attempt('netlink', lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
    attempt('ipv6', lambda: connect(socket.SOCK_STREAM, ('::1', int(port)), socket.AF_INET6))
attempt('io uring', lambda: ctypes.CDLL(None).syscall(425, 1, 0) >= 0 or 1/0)
print([line for line in open('/proc/self/status') if line.startswith('NoNewPrivs')])
print('all was tried')
";

/// What a hostile command was told to try, and where.
struct Attempt {
    bench: Workbench,
    state: PathBuf,
    listeners: Vec<UnixListener>,
    port: TcpListener,
}

impl Attempt {
    async fn new() -> Self {
        let bench = Workbench::new().await;
        let state = bench.home.dir().canonicalize().unwrap().join("state");
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        fs::write(bench.home.workspace().join("try.py"), TRY_EVERYTHING).unwrap();
        symlink(&state, bench.home.workspace().join("to-state")).unwrap();
        Self { bench, state, listeners: Vec::new(), port }
    }

    fn config(&self) -> Config {
        let mut config = self.bench.config();
        config.denied = vec![self.state.clone()];
        config.env.pass = ["PATH", "HOME", "TMPDIR", "LANG"].map(str::to_owned).into();
        config.parent_env.insert("OPENAI_API_KEY".to_owned(), "sk-of-the-provider".to_owned());
        config
    }

    /// Where things listen that a command should not reach, and one more.
    fn listen(&mut self) {
        let name = format!("codex-bridge-test-{}", self.port.local_addr().unwrap().port());
        let address = SocketAddr::from_abstract_name(name).unwrap();
        self.listeners = vec![
            UnixListener::bind(self.state.join("daemon.sock")).unwrap(),
            UnixListener::bind(self.bench.home.dir().join("free")).unwrap(),
            UnixListener::bind_addr(&address).unwrap(),
        ];
        fs::write(self.state.join("secret"), "OUR-SECRET").unwrap();
    }

    /// The command line, with the processes of the hosts to be signalled.
    fn command(&self, pids: &[u32]) -> String {
        let home = &self.bench.home;
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        format!(
            "python3 try.py {} {} {} {} {} {} {}",
            self.state.display(),
            home.codex_home().display(),
            home.dir().join("hosts").display(),
            home.temp().display(),
            home.dir().join("free").display(),
            self.port.local_addr().unwrap().port(),
            pids.join(" ")
        )
    }

    /// Has a task try it, plainly and let out by a careless person, and checks what came of it.
    async fn check(mut self, sandbox: Sandbox, network: bool) {
        self.bench.model.script("boot", Scenario::new().say("here"));
        let bridge = self.bench.open_with(self.config()).await;
        self.listen();
        let mut task = new(&self.bench, sandbox, Trust::Hostile);
        (task.prompt, task.settings.network) = ("boot".to_owned(), network);
        let id = bridge.start(task).await.unwrap().task.id.to_string();
        done(&bridge, &id).await;
        let pids: Vec<u32> = bridge
            .hosts()
            .iter()
            .flat_map(|host| [host.record().codex.pid, host.record().keeper.pid])
            .chain([std::process::id()])
            .collect();
        let command = self.command(&pids);
        let escalated = ToolCall::exec_escalated(command.as_str(), "why not");
        let image = ToolCall::function("view_image", json!({"path": self.state.join("secret")}));
        let patch = ToolCall::add_file(&self.state.join("patched").to_string_lossy(), "x");
        let scenario = Scenario::new().exec(&command).then_call(escalated).then_call(image).then_call(patch);
        self.bench.model.script("try", scenario.then_say("done"));
        bridge.continue_task(&id, "try").await.unwrap();
        done(&bridge, &id).await;
        let outputs = self.outputs();
        assert_eq!(outputs.matches("all was tried").count(), 2, "plain and let out: {outputs}");
        let said = if network { "it has the network" } else { "it has no network" };
        assert_eq!(outputs.matches(said).count(), 2, "{outputs}");
        let succeeded: Vec<&str> = outputs.lines().filter(|line| is_success(line)).collect();
        assert_eq!(succeeded, [] as [&str; 0], "{outputs}");
        assert!(!outputs.contains("OUR-SECRET") && !outputs.contains("NoNewPrivs:\\t0"), "{outputs}");
        assert_eq!(outputs.matches("NoNewPrivs:\\t1").count(), 2, "{outputs}");
        for file in ["planted", "patched"] {
            assert!(!self.state.join(file).exists(), "{file}");
        }
        assert!(!told_to(&self.bench).contains("OUR-SECRET"));
        self.bench.tidy(bridge).await;
    }

    /// What the tools of the last turn gave.
    fn outputs(&self) -> String {
        let requests = self.bench.model.requests();
        let outputs =
            requests.last().unwrap().tool_outputs().into_iter().map(|(_, output)| match output.as_str() {
                Some(text) => text.to_owned(),
                None => output.to_string(),
            });
        outputs.collect::<Vec<_>>().join("\n")
    }
}

/// A line of the script that tells that an attempt went well.
fn is_success(line: &str) -> bool {
    let word = line.split(' ').next().unwrap_or_default();
    word.len() > 3 && word.chars().all(|char| char.is_ascii_uppercase() || char == '-')
}

#[tokio::test]
async fn a_command_reads_reaches_and_signals_nothing_read_only() {
    Attempt::new().await.check(Sandbox::ReadOnly, false).await;
}

#[tokio::test]
async fn a_command_reads_reaches_and_signals_nothing_workspace_write() {
    Attempt::new().await.check(Sandbox::WorkspaceWrite, false).await;
}

#[tokio::test]
async fn a_command_with_the_network_reads_reaches_and_signals_nothing_of_ours() {
    Attempt::new().await.check(Sandbox::WorkspaceWrite, true).await;
}

#[tokio::test]
async fn a_command_cannot_put_a_directory_of_its_own_in_the_place_of_ours() {
    let bench = Workbench::new().await;
    let top = bench.home.dir().canonicalize().unwrap();
    let look = format!(
        "sleep 0.1; mv {top} {top}-away && mkdir -p {top}/state/hosts && echo REPLACED; \
         mv {top}/state {top}/state-away && echo MOVED; touch {top}/new && echo WRITTEN; touch here && echo it can write",
        top = top.display()
    );
    bench.model.script("go", Scenario::new().exec(&look).then_say("done"));
    let mut config = bench.config();
    config.denied = vec![top.join("state")];
    let bridge = bench.open_with(config).await;
    let id =
        bridge.start(new(&bench, Sandbox::WorkspaceWrite, Trust::Hostile)).await.unwrap().task.id.to_string();
    done(&bridge, &id).await;
    let told = told_to(&bench);
    assert!(told.contains("it can write"), "{told}");
    for word in ["REPLACED\\n", "MOVED\\n", "WRITTEN\\n"] {
        assert!(!told.contains(word), "{word}: {told}");
    }
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_command_writes_no_program_that_runs_outside_of_the_sandbox() {
    let bench = Workbench::new().await;
    let dir = bench.home.workspace().canonicalize().unwrap();
    let tools = dir.join("go/bin");
    fs::create_dir_all(&tools).unwrap();
    let plant = "sleep 0.1; touch go/bin/git && echo PLANTED; mv go away && mkdir -p go/bin && echo REPLACED; \
                 touch go.mod && echo it can write";
    bench.model.script("go", Scenario::new().exec(plant).then_say("done"));
    let mut config = bench.config();
    config.protected.tools = vec![tools];
    let bridge = bench.open_with(config).await;
    let id =
        bridge.start(new(&bench, Sandbox::WorkspaceWrite, Trust::Hostile)).await.unwrap().task.id.to_string();
    done(&bridge, &id).await;
    let output = bench.model.requests().last().unwrap().last_tool_output().unwrap();
    assert!(
        output.contains("it can write") && !output.contains("PLANTED") && !output.contains("REPLACED"),
        "{output}"
    );
    bench.tidy(bridge).await;
}
