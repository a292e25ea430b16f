//! Hosts through a launcher: here under one user, with callers and launchers that mean no good. Two users have their tests in
//! the program.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use codex_wire::escalation::Escalation;
use codex_wire::host::launcher::{Client, Options, Service};
use codex_wire::host::pool::{Change, Placed, Pool};
use codex_wire::host::retirement::Limits;
use codex_wire::host::{Error, Exit, Host, Launch, Reach, Stop};
use rustix::process::{Signal, geteuid};
use serde_json::{Value, json};
use testkit::rig::Home;
use testkit::wait_until;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

use crate::host_rig::{LONG, home_with, launch_in};

struct Launcher {
    home: Home,
    version: String,
    serving: JoinHandle<()>,
}

impl Launcher {
    fn start(home: Home, version: &str) -> Self {
        let launch = Launch { version: version.to_owned(), ..launch_in(&home, "-") };
        let options = Options {
            launch,
            hosts_dir: home.dir().join("p"),
            homes: vec![home.codex_home()],
            packages: home.dir().join("packages"),
            denied: Vec::new(),
            services: Vec::new(),
            command_path: String::new(),
            serves: geteuid().as_raw(),
        };
        let listener = listen(&home);
        let serving = tokio::spawn(async move { Service::new(options).run(listener).await });
        Self { home, version: version.to_owned(), serving }
    }

    fn new() -> Self {
        Self::start(home_with(""), "0.166.0")
    }

    /// Another launcher in its place.
    async fn replaced(self, version: &str) -> Self {
        self.serving.abort();
        let _ = self.serving.await;
        Self::start(self.home, version)
    }

    fn client(&self) -> Client {
        Client::new(&socket(&self.home))
    }

    async fn pool(&self) -> (Pool, Vec<Change>) {
        Pool::attach_through(&self.client(), &self.home.dir().join("p"), Limits::default()).await.unwrap()
    }

    async fn placed(&self, pool: &Pool) -> Host {
        match pool.host_for(&launch_in(&self.home, "-")).await.unwrap() {
            Placed::On(host) => host,
            Placed::Wait => panic!("no host now"),
        }
    }

    /// What the launcher says to these bytes; nothing if it hangs up.
    async fn said(&self, bytes: &[u8]) -> String {
        let mut stream = UnixStream::connect(socket(&self.home)).await.unwrap();
        // It may hang up before it has read all.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    async fn refusal(&self, call: Value) -> String {
        let answer = self.said(format!("{call}\n").as_bytes()).await;
        let answer: Value = serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"));
        answer["refused"]["message"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    async fn end(self) {
        for host in self.client().hosts().await.unwrap() {
            host.stop(Stop::Now).await.unwrap();
        }
        self.serving.abort();
        self.home.assert_no_processes().await;
    }
}

fn socket(home: &Home) -> PathBuf {
    home.dir().join("run/l")
}

fn listen(home: &Home) -> UnixListener {
    let _ = fs::create_dir(home.dir().join("run"));
    let _ = fs::create_dir(home.dir().join("p"));
    fs::set_permissions(home.dir().join("run"), fs::Permissions::from_mode(0o750)).unwrap();
    let _ = fs::remove_file(socket(home));
    UnixListener::bind(socket(home)).unwrap()
}

#[tokio::test]
async fn hosts_are_started_shared_and_ended_through_a_launcher() {
    let launcher = Launcher::new();
    let (pool, changes) = launcher.pool().await;
    assert!(changes.is_empty(), "{changes:?}");
    let host = launcher.placed(&pool).await;
    assert_eq!(launcher.placed(&pool).await, host);
    assert!(host.is_alive() && host.has_keeper() && host.is_healthy(LONG).await);
    assert_eq!(host.exit().await, None);
    assert!(pool.maintain("ignored: the launcher knows its codex").await.is_empty());
    assert!(pool.origins().is_empty());

    let (next, changes) = launcher.pool().await;
    assert!(changes.is_empty(), "{changes:?}");
    assert_eq!(next.hosts(), std::slice::from_ref(&host));
    host.stop(Stop::Drain { grace: LONG }).await.unwrap();
    assert!(!host.is_alive() && !host.has_keeper());
    let ended_in_peace = |exit: &Exit| exit.code == Some(0) || exit.signal == Some(Signal::TERM.as_raw());
    // A young Codex may not listen to signals yet.
    assert!(host.exit().await.is_some_and(|exit| ended_in_peace(&exit)));
    fs::write(host.dir().join("stderr.log"), "first\nlast\n").unwrap();
    assert_eq!(host.stderr_tail(1).await, ["last"]);
    assert!(matches!(host.connect_stream().await, Err(Error::Gone { .. })));
    host.stop(Stop::Now).await.unwrap();
    let changes = next.maintain("").await;
    assert!(
        matches!(changes.as_slice(), [Change::Died { exit: Some(exit), .. }] if ended_in_peace(exit)),
        "{changes:?}"
    );
    assert!(!host.dir().exists() && next.hosts().is_empty());
    launcher.end().await;
}

#[tokio::test]
async fn a_launcher_with_another_codex_has_the_old_hosts_retired() {
    let launcher = Launcher::new();
    let (pool, _) = launcher.pool().await;
    let host = launcher.placed(&pool).await;
    pool.turn_started(host.id());
    let launcher = launcher.replaced("0.166.1").await;
    let changes = pool.maintain("").await;
    assert!(matches!(changes.as_slice(), [Change::Retiring { .. }]), "{changes:?}");
    pool.turn_ended(host.id());
    let changes = pool.maintain("").await;
    assert!(matches!(changes.as_slice(), [Change::Retired { .. }]), "{changes:?}");
    assert!(!host.is_alive() && !host.dir().exists());
    let next = launcher.placed(&pool).await;
    assert_eq!(next.record().codex_version, launcher.version);
    assert!(pool.maintain("").await.is_empty(), "the new one stays");
    launcher.end().await;
}

#[tokio::test]
async fn a_host_without_its_keeper_is_ended_and_told() {
    let launcher = Launcher::new();
    let (pool, _) = launcher.pool().await;
    let host = launcher.placed(&pool).await;
    host.record().keeper.signal(Signal::KILL).unwrap();
    wait_until(LONG, "the host to be gone", || !host.is_alive() && pool.hosts().is_empty()).await;
    let changes = pool.maintain("").await;
    let Some(Change::Died { exit: Some(exit), .. }) = changes.first() else { panic!("{changes:?}") };
    assert!(exit.error.as_ref().unwrap().contains("its keeper was killed"), "{exit}");
    assert!(!host.dir().exists());
    launcher.end().await;
}

#[tokio::test]
async fn a_host_that_a_dying_launcher_did_not_tell_of_is_found() {
    let launcher = Launcher::new();
    let (pool, _) = launcher.pool().await;
    let mut launch = launch_in(&launcher.home, "p/untold");
    launch.version = launcher.version.clone();
    let untold = Host::launch(&launch).await.unwrap();
    assert!(pool.maintain("").await.is_empty());
    assert_eq!(pool.hosts().iter().map(Host::epoch).collect::<Vec<_>>(), [untold.epoch()]);
    assert_eq!(launcher.placed(&pool).await.id(), untold.id());
    launcher.end().await;
}

#[tokio::test]
async fn a_start_that_nobody_waits_for_is_given_up() {
    let launcher = Launcher::new();
    let identity = json!({"codex_home": launcher.home.codex_home()});
    let call = json!({"call": "launch", "name": "given-up", "identity": identity, "config": []});
    let mut stream = UnixStream::connect(socket(&launcher.home)).await.unwrap();
    stream.write_all(format!("{call}\n").as_bytes()).await.unwrap();
    let dir = launcher.home.dir().join("p/given-up");
    wait_until(LONG, "a keeper", || dir.join("plan.json").exists()).await;
    drop(stream);
    // Taking over waits for starts that are under way.
    let (pool, _) = launcher.pool().await;
    assert!(pool.hosts().is_empty() && !dir.exists());
    launcher.end().await;
}

#[tokio::test]
async fn a_caller_chooses_neither_programs_nor_places() {
    let launcher = Launcher::new();
    let home = launcher.home.codex_home();
    let launch = |name: &str, home: &Path, config: &str| json!({"call": "launch", "name": name, "identity": {"codex_home": home}, "config": [config]});
    let fine = "permissions={}";
    for name in ["", "../x", "/tmp/x", "a/b", "A", ".", "..", &"x".repeat(37)] {
        let said = launcher.refusal(launch(name, &home, fine)).await;
        assert!(said.contains("a host's name must"), "{name:?}: {said}");
    }
    for other in ["/", "/root", "/tmp"] {
        let said = launcher.refusal(launch("x", Path::new(other), fine)).await;
        assert!(said.contains("not one of the launcher's"), "{other}: {said}");
        let said = launcher.refusal(json!({"call": "home", "dir": other})).await;
        assert!(said.contains("not one of the launcher's"), "{other}: {said}");
    }
    for config in ["mcp_servers={}", "notify=[\"sh\"]", "sandbox_mode=\"x\"", "permissionsx=1", ""] {
        let said = launcher.refusal(launch("x", &home, config)).await;
        assert!(said.contains("a call may not set"), "{config}: {said}");
    }
    for call in ["connect", "look", "stop", "clear"] {
        let host = json!({"name": "../../etc", "epoch": "e"});
        let mut call = json!({"call": call, "host": host});
        if call["call"] == "look" {
            call["stderr_lines"] = json!(1);
        }
        assert!(launcher.refusal(call.clone()).await.contains("no longer runs"), "{call}");
    }
    let more = json!({"call": "launch", "name": "x", "identity": {}, "config": [], "codex": "/bin/sh"});
    assert!(launcher.refusal(more).await.contains("does not know the call"));
    assert_eq!(fs::read_dir(launcher.home.dir().join("p")).unwrap().count(), 0);
    launcher.end().await;
}

#[tokio::test]
async fn a_caller_learns_of_escalations_from_rollouts_in_a_home_and_from_no_other_file() {
    let launcher = Launcher::new();
    let homes = launcher.home.codex_home();
    let call = json!({"type": "response_item", "payload": {"type": "function_call", "name": "exec_command", "call_id": "c1",
        "arguments": "{\"sandbox_permissions\":\"require_escalated\"}"}});
    let outside = launcher.home.dir().join("outside.jsonl");
    let inside = homes.join("rollout.jsonl");
    for file in [&inside, &outside] {
        fs::write(file, format!("{call}\n")).unwrap();
    }
    let link = homes.join("link.jsonl");
    std::os::unix::fs::symlink(&outside, &link).unwrap();
    let around = homes.join("../outside.jsonl");
    let escalation = async |rollout: &Path, call_id: &str| {
        let call = json!({"call": "escalation", "rollout": rollout, "call_id": call_id});
        let said = launcher.said(format!("{call}\n").as_bytes()).await;
        serde_json::from_str::<Value>(&said).unwrap()["done"].as_str().unwrap().to_owned()
    };
    assert_eq!(escalation(&inside, "c1").await, "asked");
    assert_eq!(escalation(&inside, "c2").await, "unknown");
    for file in [&outside, &link, &around, &homes, &homes.join("none.jsonl")] {
        assert_eq!(escalation(file, "c1").await, "unknown", "{}", file.display());
    }
    let reach = Reach::Launcher(launcher.client());
    assert_eq!(reach.escalation(&inside, "c1").await, Escalation::Asked);
    launcher.serving.abort();
    assert_eq!(reach.escalation(&inside, "c1").await, Escalation::Unknown, "nobody says");
    let home = launcher.home;
    home.assert_no_processes().await;
}

#[tokio::test]
async fn calls_that_are_malformed_oversized_or_slow_do_no_harm() {
    let launcher = Launcher::new();
    for wrong in [&b"\n"[..], b"hello\n", b"{\n", b"[]\n", b"{\"call\":\"dance\"}\n", b"\xff\xfe\0\n"] {
        assert!(launcher.said(wrong).await.contains("does not know the call"), "{wrong:?}");
    }
    let endless = vec![b'x'; 70 * 1024];
    assert_eq!(launcher.said(&endless).await, "", "it is hung up on");
    let nested = format!("{}\n", "[".repeat(60 * 1024));
    assert!(launcher.said(nested.as_bytes()).await.contains("does not know the call"));

    // More idle callers than are answered at once; in the meantime nobody else is, and then everybody again.
    let mut idle = Vec::new();
    for _ in 0..200 {
        let mut stream = UnixStream::connect(socket(&launcher.home)).await.unwrap();
        let _ = stream.write_all(b"{\"call\":").await;
        idle.push(stream);
    }
    let began = Instant::now();
    while launcher.client().about().await.is_err() {
        assert!(began.elapsed() < LONG, "the launcher answers nobody");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut rest = Vec::new();
    for mut stream in idle {
        let _ = stream.read_to_end(&mut rest).await;
    }
    assert!(rest.is_empty(), "whoever says nothing is told nothing");
    launcher.end().await;
}

/// Answers every call with this, and with a handle on a socket.
fn lying(home: &Home, answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> JoinHandle<()> {
    let listener = listen(home);
    let other = home.dir().join("other");
    let _ = fs::remove_file(&other);
    let decoy = std::os::unix::net::UnixListener::bind(&other).unwrap();
    tokio::spawn(async move {
        let _decoy = decoy;
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let mut line = vec![0; 64 * 1024];
            // Ready may be said too early.
            let length = loop {
                stream.readable().await.unwrap();
                match stream.try_read(&mut line) {
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    read => break read.unwrap_or_default(),
                }
            };
            let answer = answer(&String::from_utf8_lossy(&line[..length]));
            let stream = stream.into_std().unwrap();
            stream.set_nonblocking(false).unwrap();
            let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
            let handle = rustix::fs::open(&other, flags, rustix::fs::Mode::empty()).unwrap();
            // A caller that has read enough hangs up.
            let _ = tokio::task::spawn_blocking(move || send_all(&stream, &answer, &handle)).await;
        }
    })
}

fn send_all(
    stream: &std::os::unix::net::UnixStream,
    bytes: &[u8],
    handle: &impl AsFd,
) -> std::io::Result<()> {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    let handles = [handle.as_fd(), handle.as_fd(), handle.as_fd()];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&handles)));
    let slices = [std::io::IoSlice::new(bytes)];
    let sent = sendmsg(stream, &slices, &mut ancillary, SendFlags::NOSIGNAL)?;
    std::io::Write::write_all(&mut &*stream, &bytes[sent..])
}

#[tokio::test]
async fn a_launcher_that_lies_is_not_believed() {
    let launcher = Launcher::new();
    let (pool, _) = launcher.pool().await;
    let host = launcher.placed(&pool).await;
    let record = serde_json::to_value(host.record()).unwrap();
    launcher.serving.abort();
    let home = &launcher.home;
    let client = launcher.client();
    let open_before = fs::read_dir("/proc/self/fd").unwrap().count();

    // Somebody else's socket instead of codex's.
    let liar = lying(home, |_| b"{\"done\":null}\n".to_vec());
    let error = host.connect_stream().await.unwrap_err();
    assert!(matches!(error, Error::WrongPeer { .. }), "{error}");
    liar.abort();
    let _ = liar.await;

    // More than anybody wants to read.
    let liar = lying(home, |_| vec![b' '; 5 * 1024 * 1024]);
    let error = client.about().await.unwrap_err().to_string();
    assert!(error.contains("the line has more than"), "{error}");
    liar.abort();
    let _ = liar.await;

    // What a terminal would act on.
    let liar = lying(home, |_| b"{\"refused\":{\"why\":\"odd\",\"message\":\"a\\u001b[2Jb\"}}\n".to_vec());
    let error = client.about().await.unwrap_err().to_string();
    assert_eq!(error, "the launcher of hosts: a[2Jb");
    liar.abort();
    let _ = liar.await;

    // Hosts in other places, and too many of them.
    let about = json!({"version": "0.166.0", "codex": "/c", "packages": "/k", "hosts_dir": home.dir().join("p"),
        "homes": [], "user_home": null, "variables": [], "denied": [], "services": [], "command_path": "", "host_path": "", "temp_dir": null});
    let liar = lying(home, move |call| {
        let mut hosts = vec![json!({"name": "../../etc", "record": record})];
        hosts.extend((0..1000).map(|number| json!({"name": format!("h{number}"), "record": record})));
        let answer = if call.contains("about") { about.clone() } else { json!({"hosts": hosts}) };
        format!("{}\n", json!({"done": answer})).into_bytes()
    });
    let hosts = client.hosts().await.unwrap();
    assert_eq!(hosts.len(), 256);
    assert!(hosts.iter().all(|found| found.dir().parent() == host.dir().parent()));
    liar.abort();
    let _ = liar.await;
    wait_until(LONG, "descriptors that came to be closed", || {
        fs::read_dir("/proc/self/fd").unwrap().count() <= open_before + 1
    })
    .await;
    launcher.replaced("0.166.0").await.end().await;
}

#[tokio::test]
async fn a_socket_where_others_may_write_is_no_launchers() {
    let launcher = Launcher::new();
    fs::set_permissions(launcher.home.dir().join("run"), fs::Permissions::from_mode(0o770)).unwrap();
    let error = launcher.client().about().await.unwrap_err().to_string();
    assert!(error.contains("must belong to the launcher's user"), "{error}");
    fs::set_permissions(launcher.home.dir().join("run"), fs::Permissions::from_mode(0o750)).unwrap();
    launcher.end().await;
}
