//! The methods of Slack's Web API.

use axum::extract::Query;
use axum::http::{HeaderMap, Uri};
use serde_json::{Map, Value, json};

use super::{Answer, BOT_ID, BOT_USER, Books, Desk, Said, TEAM, blocks, error};

/// The longest text of a message, and of one that is changed.
const MOST_CHARS: usize = 4_000;
/// The reactions that there are, as far as they matter here.
const REACTIONS: [&str; 4] = ["eyes", "pencil2", "hourglass", "+1"];

/// A call.
pub struct Call {
    /// The method, or the path of an upload.
    pub method: String,
    token: String,
    given: Value,
    body: String,
}

impl Call {
    /// Reads a request.
    pub fn read(uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Self {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let body = String::from_utf8_lossy(body).into_owned();
        let pairs = |text: &str| {
            let uri: Uri = format!("/?{text}").parse().unwrap_or_default();
            let pairs = Query::<Vec<(String, String)>>::try_from_uri(&uri).map(|Query(pairs)| pairs);
            pairs.unwrap_or_default()
        };
        let mut given: Map<String, Value> = Map::new();
        let mut take =
            |text: &str| given.extend(pairs(text).into_iter().map(|(key, value)| (key, json!(value))));
        take(uri.query().unwrap_or_default());
        let is_json = header("content-type").starts_with("application/json");
        if header("content-type").starts_with("application/x-www-form-urlencoded") {
            take(&body);
        }
        if let (true, Ok(Value::Object(more))) = (is_json, serde_json::from_str(&body)) {
            given.extend(more);
        }
        let token = header("authorization").strip_prefix("Bearer ").unwrap_or_default().to_owned();
        let path = uri.path();
        let method = path.strip_prefix("/api/").unwrap_or(path).to_owned();
        Self { method, token, given: given.into(), body }
    }

    fn word(&self, key: &str) -> &str {
        self.given[key].as_str().unwrap_or_default()
    }

    fn is(&self, key: &str) -> bool {
        self.given[key] == true || matches!(self.word(key), "1" | "true" | "True")
    }

    /// Arguments with a structure come as JSON in a text where they do not come as JSON.
    fn structure(&self, key: &str) -> Value {
        match &self.given[key] {
            Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
            other => other.clone(),
        }
    }

    fn number(&self, key: &str) -> Option<usize> {
        let number = &self.given[key];
        let number = number.as_u64().or_else(|| number.as_str()?.parse().ok());
        number.and_then(|number| usize::try_from(number).ok())
    }
}

fn ok(mut body: Value) -> Answer {
    body["ok"] = true.into();
    Answer::json(200, body)
}

impl Desk {
    /// Carries out a call.
    pub fn answer(&self, call: &Call) -> Answer {
        let mut books = self.books();
        if let Some(id) = call.method.strip_prefix("/upload/") {
            return books.take_upload(id, &call.body);
        }
        let token = if call.method == "apps.connections.open" { &self.app_token } else { &self.token };
        if call.token != *token {
            let is_other = call.token == self.token || call.token == self.app_token;
            return error(if is_other { "not_allowed_token_type" } else { "invalid_auth" });
        }
        match call.method.as_str() {
            "auth.test" => ok(json!({
                "url": "https://team.slack.invalid/", "team": "Team", "user": "codex", "team_id": TEAM,
                "user_id": BOT_USER, "bot_id": BOT_ID,
            })),
            "apps.connections.open" => {
                books.last_ticket += 1;
                let ticket = books.last_ticket;
                books.tickets.push(ticket);
                let host = self.base.replace("http://", "ws://");
                ok(json!({ "url": format!("{host}/link/?ticket={ticket}&app_id=x") }))
            }
            "users.info" => {
                let (user, name) = (call.word("user"), format!("Name of {}", call.word("user")));
                ok(json!({ "user": {
                    "id": user, "name": user.to_lowercase(), "real_name": name, "profile": {"display_name": ""},
                } }))
            }
            "users.conversations" => {
                let mut channels: Vec<&str> = books.said.iter().map(|said| said.channel.as_str()).collect();
                channels.sort_unstable();
                channels.dedup();
                let channels: Vec<Value> = channels.into_iter().map(|id| json!({ "id": id })).collect();
                ok(json!({ "channels": channels, "response_metadata": { "next_cursor": "" } }))
            }
            "conversations.history" => books.history(call),
            "conversations.replies" => books.replies(call),
            "chat.postMessage" => books.say(call),
            "chat.postEphemeral" => books.tell(call),
            "chat.update" => books.change(call),
            "reactions.add" => books.react(call),
            "files.getUploadURLExternal" => books.offer_upload(call, &self.base),
            "files.completeUploadExternal" => books.complete_upload(call),
            _ => error("unknown_method"),
        }
    }
}

impl Books {
    /// A page of messages that a call asks for. A cursor is base64, whose marks mean something in a query.
    fn page(&self, call: &Call, mut found: Vec<&Said>) -> Answer {
        let (oldest, most) = (call.word("oldest"), call.number("limit").unwrap_or(100).min(20));
        found.retain(|said| {
            said.only_for.is_none() && (said.ts.as_str() > oldest || Some(&said.ts) == said.thread.as_ref())
        });
        let from: usize = call
            .word("cursor")
            .strip_prefix("at+")
            .and_then(|at| at.strip_suffix("==")?.parse().ok())
            .unwrap_or_default();
        let more = found.len() > from + most;
        let next = if more { format!("at+{}==", from + most) } else { String::new() };
        let messages: Vec<Value> = found
            .into_iter()
            .skip(from)
            .take(most)
            .map(|said| self.told_of(said, call.is("include_all_metadata")))
            .collect();
        ok(json!({ "messages": messages, "has_more": more, "response_metadata": { "next_cursor": next } }))
    }

    /// A message of the history, which does not name its channel.
    fn told_of(&self, said: &Said, with_metadata: bool) -> Value {
        let mut message = self.event_of(said);
        for key in ["channel", "channel_type", "event_ts"] {
            message.as_object_mut().expect("an object").remove(key);
        }
        let replies = self
            .said
            .iter()
            .filter(|one| one.channel == said.channel && one.thread.as_ref() == Some(&said.ts));
        let count = replies.count();
        if count > 0 {
            message["thread_ts"] = said.ts.as_str().into();
            message["reply_count"] = count.into();
        }
        if with_metadata && !said.metadata.is_null() {
            message["metadata"] = said.metadata.clone();
        }
        message
    }

    fn history(&self, call: &Call) -> Answer {
        let is_of_it = |said: &&Said| said.channel == call.word("channel") && said.thread.is_none();
        let mut found: Vec<&Said> = self.said.iter().filter(is_of_it).collect();
        // The newest first.
        found.reverse();
        self.page(call, found)
    }

    fn replies(&self, call: &Call) -> Answer {
        let root = call.word("ts");
        let is_of_it = |said: &&Said| {
            said.channel == call.word("channel") && (said.ts == root || said.thread.as_deref() == Some(root))
        };
        let found: Vec<&Said> = self.said.iter().filter(is_of_it).collect();
        if found.is_empty() { error("thread_not_found") } else { self.page(call, found) }
    }

    /// What is wrong with the content of a message.
    fn wrong(call: &Call) -> Option<&'static str> {
        let (text, blocks) = (call.word("text"), call.structure("blocks"));
        if text.is_empty() && blocks.is_null() {
            return Some("no_text");
        }
        if text.chars().count() > MOST_CHARS {
            return Some("msg_too_long");
        }
        let metadata = call.structure("metadata");
        let is_right = metadata["event_type"].is_string() && metadata["event_payload"].is_object();
        if !(metadata.is_null() || is_right) {
            return Some("invalid_metadata_format");
        }
        for mark in ["<!", "<@", "<#"] {
            assert!(!text.contains(mark), "a text that notifies somebody: {text}");
        }
        blocks::wrong(&blocks)
    }

    fn said_by_bot(&mut self, call: &Call) -> Said {
        let (fallback, blocks) = (call.word("text").to_owned(), call.structure("blocks"));
        let text = if blocks.is_null() { fallback.clone() } else { blocks::shown(&blocks) };
        Said {
            channel: call.word("channel").to_owned(),
            ts: self.next_ts(),
            thread: Some(call.word("thread_ts").to_owned()).filter(|thread| !thread.is_empty()),
            user: BOT_USER.to_owned(),
            text,
            fallback,
            blocks,
            metadata: call.structure("metadata"),
            ..Said::default()
        }
    }

    fn say(&mut self, call: &Call) -> Answer {
        if let Some(code) = Self::wrong(call) {
            return error(code);
        }
        let channel = call.word("channel");
        let is_known = channel.starts_with(['C', 'D', 'G', 'U']) && channel != super::ARCHIVED;
        if !is_known {
            return error(if channel == super::ARCHIVED { "is_archived" } else { "channel_not_found" });
        }
        let mut said = self.said_by_bot(call);
        if channel.starts_with('U') {
            said.channel = super::dm(channel);
        }
        let answer = json!({ "channel": said.channel, "ts": said.ts, "message": self.event_of(&said) });
        let event = self.event_of(&said);
        self.said.push(said);
        // An app is told of its own messages too.
        self.event(&event);
        ok(answer)
    }

    fn tell(&mut self, call: &Call) -> Answer {
        if let Some(code) = Self::wrong(call) {
            return error(code);
        }
        let mut said = self.said_by_bot(call);
        said.only_for = Some(call.word("user").to_owned());
        let ts = said.ts.clone();
        self.said.push(said);
        ok(json!({ "message_ts": ts }))
    }

    fn change(&mut self, call: &Call) -> Answer {
        if let Some(code) = Self::wrong(call) {
            return error(code);
        }
        let is_it = |said: &&mut Said| said.channel == call.word("channel") && said.ts == call.word("ts");
        let Some(said) = self.said.iter_mut().find(is_it) else { return error("message_not_found") };
        if said.user != BOT_USER {
            return error("cant_update_message");
        }
        (said.fallback, said.blocks) = (call.word("text").to_owned(), call.structure("blocks"));
        said.text = if said.blocks.is_null() { said.fallback.clone() } else { blocks::shown(&said.blocks) };
        said.edits += 1;
        ok(json!({ "channel": call.word("channel"), "ts": call.word("ts"), "text": call.word("text") }))
    }

    fn react(&mut self, call: &Call) -> Answer {
        let name = call.word("name");
        if !REACTIONS.contains(&name) {
            return error("invalid_name");
        }
        let is_it =
            |said: &&mut Said| said.channel == call.word("channel") && said.ts == call.word("timestamp");
        let Some(said) = self.said.iter_mut().find(is_it) else { return error("message_not_found") };
        if said.reactions.iter().any(|one| one == name) {
            return error("already_reacted");
        }
        said.reactions.push(name.to_owned());
        ok(json!({}))
    }

    fn offer_upload(&mut self, call: &Call, base: &str) -> Answer {
        let Some(length) = call.number("length").filter(|length| *length > 0) else {
            return error("invalid_arguments");
        };
        let id = format!("F{}", self.uploads.len() + 1);
        self.uploads.insert(id.clone(), (call.word("filename").to_owned(), length, None));
        ok(json!({ "upload_url": format!("{base}/upload/{id}"), "file_id": id }))
    }

    fn take_upload(&mut self, id: &str, content: &str) -> Answer {
        match self.uploads.get_mut(id) {
            Some(upload) if upload.1 == content.len() => {
                upload.2 = Some(content.to_owned());
                Answer::json(200, "OK".into())
            }
            _ => Answer::status(400),
        }
    }

    fn complete_upload(&mut self, call: &Call) -> Answer {
        let (files, comment) = (call.structure("files"), call.word("initial_comment").to_owned());
        let id = files[0]["id"].as_str().unwrap_or_default().to_owned();
        let Some((name, _, Some(content))) = self.uploads.remove(&id) else { return error("file_not_found") };
        let said = Said {
            channel: call.word("channel_id").to_owned(),
            ts: self.next_ts(),
            thread: Some(call.word("thread_ts").to_owned()).filter(|thread| !thread.is_empty()),
            user: BOT_USER.to_owned(),
            text: comment.clone(),
            fallback: comment,
            file: Some((name, content)),
            ..Said::default()
        };
        self.said.push(said);
        ok(json!({ "files": [{ "id": id, "title": files[0]["title"] }] }))
    }
}
