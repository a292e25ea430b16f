//! The daemon's TCP port: opened before anything else is begun, so that an address that cannot be had stops a start.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use axum::serve::ListenerExt;
use codex_bridge_core::Bridge;
use codex_wire::os::socket::close_unread;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::connections::{self, Limits};
use super::{End, Orders};
use crate::config;
use crate::failure::{Code, Failure};
use crate::http::gate::{Front, Gate};
use crate::http::origin::{Names, OWN_NAME};
use crate::web;

/// How long a peer may take nothing of what was sent before its connection is closed. Without it one that never reads
/// holds its socket, and what is written for it, for ever: nobody can end an answer that waits for room to be written.
const UNREAD_LIMIT: Duration = Duration::from_secs(30);

/// An open port.
pub struct Port {
    listener: TcpListener,
    address: SocketAddr,
    front: Front,
    allowed_hosts: Vec<String>,
}

impl Port {
    /// Opens the port that was asked for, if one was.
    pub async fn open(orders: &Orders, configured: &config::Http) -> Result<Option<Self>, Failure> {
        let Some(wanted) = orders.listen.or(configured.listen) else { return Ok(None) };
        let is_behind_proxy = orders.behind_proxy || configured.behind_proxy;
        if !wanted.ip().is_loopback() && !is_behind_proxy {
            let message = format!("{wanted} lies beyond this machine, and nothing in front of it speaks TLS");
            return Err(Failure::new(Code::ListenBeyondLoopback, message)
                .hint("listen on 127.0.0.1, or put a proxy in front and say --behind-proxy (docs/http.md)"));
        }
        let bind = async {
            let listener = TcpListener::bind(wanted).await?;
            let address = listener.local_addr()?;
            Ok::<_, std::io::Error>((listener, address))
        };
        let (listener, address) = bind.await.map_err(|error| {
            Failure::new(Code::Listen, format!("cannot listen on {wanted}: {error}"))
                .hint("choose another address with --listen or `listen` under [http]")
        })?;
        let front = if is_behind_proxy { Front::Proxy } else { Front::Direct };
        Ok(Some(Self { listener, address, front, allowed_hosts: configured.allowed_hosts.clone() }))
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The page, under the name that browsers find on this machine.
    pub fn page(&self) -> Option<String> {
        let is_found =
            [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()].contains(&self.address.ip());
        is_found.then(|| format!("http://{OWN_NAME}:{}", self.address.port()))
    }

    /// Answers until the end is told, then finishes what it was answering.
    pub async fn answer(self, bridge: Bridge, router: Router, ended: watch::Receiver<End>) {
        let names = Names { port: self.address.port(), allowed: self.allowed_hosts };
        let router = Gate::new(bridge, names, self.front, web::BETWEEN).before(router);
        // Events are small and wanted at once.
        let listener = self.listener.tap_io(|stream| {
            stream.set_nodelay(true).ok();
            // A connection that cannot have it works as well.
            close_unread(&*stream, UNREAD_LIMIT).ok();
        });
        connections::answer(listener, router, Limits::default(), |_, address| *address, ended).await;
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpStream;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn the_connection_of_a_peer_that_never_reads_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let idle = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut ours, _) = listener.accept().await.unwrap();
        close_unread(&ours, Duration::from_secs(1)).unwrap();
        let write = async {
            loop {
                if let Err(error) = ours.write_all(&[0; 1 << 14]).await {
                    return error.kind();
                }
            }
        };
        let ended = timeout(Duration::from_secs(20), write).await.expect("the connection stays open");
        assert_eq!(ended, ErrorKind::TimedOut);
        drop(idle);
    }
}
