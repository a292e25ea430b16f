//! The operator's standing decisions: what is answered without asking anyone.

use std::time::Duration;

use codex_wire::request::{ElicitationRequest, ServerRequest};

use crate::decision::Decision;

/// Standing decisions. The default asks a person for everything and allows nothing for good.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApprovalPolicy {
    /// Accept every command without asking.
    pub accept_commands: bool,
    /// Accept every file change without asking.
    pub accept_file_changes: bool,
    /// MCP servers whose tool approvals and plain confirmations are accepted.
    pub trusted_mcp_servers: Vec<String>,
    /// Decline what other MCP servers ask, instead of asking a person.
    pub decline_other_mcp_servers: bool,
    /// Whether a person may allow a command for good, in every thread of this Codex.
    pub allow_permanent_rules: bool,
    /// How long a person may take; then it is a no. Without it, requests wait.
    pub answer_limit: Option<Duration>,
}

impl ApprovalPolicy {
    /// What the operator has decided on this request beforehand, with the reason.
    pub fn standing_decision(&self, request: &ServerRequest) -> Option<(Decision, String)> {
        let accepted = |what: &str| Some((Decision::Accept, format!("{what} are accepted without asking")));
        match request {
            // What opens the sandbox or the network is more than a command.
            ServerRequest::Command(command) if self.accept_commands && !command.widens_the_sandbox() => {
                accepted("commands")
            }
            ServerRequest::LegacyCommand(_) if self.accept_commands => accepted("commands"),
            ServerRequest::FileChange(change) if self.accept_file_changes && change.grant_root.is_none() => {
                accepted("file changes")
            }
            ServerRequest::LegacyPatch(patch) if self.accept_file_changes && patch.grant_root.is_none() => {
                accepted("file changes")
            }
            ServerRequest::Elicitation(asked) => self.on_elicitation(asked),
            _ => None,
        }
    }

    fn on_elicitation(&self, asked: &ElicitationRequest) -> Option<(Decision, String)> {
        let server = &asked.server_name;
        if self.trusted_mcp_servers.contains(server) {
            return is_plain_confirmation(asked)
                .then(|| (Decision::Accept, format!("MCP server {server} is trusted")));
        }
        let decline = self.decline_other_mcp_servers;
        decline.then(|| (Decision::Decline, format!("MCP server {server} is not trusted")))
    }
}

/// Whether nothing but a yes is asked: no form to fill, no page to open.
fn is_plain_confirmation(asked: &ElicitationRequest) -> bool {
    let fields = asked.requested_schema.as_ref().and_then(|schema| schema["properties"].as_object());
    let has_fields = fields.is_some_and(|fields| !fields.is_empty());
    let opens_page = asked.mode == "url" || asked.url.as_ref().is_some_and(|url| !url.is_empty());
    !has_fields && !opens_page
}

#[cfg(test)]
mod tests {
    use codex_wire::request::{CommandApproval, FileChangeApproval};
    use serde_json::json;

    use super::*;

    #[test]
    fn what_widens_the_sandbox_is_never_accepted_unasked() {
        let policy =
            ApprovalPolicy { accept_commands: true, accept_file_changes: true, ..ApprovalPolicy::default() };
        let command = CommandApproval::default();
        let wider = CommandApproval { additional_permissions: Some(json!({})), ..command.clone() };
        let network = CommandApproval { network_approval_context: Some(json!({})), ..command.clone() };
        let patch = FileChangeApproval::default();
        let root = FileChangeApproval { grant_root: Some("/".to_owned()), ..patch.clone() };
        let decides = |request| policy.standing_decision(&request).is_some();
        assert!(decides(ServerRequest::Command(command)));
        assert!(decides(ServerRequest::FileChange(patch)));
        assert!(!decides(ServerRequest::Command(wider)));
        assert!(!decides(ServerRequest::Command(network)));
        assert!(!decides(ServerRequest::FileChange(root)));
        assert!(!decides(ServerRequest::Permissions(codex_wire::request::PermissionsApproval::default())));
    }
}
