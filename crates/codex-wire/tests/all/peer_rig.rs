//! What the tests of a connection share: a scripted app-server at the other end of a pipe or of a socket.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use codex_wire::call::{Call, Initialize, ThreadOpened, ThreadStart, TurnStart};
use codex_wire::peer::{CallError, Delivery, Inbox, Peer, inbox};
use codex_wire::transport::stdio::{self, Spawn, StdioChild};
use codex_wire::transport::{DEFAULT_MESSAGE_LIMIT, Transport, unix};
use serde::Serialize;
use serde_json::Value;
use testkit::script::Script;
use testkit::{Listening, ScriptedServer};

/// Longer than anything here takes.
pub const LONG: Duration = Duration::from_secs(90);

/// How the server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Stdio,
    Socket,
}

pub const BOTH: [Way; 2] = [Way::Stdio, Way::Socket];

/// A scripted server and a connection to it.
pub struct Wired {
    pub server: ScriptedServer,
    pub peer: Peer,
    behind: Behind,
}

enum Behind {
    Child(Arc<StdioChild>),
    Socket(Box<Listening>),
}

/// Any call: the script says what comes of it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Probe {
    pub n: u64,
}

impl Call for Probe {
    const METHOD: &'static str = "test/probe";
    type Reply = Value;
}

impl Wired {
    pub async fn new(way: Way, script: Script) -> Self {
        Self::with_limit(way, script, DEFAULT_MESSAGE_LIMIT).await
    }

    pub async fn with_limit(way: Way, script: Script, message_limit: usize) -> Self {
        let server = ScriptedServer::new(script);
        let (transport, behind) = connect(&server, way, message_limit).await;
        Self { server, peer: Peer::new(transport), behind }
    }

    /// Shakes hands and starts a thread.
    pub async fn open(&self) -> (ThreadOpened, Inbox) {
        self.peer.call(&initialize(), LONG).await.unwrap();
        self.open_another().await
    }

    /// Starts one more thread.
    pub async fn open_another(&self) -> (ThreadOpened, Inbox) {
        let (sender, mut messages) = inbox();
        let opened = self.peer.open_thread(&ThreadStart::default(), LONG, sender).await.unwrap();
        assert_eq!(next_method(&mut messages).await, "thread/started");
        (opened, messages)
    }

    pub async fn probe(&self, limit: Duration) -> Result<Value, CallError> {
        self.peer.call(&Probe::default(), limit).await
    }

    pub fn child(&self) -> &Arc<StdioChild> {
        let Behind::Child(child) = &self.behind else { panic!("not on stdio") };
        child
    }

    /// Ends the connection and the server, and sees to it that nothing is left.
    pub async fn end(self) {
        self.peer.close();
        match self.behind {
            Behind::Child(child) => child.end().await.unwrap(),
            Behind::Socket(mut listening) => listening.child.kill().await.unwrap(),
        }
        self.server.assert_no_processes().await;
    }
}

async fn connect(server: &ScriptedServer, way: Way, message_limit: usize) -> (Transport, Behind) {
    match way {
        Way::Stdio => {
            let (transport, child) = stdio::spawn(&Spawn { message_limit, ..spawn_of(server) }).unwrap();
            (transport, Behind::Child(child))
        }
        Way::Socket => {
            let listening = server.listen().await;
            let stream = tokio::net::UnixStream::connect(&listening.socket).await.unwrap();
            (unix::connect(stream, message_limit).await.unwrap(), Behind::Socket(Box::new(listening)))
        }
    }
}

/// How a scripted server is started as a child.
pub fn spawn_of(server: &ScriptedServer) -> Spawn {
    Spawn::new(server.program(), BTreeMap::new())
}

pub fn initialize() -> Initialize {
    use codex_wire::call::{Capabilities, ClientInfo};
    Initialize {
        client_info: ClientInfo { name: "peer-test".into(), title: "Peer test".into(), version: "1".into() },
        capabilities: Capabilities { experimental_api: true, opt_out_notification_methods: Vec::new() },
    }
}

/// A prompt on this thread.
pub fn prompt(thread: &ThreadOpened) -> TurnStart {
    TurnStart { thread_id: thread.id().unwrap().0, ..TurnStart::default() }
}

/// The next delivery.
pub async fn next(messages: &mut Inbox) -> Delivery {
    let next = tokio::time::timeout(LONG, messages.recv()).await;
    next.expect("a delivery in time").expect("an open inbox")
}

/// The next delivery in one word: the method of a notification or request, or what else it is.
pub async fn next_method(messages: &mut Inbox) -> String {
    match next(messages).await {
        Delivery::Notification(note) => note.method.into_string(),
        Delivery::Request(incoming) => format!("{} {}", incoming.request.method(), incoming.id),
        Delivery::Reply { token, result } => {
            format!("reply {token}{}", if result.is_ok() { "" } else { " failed" })
        }
        Delivery::Closed(_) => "closed".to_owned(),
    }
}
