//! Plays a response: steps in, the bytes of an HTTP answer out.
//!
//! Knows pacing (stalls, floods, cuts); the shapes of events are in `sse`, the choice of response in `stage`.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response as HttpResponse;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::request::call_id;
use crate::scenario::{Phase, Response, Step, ToolCall, Usage};
use crate::sse::{EventWriter, OpenMessage};
use crate::stage::Stage;

/// How many pieces may wait for the reader.
const QUEUE: usize = 64;

/// How many deltas of a flood go out in one piece: small pieces would measure us rather than the reader.
const DELTAS_PER_PIECE: usize = 64;

/// A piece of the stream; an error drops the connection.
type Piece = Result<Bytes, io::Error>;

/// The reader has gone, or the script has cut the stream: nothing more to play.
struct Over;

/// Answers a request with `response`; returns when the head of the answer is due.
pub(crate) async fn play(stage: Arc<Stage>, response: Response, round: usize) -> HttpResponse {
    let mut steps = response.steps.as_slice();
    while let Some((Step::Stall { name }, rest)) = steps.split_first() {
        if stage.stall(name).await.is_err() {
            return plain_answer(503, &json!({"error": {"message": "the scripted model has stopped"}}));
        }
        steps = rest;
    }
    let mut answer = match steps.first() {
        Some(Step::Http { status, body }) => plain_answer(*status, body),
        _ => stream_answer(stage, steps.to_vec(), round),
    };
    for (name, value) in &response.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            answer.headers_mut().insert(name, value);
        }
    }
    answer
}

/// A JSON answer.
pub(crate) fn plain_answer(status: u16, body: &Value) -> HttpResponse {
    let mut answer = HttpResponse::new(Body::from(body.to_string()));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

fn stream_answer(stage: Arc<Stage>, steps: Vec<Step>, round: usize) -> HttpResponse {
    let (pieces, reader) = mpsc::channel::<Piece>(QUEUE);
    let mut player = Player::new(stage, pieces, round);
    tokio::spawn(async move {
        // Over is no failure: the script or the reader ended the stream.
        let _ = player.run(&steps).await;
    });
    let body = stream::unfold(reader, |mut reader| async move {
        let piece = reader.recv().await?;
        if piece.is_err() {
            // hyper writes out what it holds when the body has nothing ready; without this the cut would
            // take the pieces before it along.
            tokio::task::yield_now().await;
        }
        Some((piece, reader))
    });
    let mut answer = HttpResponse::new(Body::from_stream(body));
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    answer
}

struct Player {
    stage: Arc<Stage>,
    pieces: mpsc::Sender<Piece>,
    round: usize,
    writer: EventWriter,
    message: Option<OpenMessage>,
    usage: Usage,
}

impl Player {
    fn new(stage: Arc<Stage>, pieces: mpsc::Sender<Piece>, round: usize) -> Self {
        let writer = EventWriter::new(format!("resp_{:06}", stage.next_serial()));
        Self { stage, pieces, round, writer, message: None, usage: Usage::default() }
    }

    async fn run(&mut self, steps: &[Step]) -> Result<(), Over> {
        let created = self.writer.created();
        self.send(created).await?;
        for step in steps {
            self.step(step).await?;
        }
        self.close_message().await?;
        let completed = self.writer.completed(self.usage);
        self.send(completed).await
    }

    async fn step(&mut self, step: &Step) -> Result<(), Over> {
        match step {
            Step::Say { chunks, phase } => self.say(chunks, *phase).await,
            Step::Delta { text, phase } => self.delta(text, *phase).await,
            Step::Flood { deltas, text } => self.flood(*deltas, text).await,
            Step::Reason { summary } => {
                self.close_message().await?;
                let id = format!("rs_{:06}", self.stage.next_serial());
                let events = self.writer.reasoning(&id, summary);
                self.send(events).await
            }
            Step::Call(call) => self.call(call).await,
            Step::Stall { name } => self.stall(name).await,
            Step::Usage(usage) => {
                self.usage = *usage;
                Ok(())
            }
            Step::Event(event) => {
                let kind = event["type"].as_str().unwrap_or("message").to_owned();
                let event = self.writer.event(&kind, event.clone());
                self.send(event).await
            }
            Step::Line { line } => self.send(format!("{line}\n\n")).await,
            // Only the first step can decide on the status; later the head has already gone out.
            Step::Http { .. } | Step::Cut => self.cut().await,
            Step::Failed { code, message } => {
                let failed = self.writer.failed(code, message);
                self.end_with(failed).await
            }
            Step::Incomplete { reason } => {
                let incomplete = self.writer.incomplete(reason);
                self.end_with(incomplete).await
            }
            Step::EndEarly => Err(Over),
        }
    }

    async fn say(&mut self, chunks: &[String], phase: Option<Phase>) -> Result<(), Over> {
        self.close_message().await?;
        for chunk in chunks {
            self.delta(chunk, phase).await?;
        }
        self.close_message().await
    }

    async fn delta(&mut self, text: &str, phase: Option<Phase>) -> Result<(), Over> {
        let mut message = self.open_message(phase).await?;
        let delta = self.writer.message_delta(&mut message, text);
        self.message = Some(message);
        self.send(delta).await
    }

    async fn flood(&mut self, deltas: u32, text: &str) -> Result<(), Over> {
        let mut message = self.open_message(None).await?;
        let mut piece = String::new();
        for count in 1..=deltas as usize {
            piece += &self.writer.message_delta(&mut message, text);
            if count % DELTAS_PER_PIECE == 0 {
                self.send(std::mem::take(&mut piece)).await?;
            }
        }
        self.message = Some(message);
        self.send(piece).await
    }

    async fn call(&mut self, call: &ToolCall) -> Result<(), Over> {
        self.close_message().await?;
        let serial = self.stage.next_serial();
        let events = self.writer.call(&format!("fc_{serial:06}"), &call_id(serial, self.round), call);
        self.send(events).await
    }

    async fn stall(&mut self, name: &str) -> Result<(), Over> {
        let released = tokio::select! {
            released = self.stage.stall(name) => released,
            () = self.pieces.closed() => return Err(Over),
        };
        if released.is_err() { self.cut().await } else { Ok(()) }
    }

    async fn open_message(&mut self, phase: Option<Phase>) -> Result<OpenMessage, Over> {
        if let Some(message) = self.message.take_if(|open| open.phase() == phase) {
            return Ok(message);
        }
        self.close_message().await?;
        let id = format!("msg_{:06}", self.stage.next_serial());
        let (message, begun) = self.writer.message_begins(id, phase);
        self.send(begun).await?;
        Ok(message)
    }

    async fn close_message(&mut self) -> Result<(), Over> {
        let Some(message) = self.message.take() else { return Ok(()) };
        let ended = self.writer.message_ends(&message);
        self.send(ended).await
    }

    async fn cut(&mut self) -> Result<(), Over> {
        // A reader that has gone already needs no cut.
        let _ = self.pieces.send(Err(io::Error::other("cut by the script"))).await;
        Err(Over)
    }

    async fn end_with(&mut self, event: String) -> Result<(), Over> {
        self.send(event).await?;
        Err(Over)
    }

    async fn send(&mut self, events: String) -> Result<(), Over> {
        self.pieces.send(Ok(Bytes::from(events))).await.map_err(|_| Over)
    }
}
