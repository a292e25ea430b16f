//! Calls the tool through the built program, as an agent does.

use serde_json::{Value, json};

use crate::shell::Shell;

impl Shell {
    /// One call by an agent with the role approver. Checks that the exit code agrees with the reply.
    pub async fn tool(&self, call: Value) -> Value {
        let said = self.run(&["tool", "--role", "approver", &call.to_string()]).await;
        let reply = said.json();
        let success = reply["success"].as_bool().unwrap_or_else(|| panic!("no success in {reply:#}"));
        assert_eq!(said.code, i32::from(!success), "{reply:#}");
        reply
    }

    /// A call that succeeds.
    pub async fn told(&self, call: Value) -> Value {
        let reply = self.tool(call.clone()).await;
        assert_eq!(reply["success"], true, "{call}: {reply:#}");
        reply
    }

    /// A refused call. Checks that the reply has a code, a message and a hint, and nothing else.
    pub async fn refused(&self, call: Value) -> (String, String) {
        let reply = self.tool(call.clone()).await;
        let keys: Vec<&String> = reply.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["code", "error", "hint", "success"], "{call}");
        let text = |key: &str| reply[key].as_str().unwrap_or_default().to_owned();
        (text("code"), text("error"))
    }

    /// Adds the digest of the request to an answer.
    pub async fn seen(&self, mut call: Value) -> Value {
        let status = self.told(json!({"action": "status", "task_id": call["task_id"]})).await;
        let open = status["task"]["pending_requests"].as_array().unwrap();
        let asked = open.iter().find(|asked| asked["request_id"] == call["request_id"]);
        call["digest"] = asked.unwrap_or_else(|| panic!("not open: {call}"))["digest"].clone();
        call
    }

    /// Starts a task with the tool.
    pub async fn begin(&self, prompt: &str) -> String {
        let reply = self.told(json!({"action": "start", "prompt": prompt})).await;
        reply["task_id"].as_str().unwrap().to_owned()
    }

    /// Starts a task and waits for its request. Returns both ids.
    pub async fn begin_asking(&self, prompt: &str) -> (String, String) {
        let id = self.begin(prompt).await;
        let reply = self.told(json!({"action": "wait", "task_id": id})).await;
        assert_eq!(reply["timed_out"], false, "{reply:#}");
        let request = &reply["task"]["pending_requests"][0]["request_id"];
        (id, request.as_str().unwrap_or_else(|| panic!("{reply:#}")).to_owned())
    }

    /// Waits until a task is finished.
    pub async fn ended(&self, id: &str) -> Value {
        let reply = self.told(json!({"action": "wait", "task_id": id})).await;
        assert!(reply["task"]["completed_at"].is_f64(), "{reply:#}");
        reply["task"].clone()
    }
}
