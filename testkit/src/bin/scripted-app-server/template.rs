//! Filling in the templates of a script with what is known when a step is played.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use crate::state::Thread;

/// What the names in a script stand for.
pub struct Names<'a> {
    /// `$thread`
    pub thread: &'a str,
    /// `$turn`
    pub turn: &'a str,
    /// `$item`
    pub item: &'a str,
    /// `$n` and `$index`
    pub n: u64,
    /// `$version`
    pub version: &'a str,
    /// `$dir`
    pub dir: &'a Path,
    /// The parameters of the client's message.
    pub params: &'a Value,
    /// What is known of the thread.
    pub known: &'a Thread,
}

impl Names<'_> {
    /// The value with every template in it filled in.
    pub fn fill(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.whole(text).unwrap_or_else(|| Value::String(self.fill_text(text))),
            Value::Array(values) => values.iter().map(|value| self.fill(value)).collect(),
            Value::Object(fields) => self.fill_object(fields),
            other => other.clone(),
        }
    }

    fn fill_object(&self, fields: &Map<String, Value>) -> Value {
        let mut filled = match fields.get("$extends").map(|base| self.fill(base)) {
            Some(Value::Object(base)) => base,
            _ => Map::new(),
        };
        for (key, value) in fields.iter().filter(|(key, _)| *key != "$extends") {
            filled.insert(self.fill_text(key), self.fill(value));
        }
        Value::Object(filled)
    }

    /// The text with every name in it replaced; unknown names stay as they are.
    pub fn fill_text(&self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            filled.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            let end = after.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(after.len());
            match self.named(&after[..end]) {
                Some(text) => filled.push_str(&text),
                None => filled.push_str(&rest[at..=at + end]),
            }
            rest = &after[end..];
        }
        filled.push_str(rest);
        filled
    }

    fn named(&self, name: &str) -> Option<Cow<'_, str>> {
        Some(match name {
            "thread" => self.thread.into(),
            "turn" => self.turn.into(),
            "item" => self.item.into(),
            "n" => self.n.to_string().into(),
            "version" => self.version.into(),
            "dir" => self.dir.to_string_lossy(),
            "cwd" => self.cwd().into(),
            "prompt" => prompt(&self.known.input).into(),
            "now_us" => now_us().to_string().into(),
            _ => return None,
        })
    }

    fn whole(&self, text: &str) -> Option<Value> {
        Some(match text {
            "$index" => json!(self.n),
            "$now_ms" => json!(now_ms()),
            "$now_s" => json!(now_ms() / 1000),
            "$input" => self.known.input.clone(),
            "$client_id" => self.known.client_id.clone(),
            "$summary" => self.known.history.summary(self.turn),
            "$turns_page" => self.known.history.turns_page(&self.params["itemsView"]),
            "$items_page" => self.known.history.items_page(),
            "$read_result" => self.read_result(),
            "$fork_result" => self.with_turns(self.thread_result()),
            "$thread_object" => self.thread_object(),
            "$thread_result" => self.thread_result(),
            "$resume_result" => self.resume_result(),
            _ => return None,
        })
    }

    fn cwd(&self) -> String {
        self.known.settings.get("cwd").and_then(Value::as_str).unwrap_or("/").to_owned()
    }

    fn setting(&self, name: &str, default: Value) -> Value {
        self.known.settings.get(name).filter(|value| !value.is_null()).cloned().unwrap_or(default)
    }

    fn thread_object(&self) -> Value {
        let cwd = self.cwd();
        let ephemeral = self.setting("ephemeral", json!(false));
        let path = rollout(self.dir, self.thread);
        let now = json!(now_ms() / 1000);
        let mut thread = json!({
            "id": self.thread, "sessionId": self.thread,
            "environments": [{ "environmentId": "local", "cwd": cwd, "runtimeWorkspaceRoots": [cwd] }],
            "preview": "", "ephemeral": ephemeral, "historyMode": "paginated",
            "modelProvider": self.setting("modelProvider", json!("scripted")),
            "model": self.setting("model", json!("gpt-5.5")),
            "createdAt": now, "updatedAt": now, "recencyAt": now,
            "status": if self.known.active { json!({ "type": "active", "activeFlags": [] }) } else { json!({ "type": "idle" }) },
            "path": if ephemeral == json!(true) { Value::Null } else { json!(path) },
            "cwd": cwd, "cliVersion": self.version, "originator": "testkit", "source": "vscode",
            "canAcceptDirectInput": true, "forkedFromId": self.setting("forkedFromId", Value::Null), "turns": [],
        });
        for absent in [
            "extra",
            "parentThreadId",
            "section",
            "sectionEnteredAt",
            "projectId",
            "reasoningEffort",
            "threadSource",
            "agentNickname",
            "agentRole",
            "gitInfo",
            "name",
            "daybreakEnabled",
        ] {
            thread[absent] = Value::Null;
        }
        thread
    }

    fn thread_result(&self) -> Value {
        let cwd = self.cwd();
        json!({
            "thread": self.thread_object(),
            "model": self.setting("model", json!("gpt-5.5")),
            "modelProvider": self.setting("modelProvider", json!("scripted")),
            "serviceTier": null, "disabledPluginIds": [],
            "cwd": cwd, "runtimeWorkspaceRoots": [cwd], "instructionSources": [],
            "approvalPolicy": self.setting("approvalPolicy", json!("on-request")),
            "approvalsReviewer": self.setting("approvalsReviewer", json!("user")),
            "sandbox": sandbox(&self.known.settings),
            "activePermissionProfile": profile(&self.known.settings),
            "reasoningEffort": null, "multiAgentMode": "explicitRequestOnly",
        })
    }

    fn resume_result(&self) -> Value {
        let mut result = self.thread_result();
        for absent in
            ["collaborationMode", "initialTurnsPage", "turnsBackwardsCursor", "itemsBackwardsCursor"]
        {
            result[absent] = Value::Null;
        }
        if self.params["excludeTurns"] == true { result } else { self.with_turns(result) }
    }

    fn read_result(&self) -> Value {
        let result = json!({ "thread": self.thread_object(), "readState": null });
        if self.params["includeTurns"] == true { self.with_turns(result) } else { result }
    }

    fn with_turns(&self, mut result: Value) -> Value {
        result["thread"]["turns"] = self.known.history.full();
        result
    }
}

/// Where the calls of a thread are written down.
pub fn rollout(dir: &Path, thread: &str) -> PathBuf {
    dir.join(format!("rollout-{thread}.jsonl"))
}

/// The sandbox as results name it: the one that was asked for, or what the permission profile comes to.
fn sandbox(settings: &BTreeMap<String, Value>) -> Value {
    let named = profile_of(settings);
    let network = named["network"]["enabled"] == true;
    match (settings.get("sandbox").and_then(Value::as_str), named["extends"].as_str()) {
        (Some("danger-full-access"), _) => json!({ "type": "dangerFullAccess" }),
        (Some("workspace-write"), _) | (None, Some(":workspace")) => json!({
            "type": "workspaceWrite", "writableRoots": [], "networkAccess": network,
            "excludeTmpdirEnvVar": false, "excludeSlashTmp": false,
        }),
        _ => json!({ "type": "readOnly", "networkAccess": network }),
    }
}

/// The permission profile that the settings name.
fn profile_of(settings: &BTreeMap<String, Value>) -> Value {
    let id = settings.get("permissions").and_then(Value::as_str).unwrap_or_default();
    settings.get("config").map(|config| config["permissions"][id].clone()).unwrap_or_default()
}

/// codex 0.166: a profile is named only where the sandbox was left to it.
fn profile(settings: &BTreeMap<String, Value>) -> Value {
    if settings.contains_key("sandbox") {
        return Value::Null;
    }
    let named = settings.get("permissions").cloned().unwrap_or_else(|| json!(":read-only"));
    json!({ "id": named, "extends": profile_of(settings)["extends"] })
}

fn prompt(input: &Value) -> String {
    let parts = input.as_array().map(Vec::as_slice).unwrap_or_default();
    parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    now_us() / 1000
}

fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
