//! The daemon's TCP port, opened early so that an unusable address stops the start.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use axum::serve::ListenerExt;
use codex_bridge_core::Bridge;
use codex_wire::{os::socket::close_unread, reason};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::connections::{self, Limits};
use super::{Shutdown, StartOptions};
use crate::config;
use crate::failure::{Code, Failure};
use crate::http::gate::{Front, Gate};
use crate::http::origin::{Names, OWN_NAME};
use crate::web;

/// A connection is closed when its peer has read nothing for this long. Otherwise a peer that never reads would keep its
/// socket and our buffers for ever, since a blocked write cannot be cancelled.
const UNREAD_LIMIT: Duration = Duration::from_secs(30);

/// An open port.
pub struct Port {
    listener: TcpListener,
    address: SocketAddr,
    front: Front,
    allowed_hosts: Vec<String>,
}

impl Port {
    /// Opens the configured port, if any.
    pub async fn open(options: &StartOptions, configured: &config::Http) -> Result<Option<Self>, Failure> {
        let Some(wanted) = options.listen.or(configured.listen) else { return Ok(None) };
        let is_behind_proxy = options.behind_proxy || configured.behind_proxy;
        if !wanted.ip().is_loopback() && !is_behind_proxy {
            let message = format!("{wanted} can be reached from other machines, and there is no TLS");
            return Err(Failure::new(Code::ListenBeyondLoopback, message).hint(
                "listen on 127.0.0.1, or put a proxy with TLS in front and add --behind-proxy (docs/http.md)",
            ));
        }
        let bind = async {
            let listener = TcpListener::bind(wanted).await?;
            let address = listener.local_addr()?;
            Ok::<_, std::io::Error>((listener, address))
        };
        let (listener, address) = bind.await.map_err(|error| {
            Failure::new(Code::Listen, format!("cannot listen on {wanted}: {}", reason(&error)))
                .hint("choose another address with --listen or `listen` under [http]")
        })?;
        let front = if is_behind_proxy { Front::Proxy } else { Front::Direct };
        Ok(Some(Self { listener, address, front, allowed_hosts: configured.allowed_hosts.clone() }))
    }

    /// The address of the port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the web page, if a browser on this machine can open it.
    pub fn page(&self) -> Option<String> {
        let is_found =
            [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()].contains(&self.address.ip());
        is_found.then(|| format!("http://{OWN_NAME}:{}", self.address.port()))
    }

    /// Serves calls until the daemon stops, then finishes open calls.
    pub async fn serve(self, bridge: Bridge, router: Router, ended: watch::Receiver<Shutdown>) {
        let names = Names { port: self.address.port(), allowed: self.allowed_hosts };
        let router = Gate::new(bridge, names, self.front, web::LOGIN_PAGES).before(router);
        // Events are small and must not be delayed.
        let listener = self.listener.tap_io(|stream| {
            stream.set_nodelay(true).ok();
            // Not fatal: the connection works without it.
            close_unread(&*stream, UNREAD_LIMIT).ok();
        });
        connections::serve(listener, router, Limits::default(), |_, address| *address, ended).await;
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
