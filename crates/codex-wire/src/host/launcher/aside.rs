//! Threads that may be lost. All that touches a socket of the hosts' user happens on them.
//!
//! Whoever is at the other end can send descriptors of sockets that block for an hour when they are closed (`SO_LINGER`), and
//! the kernel closes what nobody takes, in the thread that reads. On a thread of the daemon that would keep everybody waiting.

use std::future::Future;
use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// For calls to a launcher. When all of these block, nothing more is asked of it.
static CALLS: Threads = Threads { count: 8, name: "launcher-calls", runtime: OnceLock::new() };
/// For the bytes to and from codex: these go on when calls block.
static RELAYS: Threads = Threads { count: 4, name: "codex-relays", runtime: OnceLock::new() };

struct Threads {
    count: usize,
    name: &'static str,
    runtime: OnceLock<Option<Runtime>>,
}

impl Threads {
    fn handle(&self) -> io::Result<Handle> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(self.count).thread_name(self.name).enable_all();
        let runtime = self.runtime.get_or_init(|| builder.build().ok()).as_ref();
        runtime.map(|runtime| runtime.handle().clone()).ok_or_else(|| io::Error::other("no threads"))
    }
}

/// Does this on such a thread, for as long as somebody waits for it, and at most so long. What it gives comes with what is to be
/// dropped there, which nobody waits for.
pub(super) async fn run<T: Send + 'static, Rest: Send>(
    limit: Duration,
    work: impl Future<Output = (T, Rest)> + Send + 'static,
) -> io::Result<T> {
    let (tell, told) = oneshot::channel();
    let _work = Awaited(CALLS.handle()?.spawn(async move {
        let (done, rest) = work.await;
        // Whoever waited has gone: then it is dropped here too.
        drop(tell.send(done));
        drop(rest);
    }));
    match timeout(limit, told).await {
        Ok(done) => done.map_err(io::Error::other),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Given up with whoever waits for it.
struct Awaited(JoinHandle<()>);

impl Drop for Awaited {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A stream of our own whose bytes go to and come from this one, which stays on such threads.
pub(super) fn relayed(stream: UnixStream) -> io::Result<StdUnixStream> {
    let (ours, theirs) = StdUnixStream::pair()?;
    ours.set_nonblocking(true)?;
    theirs.set_nonblocking(true)?;
    let relays = RELAYS.handle()?;
    let _entered = relays.enter();
    let (mut theirs, mut stream) = (UnixStream::from_std(theirs)?, UnixStream::from_std(stream.into_std()?)?);
    relays.spawn(async move {
        // Whichever end breaks, the other one is closed with it.
        if let Err(error) = copy_bidirectional(&mut theirs, &mut stream).await {
            tracing::debug!(%error, "a connection to a host broke");
        }
    });
    Ok(ours)
}
