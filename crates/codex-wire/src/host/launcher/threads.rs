//! Expendable threads, for all work on sockets of the hosts' user.
//!
//! The other end can send descriptors that block for an hour when they are closed (`SO_LINGER`). The kernel closes
//! descriptors that are not taken, in the thread that reads. Such a thread may block; a thread of the daemon must not.

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

/// For calls to a launcher. When all of these block, later calls time out.
static CALLS: Threads = Threads { count: 8, name: "launcher-calls", runtime: OnceLock::new() };
/// For the bytes to and from codex, which go on while calls block.
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
        runtime
            .map(|runtime| runtime.handle().clone())
            .ok_or_else(|| io::Error::other("its threads could not be started"))
    }
}

/// Runs `work` on an expendable thread until it is done, the limit is reached or the caller stops waiting. The second
/// part of its output is dropped on that thread, since closing it may block.
pub(super) async fn run<T: Send + 'static, Rest: Send>(
    limit: Duration,
    work: impl Future<Output = (T, Rest)> + Send + 'static,
) -> io::Result<T> {
    let (tell, told) = oneshot::channel();
    let _work = Awaited(CALLS.handle()?.spawn(async move {
        let (done, rest) = work.await;
        // If the caller has stopped waiting, the output is dropped here too.
        drop(tell.send(done));
        drop(rest);
    }));
    match timeout(limit, told).await {
        Ok(done) => done.map_err(io::Error::other),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Aborts its task when it is dropped.
struct Awaited(JoinHandle<()>);

impl Drop for Awaited {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A stream that is connected to `stream` by a relay. `stream` itself stays on the expendable threads.
pub(super) fn relayed(stream: UnixStream) -> io::Result<StdUnixStream> {
    let (ours, theirs) = StdUnixStream::pair()?;
    ours.set_nonblocking(true)?;
    theirs.set_nonblocking(true)?;
    let relays = RELAYS.handle()?;
    let _entered = relays.enter();
    let (mut theirs, mut stream) = (UnixStream::from_std(theirs)?, UnixStream::from_std(stream.into_std()?)?);
    relays.spawn(async move {
        // When one end breaks, the other is closed with it.
        if let Err(error) = copy_bidirectional(&mut theirs, &mut stream).await {
            tracing::debug!(%error, "the relay of a connection to a host broke");
        }
    });
    Ok(ours)
}
