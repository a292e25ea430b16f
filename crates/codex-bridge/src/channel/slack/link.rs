//! The connection by which Slack sends events (Socket Mode). A task owns the WebSocket: it answers pings, notices silence, and
//! when Slack wants a connection replaced, opens the new one before the old one ends, so that no event is missed.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, OptionFuture};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::api::Client;
use crate::channel::ChannelError;
use crate::channel::websocket::{Received, Socket};

/// How many events wait to be read, and how many acknowledgements wait to be sent.
const MOST_WAITING: usize = 256;
/// How long Slack takes to say hello.
const HELLO: Duration = Duration::from_secs(10);
/// The pause before a connection is replaced, so that no server can have us connect without end.
const REPLACE_PAUSE: Duration = Duration::from_secs(1);
/// How often the connection is tried, and after which silence it counts as broken.
const PING_EVERY: Duration = Duration::from_secs(20);
const LONGEST_SILENCE: Duration = Duration::from_mins(1);

/// A connection. It ends when this is dropped.
pub struct Link {
    /// Envelopes, each to be acknowledged by its id within three seconds; at the end, why the connection ended.
    pub frames: mpsc::Receiver<Result<Value, ChannelError>>,
    /// Takes the ids of envelopes to be acknowledged.
    pub acks: mpsc::Sender<String>,
    task: JoinHandle<()>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Link {
    /// Connects. Returns also how many connections the app has now.
    pub async fn open(client: &Arc<Client>) -> Result<(Self, u64), ChannelError> {
        let (socket, count) = connect(client).await?;
        let (passed_on, frames) = mpsc::channel(MOST_WAITING);
        let (acks, to_send) = mpsc::channel(MOST_WAITING);
        let owner = Owner { client: Arc::clone(client), frames: passed_on.clone(), socket, old: None };
        let task = tokio::spawn(async move {
            if let Err(error) = owner.run(to_send).await {
                passed_on.send(Err(error)).await.ok();
            }
        });
        Ok((Self { frames, acks, task }, count))
    }
}

/// Connects, and waits until Slack says hello.
async fn connect(client: &Client) -> Result<(Socket, u64), ChannelError> {
    let mut socket = Socket::connect(&client.socket_address().await?).await?;
    let hello = timeout(HELLO, socket.receive()).await;
    match hello.map_err(|_| ChannelError::retry("Slack did not say hello in time"))?? {
        Received::Json(frame) if frame["type"] == "hello" => {
            Ok((socket, frame["num_connections"].as_u64().unwrap_or(1)))
        }
        Received::Json(frame) if frame["type"] == "disconnect" => Err(disconnected(&frame)),
        _ => Err(ChannelError::retry("Slack closed the connection instead of saying hello")),
    }
}

fn disconnected(frame: &Value) -> ChannelError {
    match frame["reason"].as_str().unwrap_or_default() {
        "link_disabled" => ChannelError::Fatal(
            "Socket Mode is turned off for this app: turn it on at api.slack.com/apps".to_owned(),
        ),
        reason => ChannelError::retry(format!("Slack ended the connection: {reason}")),
    }
}

/// What owns the connection.
struct Owner {
    client: Arc<Client>,
    frames: mpsc::Sender<Result<Value, ChannelError>>,
    socket: Socket,
    /// A connection that was replaced. Slack closes it. What came by it is acknowledged by it.
    old: Option<Socket>,
}

impl Owner {
    async fn run(mut self, mut acks: mpsc::Receiver<String>) -> Result<(), ChannelError> {
        let mut replacing: Option<BoxFuture<'static, Result<Socket, ChannelError>>> = None;
        let mut ping = interval(PING_EVERY);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                received = self.socket.receive() => match received? {
                    Received::Json(frame) if frame["type"] == "disconnect" => {
                        if let fatal @ ChannelError::Fatal(_) = disconnected(&frame) {
                            return Err(fatal);
                        }
                        replacing.get_or_insert_with(|| Box::pin(replace(Arc::clone(&self.client))));
                    }
                    Received::Json(frame) => drop(self.frames.send(Ok(frame)).await),
                    Received::Closed { reason, .. } => {
                        return Err(ChannelError::retry(format!("Slack closed the connection: {reason}")));
                    }
                },
                Some(received) = OptionFuture::from(self.old.as_mut().map(Socket::receive)) => match received {
                    Ok(Received::Json(frame)) => drop(self.frames.send(Ok(frame)).await),
                    _ => self.old = None,
                },
                Some(replaced) = OptionFuture::from(replacing.as_mut()) => {
                    self.old = Some(std::mem::replace(&mut self.socket, replaced?));
                    replacing = None;
                }
                ack = acks.recv() => match ack {
                    Some(id) => self.acknowledge(&id).await?,
                    None => return Ok(()),
                },
                _ = ping.tick() => {
                    if self.socket.silence() > LONGEST_SILENCE {
                        return Err(ChannelError::retry("Slack has not answered for a minute"));
                    }
                    self.socket.ping().await?;
                }
            }
        }
    }

    /// On both connections while there are two: Slack ignores an id that is not of the connection.
    async fn acknowledge(&mut self, id: &str) -> Result<(), ChannelError> {
        let ack = json!({ "envelope_id": id });
        if let Some(old) = &mut self.old
            && old.send(&ack).await.is_err()
        {
            self.old = None;
        }
        self.socket.send(&ack).await
    }
}

/// Opens another connection. While that fails for the moment, it is tried again: the present one may still last.
async fn replace(client: Arc<Client>) -> Result<Socket, ChannelError> {
    loop {
        sleep(REPLACE_PAUSE).await;
        match connect(&client).await {
            Ok((socket, _)) => return Ok(socket),
            Err(ChannelError::Retry { after, .. }) => sleep(after.unwrap_or(REPLACE_PAUSE)).await,
            Err(fatal) => return Err(fatal),
        }
    }
}
