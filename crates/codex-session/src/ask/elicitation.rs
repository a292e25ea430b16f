//! Requests of MCP servers: input from a person, and approvals of their tools.

use codex_wire::request::ElicitationRequest;
use redact::approval::TextKind;
use serde_json::Value;

use super::draft::Draft;
use super::{Ask, Kind, Label, Offer, ShownField, bounds, field};

impl Draft<'_> {
    pub(super) fn elicitation(mut self, it: &ElicitationRequest) -> Ask {
        let server = self.cleaner.place(&it.server_name);
        if it.is_tool_approval() {
            return self.mcp_tool(it, &server);
        }
        self.block(Label::Message, Some(&it.message));
        if it.mode == "url" {
            self.place(Label::Page, it.url.as_deref());
            self.own(Label::Note, "the page is not opened for you; check its address before you visit it");
            let offers = vec![Offer::Accept, Offer::Decline, Offer::Dismiss];
            return self.finish(Kind::Page, format!("MCP server {server} asks you to visit a page"), offers);
        }
        let fields = it.requested_schema.as_ref().map(|schema| field::fields(schema, &mut self.cleaner));
        let fields = fields.unwrap_or_default();
        let lines: Vec<String> = fields.iter().map(ShownField::line).collect();
        if !lines.is_empty() {
            self.own(Label::Fields, lines.join("\n"));
        }
        let offers = vec![Offer::Answer, Offer::Decline, Offer::Dismiss];
        let title = format!("MCP server {server} asks for input");
        Ask { fields, ..self.finish(Kind::Form, title, offers) }
    }

    fn mcp_tool(mut self, it: &ElicitationRequest, server: &str) -> Ask {
        let note = |key: &str| it.meta.as_ref().and_then(|meta| meta.get(key));
        // The message contains the name of the tool.
        self.acted_on(Label::Message, Some(&it.message), TextKind::Excerpt);
        self.block(Label::Description, note("tool_description").and_then(Value::as_str));
        self.acted_on(Label::Arguments, note("tool_params").map(arguments).as_deref(), TextKind::Excerpt);
        let is_lasting = match note("persist") {
            Some(Value::Array(scopes)) => scopes.iter().any(|scope| scope == "session"),
            Some(scope) => scope == "session",
            None => false,
        };
        let mut offers = vec![Offer::Accept];
        if is_lasting {
            self.own(Label::Session, bounds::SESSION_TOOL);
            offers.push(Offer::AcceptForSession);
        }
        offers.extend([Offer::Decline, Offer::Dismiss]);
        self.finish(Kind::McpTool, format!("Let MCP server {server} run a tool?"), offers)
    }
}

/// One argument per line. A name with unusual characters is written as JSON: a line break in it would look like another
/// argument.
fn arguments(params: &Value) -> String {
    let Value::Object(params) = params else { return params.to_string() };
    let shown = |name: &String| {
        let is_plain = |char: char| char.is_alphanumeric() || "_-.".contains(char);
        if name.chars().all(is_plain) { name.clone() } else { Value::from(name.as_str()).to_string() }
    };
    params.iter().map(|(name, value)| format!("{}: {value}", shown(name))).collect::<Vec<_>>().join("\n")
}
