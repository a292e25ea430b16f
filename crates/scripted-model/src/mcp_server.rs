//! A tiny MCP server on stdio, for turns in which the model calls a tool of one.
//!
//! Three tools: `peek` only reads, `poke` writes, `ask` questions the user by `elicitation/create`, with a form of its
//! own or with that of its argument `schema`. Knows MCP's lines and nothing else of this crate. Which process runs it does not matter: any program can call [`run`].

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// How long a server that ignores the end of its input stays: long enough for any test that looks for it,
/// short enough that one left behind by a killed test does not stay for good.
const STAY: Duration = Duration::from_mins(10);

/// What the server does when its input ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnEof {
    /// Leaves, as a good server does.
    Leave,
    /// Stays for ten minutes: a server that must be killed.
    Stay,
}

/// Serves on this process's stdin and stdout until the input ends.
pub fn run(on_eof: OnEof) -> io::Result<()> {
    let mut server = McpServer::default();
    let mut output = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str(&line?) else { continue };
        if let Some(reply) = server.reply(&message) {
            writeln!(output, "{reply}")?;
            output.flush()?;
        }
    }
    if on_eof == OnEof::Stay {
        thread::sleep(STAY);
    }
    Ok(())
}

/// The server without its pipes: a message in, at most one out.
#[derive(Default)]
struct McpServer {
    /// Calls of `ask` that wait for the user, by the id of our question.
    asking: HashMap<String, Value>,
}

impl McpServer {
    fn reply(&mut self, message: &Value) -> Option<Value> {
        let id = message.get("id")?;
        let Some(method) = message["method"].as_str() else { return self.user_answered(message) };
        let params = &message["params"];
        match method {
            "initialize" => Some(result(id, &initialized(params))),
            "tools/list" => Some(result(id, &json!({"tools": tools()}))),
            "tools/call" => Some(self.call(id, params)),
            "ping" => Some(result(id, &json!({}))),
            unknown => Some(json!({
                "jsonrpc": "2.0", "id": id,
                "error": {"code": -32601, "message": format!("no method {unknown}")},
            })),
        }
    }

    fn call(&mut self, id: &Value, params: &Value) -> Value {
        let words = params["arguments"]["text"].as_str().unwrap_or("nothing");
        match params["name"].as_str() {
            Some("peek") => result(id, &said(&format!("peeked at {words}"))),
            Some("poke") => result(id, &said(&format!("poked {words}"))),
            Some("ask") => self.ask(id, words, params["arguments"].get("schema")),
            _ => json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": "no such tool"}}),
        }
    }

    fn ask(&mut self, call: &Value, words: &str, schema: Option<&Value>) -> Value {
        let plain = json!({
            "type": "object",
            "properties": {"answer": {"type": "string", "title": "Answer"}},
            "required": ["answer"],
        });
        let question = format!("question-{call}");
        self.asking.insert(question.clone(), call.clone());
        json!({"jsonrpc": "2.0", "id": question, "method": "elicitation/create", "params": {
            "message": words,
            "requestedSchema": schema.unwrap_or(&plain),
        }})
    }

    fn user_answered(&mut self, message: &Value) -> Option<Value> {
        let call = self.asking.remove(message["id"].as_str()?)?;
        let outcome = message.get("result").or_else(|| message.get("error"))?;
        Some(result(&call, &said(&format!("the user answered {outcome}"))))
    }
}

fn initialized(params: &Value) -> Value {
    json!({
        "protocolVersion": params["protocolVersion"],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "scripted", "version": env!("CARGO_PKG_VERSION")},
    })
}

fn tools() -> Value {
    let tool = |name: &str, does: &str, read_only: bool| {
        json!({
            "name": name,
            "description": does,
            "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}, "schema": {"type": "object"}}},
            "annotations": {"readOnlyHint": read_only},
        })
    };
    json!([
        tool("peek", "Looks at something and changes nothing", true),
        tool("poke", "Changes something", false),
        tool("ask", "Asks the user", true),
    ])
}

fn said(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}], "isError": false})
}

fn result(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::McpServer;

    #[test]
    fn an_asking_tool_answers_when_the_user_has() {
        let mut server = McpServer::default();
        let call = json!({"id": 7, "method": "tools/call", "params": {"name": "ask", "arguments": {"text": "why?"}}});
        let question = server.reply(&call).unwrap();
        assert_eq!(question["method"], "elicitation/create");
        assert_eq!(question["params"]["message"], "why?");
        let answered = server.reply(&json!({"id": question["id"], "result": {"action": "decline"}})).unwrap();
        assert_eq!(answered["id"], 7);
        let again = server.reply(&json!({"id": question["id"], "result": {"action": "decline"}}));
        assert_eq!(again, None);
    }

    #[test]
    fn notifications_get_no_answer_and_unknown_methods_an_error() {
        let mut server = McpServer::default();
        assert_eq!(server.reply(&json!({"method": "notifications/initialized"})), None);
        assert_eq!(server.reply(&json!({"id": 1, "method": "x"})).unwrap()["error"]["code"], -32601);
    }
}
