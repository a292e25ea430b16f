//! One question to the client's user, by a request to the client: revisions of MCP before 2026-07-28.

use std::time::Instant;

use rmcp::model::{ClientResult, ElicitRequest, ElicitResult, ServerRequest};
use rmcp::service::{Peer, PeerRequestOptions, RoleServer};
use tokio::sync::oneshot;

use super::access::Access;
use super::request_form;
use crate::view::Request;

/// What came of a question.
pub struct Outcome {
    /// Which request it was about.
    pub request_id: String,
    /// Why it decided nothing, unless it did or nobody wants to know any more.
    pub undecided: Option<String>,
}

/// Asks, and passes the decision on. When `taken_back` ends first, the question is taken back.
pub async fn elicit(
    peer: Peer<RoleServer>,
    access: Access,
    request: Request,
    taken_back: oneshot::Receiver<()>,
) -> Outcome {
    let undecided = match answered(&peer, &request, taken_back).await {
        Answered::By(answer) => match request_form::decision(&request, &answer) {
            Some(decision) => {
                let decided = access.decide(&request, &decision).await;
                decided.err().map(|failure| failure.to_string())
            }
            None => Some("nothing was chosen, so nothing is decided".to_owned()),
        },
        Answered::Not(why) => Some(format!("this client did not ask anyone: {why}")),
        Answered::TooLate => None,
    };
    Outcome { request_id: request.request_id, undecided }
}

enum Answered {
    By(ElicitResult),
    Not(String),
    TooLate,
}

async fn answered(peer: &Peer<RoleServer>, request: &Request, taken_back: oneshot::Receiver<()>) -> Answered {
    let Some(form) = request_form::form(request) else {
        return Answered::Not("there is no form for it".to_owned());
    };
    let question = ServerRequest::ElicitRequest(ElicitRequest::new(form));
    let sent = peer.send_cancellable_request(question, PeerRequestOptions::no_options()).await;
    let asked_at = Instant::now();
    let mut handle = match sent {
        Ok(handle) => handle,
        Err(error) => return Answered::Not(error.to_string()),
    };
    tokio::select! {
        answer = &mut handle.rx => match answer {
            Ok(Ok(ClientResult::ElicitResult(_))) if asked_at.elapsed() < request_form::FASTEST => {
                Answered::Not("it answered at once".to_owned())
            }
            Ok(Ok(ClientResult::ElicitResult(answer))) => Answered::By(answer),
            Ok(Ok(_)) => Answered::Not("its answer was something else".to_owned()),
            Ok(Err(error)) => Answered::Not(error.to_string()),
            Err(_) => Answered::Not("the connection has ended".to_owned()),
        },
        _ = taken_back => {
            // A client that does not hear of it answers into the void.
            handle.cancel(Some("nobody waits for the answer any more".to_owned())).await.ok();
            Answered::TooLate
        }
    }
}
