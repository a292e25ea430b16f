//! The HTTP API: what each call does, and what it is refused for.

use std::sync::Arc;
use std::time::Instant;

use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::super::gateway;
use super::super::markup::shown;
use super::super::messages::{Said, form, message, notifies, refusal, wrong};
use super::{BLOCKED, BOT, Books, Desk, HIDDEN, NONCES, TAP_PATIENCE, USERNAME, bot, direct, person};
use crate::platform::{Answer, Day, drop_connection};

/// The name of a call.
pub fn operation(method: &str, path: &[&str]) -> &'static str {
    match (method, path) {
        ("GET", ["users", "@me"]) => "me",
        ("GET", ["applications" | "oauth2", ..]) => "application",
        ("GET", ["gateway", ..]) => "gateway",
        ("POST", ["users", "@me", "channels"]) => "openDirect",
        ("GET", ["channels", _]) => "getChannel",
        ("GET", ["channels", _, "messages"]) => "getMessages",
        ("POST", ["channels", _, "messages"]) => "createMessage",
        ("PATCH", ["channels", _, "messages", _]) => "editMessage",
        ("POST", ["channels", _, "typing"]) => "typing",
        ("PUT", ["channels", _, "messages", _, "reactions", _, "@me"]) => "react",
        ("POST", ["interactions", _, _, "callback"]) => "callback",
        ("POST", ["webhooks", _, _]) => "followUp",
        _ => "unknown",
    }
}

pub(super) async fn receive(State(desk): State<Arc<Desk>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    if path.starts_with("/gateway") || path.starts_with("/resume") {
        return gateway::upgrade(desk, request);
    }
    let method = request.method().to_string();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let authorization = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    let is_authorized = authorization == Some(&format!("Bot {}", desk.token));
    let body = to_bytes(request.into_body(), usize::MAX).await.unwrap_or_default();
    let body = String::from_utf8_lossy(&body).into_owned();
    let path: Vec<&str> = path.trim_start_matches("/api/v10/").split('/').collect();
    let operation = operation(&method, &path);
    let day = {
        let mut books = desk.books();
        books.calls.push((operation.to_owned(), Instant::now()));
        let at = books.days.iter().position(|(of, _)| of == operation);
        at.and_then(|at| books.days.remove(at)).map(|(_, day)| day)
    };
    let needs_token = !matches!(operation, "callback" | "followUp");
    let take = || {
        if needs_token && !is_authorized {
            return refusal(401, 0, "401: Unauthorized");
        }
        answer(&desk, operation, &path, &query, &body)
    };
    let taken = match day {
        None => take(),
        Some(Day::Refuses(answer)) => answer,
        Some(Day::Drops) => return drop_connection(),
        Some(Day::IsSlow(time)) => {
            tokio::time::sleep(time).await;
            take()
        }
        Some(Day::AnswersLate(time)) => {
            let answer = take();
            tokio::time::sleep(time).await;
            answer
        }
        Some(Day::TakesBut(instead)) => {
            take();
            instead
        }
        Some(Day::TakesAndDrops) => {
            take();
            return drop_connection();
        }
    };
    if [401, 403, 429].contains(&taken.status) {
        desk.books().refusals.push((operation.to_owned(), taken.status));
    }
    let is_empty = taken.status == 204;
    let mut response = taken.into_response();
    // Without `via`, libraries take a refusal for one of the proxy before the API.
    response.headers_mut().insert("via", "1.1 google".parse().expect("a header"));
    if is_empty {
        return (response.status(), response.headers().clone()).into_response();
    }
    response.headers_mut().insert("content-type", "application/json".parse().expect("a header"));
    response
}

fn answer(desk: &Desk, operation: &str, path: &[&str], query: &str, body: &str) -> Answer {
    let mut books = desk.books();
    let (refused, headers) = books.limit(operation, path.get(1).copied().unwrap_or_default());
    if let Some(refused) = refused {
        return refused;
    }
    let json: Value = serde_json::from_str(body).unwrap_or_default();
    let channel = path.get(1).and_then(|id| id.parse::<u64>().ok()).unwrap_or_default();
    if path[0] == "channels" {
        if channel == HIDDEN || channel == direct(BLOCKED) {
            let code = if channel == HIDDEN { 50001 } else { 50007 };
            return refusal(
                403,
                code,
                if channel == HIDDEN { "Missing Access" } else { "Cannot send messages to this user" },
            );
        }
        if !books.channels.contains_key(&channel) {
            return refusal(404, 10003, "Unknown Channel");
        }
    }
    let mut answered = match operation {
        "me" => Answer::json(200, bot()),
        "application" => {
            let flags = if books.refuses_intents { 0 } else { 1 << 19 };
            Answer::json(
                200,
                json!({
                    "id": BOT.to_string(), "name": USERNAME, "icon": null, "description": "", "bot_public": false,
                    "bot_require_code_grant": false, "verify_key": "x", "flags": flags, "summary": "", "team": null, "owner": person(42),
                }),
            )
        }
        "gateway" => Answer::json(
            200,
            json!({
                "url": format!("ws://{}/gateway", desk.origin), "shards": 1,
                "session_start_limit": {"total": 1000, "remaining": 999, "reset_after": 14_400_000, "max_concurrency": 1},
            }),
        ),
        "openDirect" => {
            let user = json["recipient_id"].as_str().and_then(|id| id.parse().ok()).unwrap_or_default();
            books.open_direct(direct(user));
            Answer::json(200, books.channels.get(&direct(user)).cloned().unwrap_or_default())
        }
        "getChannel" => Answer::json(200, books.channels.get(&channel).cloned().unwrap_or_default()),
        "getMessages" => history(&books, channel, query),
        "createMessage" => create(&mut books, channel, body, json),
        "editMessage" => edit(&mut books, path[3], &json),
        "typing" => {
            books.typing.push((channel, Instant::now()));
            Answer::json(204, Value::Null)
        }
        "react" => react(&mut books, path),
        "callback" => acknowledge(&mut books, path[2], query, &json),
        "followUp" => follow_up(&mut books, path[2], &json),
        _ => refusal(404, 0, "404: Not Found"),
    };
    answered.headers.extend(headers);
    answered
}

/// A page of a channel's history, the newest message first.
fn history(books: &Books, channel: u64, query: &str) -> Answer {
    let given = |name: &str| {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(key, _)| *key == name).find_map(|(_, value)| value.parse::<u64>().ok())
    };
    let limit = given("limit").unwrap_or(50);
    if !(1..=100).contains(&limit) {
        return refusal(400, 50035, "Invalid Form Body: limit");
    }
    let after = given("after").unwrap_or_default();
    let channel = channel.to_string();
    let is_here = |message: &&Value| message["channel_id"] == channel.as_str();
    let behind = books.messages.range(after + 1..).map(|(_, message)| message).filter(is_here);
    let mut page: Vec<Value> = behind.take(usize::try_from(limit).unwrap_or(100)).cloned().collect();
    page.reverse();
    Answer::json(200, page.into())
}

fn create(books: &mut Books, channel: u64, body: &str, json: Value) -> Answer {
    let (json, file) = form(body).unwrap_or((json, None));
    if let Some(refused) = wrong(&json, file.is_some()) {
        return refused;
    }
    let nonce = json["nonce"].as_str().map(str::to_owned);
    let known =
        nonce.as_ref().filter(|_| json["enforce_nonce"] == true).and_then(|nonce| books.nonces.get(nonce));
    if let Some((id, _)) = known.filter(|(_, at)| at.elapsed() < NONCES)
        && let Some(said) = books.said.iter().find(|said| said.id == *id)
    {
        return Answer::json(200, said.message(&bot()));
    }
    // The API takes ids as text and as numbers.
    let answered = &json["message_reference"]["message_id"];
    let answered = answered.as_u64().or_else(|| answered.as_str()?.parse().ok());
    let answers = answered.filter(|id| books.messages.contains_key(id));
    if answered.is_some() && answers.is_none() && json["message_reference"]["fail_if_not_exists"] != false {
        return refusal(400, 50035, "Invalid Form Body: message_reference: Unknown message");
    }
    let content = json["content"].as_str().unwrap_or_default();
    if notifies(&json) {
        books.notified.push(content.to_owned());
    }
    let id = books.next_id();
    let components = json["components"].as_array().cloned().unwrap_or_default().into();
    let mut said = Said {
        id,
        channel,
        content: String::new(),
        text: String::new(),
        marks: Vec::new(),
        components,
        file,
        answers,
        edits: 0,
        nonce: nonce.clone(),
    };
    said.set_content(content);
    if let Some(nonce) = nonce {
        books.nonces.insert(nonce, (id, Instant::now()));
    }
    let told = said.message(&bot());
    books.said.push(said);
    books.add(id, channel, told.clone());
    Answer::json(200, told)
}

fn edit(books: &mut Books, id: &str, json: &Value) -> Answer {
    let Some(at) = books.said.iter().position(|said| said.id.to_string() == id) else {
        let is_others = id.parse::<u64>().is_ok_and(|id| books.messages.contains_key(&id));
        return if is_others {
            refusal(403, 50005, "Cannot edit a message authored by another user")
        } else {
            refusal(404, 10008, "Unknown Message")
        };
    };
    if let Some(refused) = wrong(json, books.said[at].file.is_some()) {
        return refused;
    }
    if notifies(json) {
        books.notified.push(json["content"].as_str().unwrap_or_default().to_owned());
    }
    let said = &mut books.said[at];
    if let Some(content) = json["content"].as_str() {
        said.set_content(content);
    }
    if json["components"].is_array() {
        said.components = json["components"].clone();
    }
    said.edits += 1;
    let (id, told) = (said.id, said.message(&bot()));
    books.messages.insert(id, told.clone());
    books.tell_of_message("MESSAGE_UPDATE", told.clone());
    Answer::json(200, told)
}

fn react(books: &mut Books, path: &[&str]) -> Answer {
    const SIGNS: [(&str, &str); 3] = [("%F0%9F%91%80", "👀"), ("%F0%9F%93%9D", "📝"), ("%F0%9F%91%8D", "👍")];
    let Some((_, sign)) = SIGNS.into_iter().find(|(code, _)| *code == path[5]) else {
        return refusal(400, 10014, "Unknown Emoji");
    };
    let Some(id) = path[3].parse::<u64>().ok().filter(|id| books.messages.contains_key(id)) else {
        return refusal(404, 10008, "Unknown Message");
    };
    if !books.reactions.iter().any(|known| *known == (id, sign.to_owned())) {
        books.reactions.push((id, sign.to_owned()));
    }
    Answer::json(204, Value::Null)
}

fn acknowledge(books: &mut Books, token: &str, query: &str, json: &Value) -> Answer {
    let Some(tap) = books
        .taps
        .iter_mut()
        .find(|tap| tap.token == token && (tap.is_acknowledged || tap.at.elapsed() < TAP_PATIENCE))
    else {
        return refusal(404, 10062, "Unknown interaction");
    };
    if tap.is_acknowledged {
        return refusal(400, 40060, "Interaction has already been acknowledged.");
    }
    if !matches!(json["type"].as_u64(), Some(4..=7)) {
        return refusal(400, 50035, "Invalid Form Body: type");
    }
    tap.is_acknowledged = true;
    let id = tap.id;
    if let Some(content) = json["data"]["content"].as_str().filter(|_| json["type"] == 4) {
        books.toasts.push((id, shown(content).text));
    }
    if query.contains("with_response=true") || query.contains("with_response=1") {
        return Answer::json(200, json!({ "interaction": { "id": id.to_string(), "type": 3 } }));
    }
    Answer::json(204, Value::Null)
}

fn follow_up(books: &mut Books, token: &str, json: &Value) -> Answer {
    let Some(tap) = books.taps.iter().find(|tap| tap.token == token && tap.is_acknowledged) else {
        return refusal(404, 10015, "Unknown Webhook");
    };
    let quiet = json!({ "content": json["content"], "allowed_mentions": json["allowed_mentions"] });
    if let Some(refused) = wrong(&quiet, false) {
        return refused;
    }
    assert_eq!(
        json["flags"].as_u64().map(|flags| flags & 64),
        Some(64),
        "only the person who tapped may see it"
    );
    let id = tap.id;
    let content = json["content"].as_str().unwrap_or_default();
    books.toasts.push((id, shown(content).text));
    let follow_up = books.next_id();
    Answer::json(200, message(follow_up, 0, &bot(), content))
}
