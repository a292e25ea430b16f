//! What an MCP server asks of a person, and whether one of its tools may run.

use codex_wire::request::ElicitationRequest;
use redact::approval::Matter;
use serde_json::Value;

use super::draft::Draft;
use super::{Ask, Kind, Offer};

impl Draft<'_> {
    pub(super) fn elicitation(mut self, it: &ElicitationRequest) -> Ask {
        let server = self.cleaner.place(&it.server_name);
        if it.is_tool_approval() {
            return self.mcp_tool(it, &server);
        }
        self.block("Message", Some(&it.message));
        if it.mode == "url" {
            self.place("Page", it.url.as_deref());
            self.own("Note", "the page is not opened for you; look at where it leads");
            let offers = vec![Offer::Accept, Offer::Decline, Offer::Dismiss];
            return self.finish(Kind::Page, format!("MCP server {server} asks you to visit a page"), offers);
        }
        if let Some(schema) = &it.requested_schema {
            self.block("Fields", Some(&fields(schema).join("\n")));
        }
        let offers = vec![Offer::Answer, Offer::Decline, Offer::Dismiss];
        self.finish(Kind::Form, format!("MCP server {server} asks for input"), offers)
    }

    fn mcp_tool(mut self, it: &ElicitationRequest, server: &str) -> Ask {
        let note = |key: &str| it.meta.as_ref().and_then(|meta| meta.get(key));
        // The message is what names the tool.
        self.acted_on("Message", Some(&it.message), Matter::Excerpt);
        self.block("Description", note("tool_description").and_then(Value::as_str));
        self.acted_on("Arguments", note("tool_params").map(arguments).as_deref(), Matter::Command);
        let is_lasting = match note("persist") {
            Some(Value::Array(scopes)) => scopes.iter().any(|scope| scope == "session"),
            Some(scope) => scope == "session",
            None => false,
        };
        let mut offers = vec![Offer::Accept];
        if is_lasting {
            offers.push(Offer::AcceptForSession);
        }
        offers.extend([Offer::Decline, Offer::Dismiss]);
        self.finish(Kind::McpTool, format!("Let MCP server {server} run a tool?"), offers)
    }
}

/// The fields of a form: `name (string, required): what it is`.
fn fields(schema: &Value) -> Vec<String> {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required =
        |name: &String| required.is_some_and(|names| names.iter().any(|it| it == name.as_str()));
    let properties = schema.get("properties").and_then(Value::as_object);
    let field = |(name, property): (&String, &Value)| {
        let text = |key: &str| property.get(key).and_then(Value::as_str);
        let required = if is_required(name) { ", required" } else { "" };
        let meaning = text("description").or(text("title")).map(|it| format!(": {it}")).unwrap_or_default();
        format!("{name} ({}{required}){meaning}", text("type").unwrap_or("any"))
    };
    properties.into_iter().flatten().map(field).collect()
}

/// One argument a line.
fn arguments(params: &Value) -> String {
    let Value::Object(params) = params else { return params.to_string() };
    params.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join("\n")
}
