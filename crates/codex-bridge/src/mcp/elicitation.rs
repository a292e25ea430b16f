//! Asks the client's user by a request to the client (MCP before 2026-07-28).

use std::time::Instant;

use rmcp::model::{ClientResult, ElicitRequest, ElicitResult, ServerRequest};
use rmcp::service::{Peer, PeerRequestOptions, RoleServer};
use tokio::sync::oneshot;

use super::access::Access;
use super::request_form;
use crate::view::Request;

/// The outcome of a question.
pub struct Outcome {
    /// The request that it was about.
    pub request_id: String,
    /// Why the answer did not decide the request. `None` if it did, or if the question was withdrawn.
    pub undecided: Option<String>,
}

/// Asks the user and passes the decision on. The question is withdrawn when the sender of `withdrawn` is dropped.
pub async fn elicit(
    peer: Peer<RoleServer>,
    access: Access,
    request: Request,
    withdrawn: oneshot::Receiver<()>,
) -> Outcome {
    let undecided = match ask(&peer, &request, withdrawn).await {
        Answer::Given(answer) => match request_form::decision(&request, &answer) {
            Some(decision) => {
                let decided = access.decide(&request, &decision).await;
                decided.err().map(|failure| failure.to_string())
            }
            None => Some("nothing was chosen, so the request is not decided".to_owned()),
        },
        Answer::Failed(why) => Some(format!("the client did not ask its user: {why}")),
        Answer::Withdrawn => None,
    };
    Outcome { request_id: request.request_id, undecided }
}

enum Answer {
    Given(ElicitResult),
    Failed(String),
    Withdrawn,
}

async fn ask(peer: &Peer<RoleServer>, request: &Request, withdrawn: oneshot::Receiver<()>) -> Answer {
    let Some(form) = request_form::form(request) else {
        return Answer::Failed("the request cannot be shown as a form".to_owned());
    };
    let question = ServerRequest::ElicitRequest(ElicitRequest::new(form));
    let sent = peer.send_cancellable_request(question, PeerRequestOptions::no_options()).await;
    let asked_at = Instant::now();
    let mut handle = match sent {
        Ok(handle) => handle,
        Err(error) => return Answer::Failed(error.to_string()),
    };
    tokio::select! {
        answer = &mut handle.rx => match answer {
            Ok(Ok(ClientResult::ElicitResult(_))) if asked_at.elapsed() < request_form::MIN_ANSWER_TIME => {
                Answer::Failed("it answered faster than a person can".to_owned())
            }
            Ok(Ok(ClientResult::ElicitResult(answer))) => Answer::Given(answer),
            Ok(Ok(_)) => Answer::Failed("it sent another kind of answer".to_owned()),
            Ok(Err(error)) => Answer::Failed(error.to_string()),
            Err(_) => Answer::Failed("the connection has ended".to_owned()),
        },
        _ = withdrawn => {
            // If this fails, the client's answer is ignored.
            handle.cancel(Some("the answer is not needed any more".to_owned())).await.ok();
            Answer::Withdrawn
        }
    }
}
