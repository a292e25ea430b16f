//! The operator's standing decisions: what is answered without asking anyone.

use std::time::Duration;

use codex_wire::escalation::Escalation;
use codex_wire::request::{ElicitationRequest, ServerRequest};
use serde::{Deserialize, Serialize};

use crate::decision::Decision;
use crate::inspection::Inspection;

/// SessionStatus decisions. The default asks a person for everything and allows nothing for good.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApprovalPolicy {
    /// Accept commands that stay in the sandbox without asking.
    pub accept_commands: bool,
    /// Accept file changes in the task's directory without asking, except in `.git`, `.codex` and `.agents`.
    pub accept_file_changes: bool,
    /// How requests for more than the sandbox allows are handled.
    pub escalations: Escalations,
    /// MCP servers whose tool approvals and plain confirmations are accepted.
    pub trusted_mcp_servers: Vec<String>,
    /// Decline what other MCP servers ask, instead of asking a person.
    pub decline_other_mcp_servers: bool,
    /// Whether a person may allow a command permanently, in every thread of this Codex.
    pub allow_permanent_rules: bool,
    /// How long a person may take to answer; then the request is declined. Without a limit, requests wait.
    pub answer_limit: Option<Duration>,
}

/// How requests for more than the sandbox allows are handled: commands that ask to leave the sandbox, input to such
/// commands, requests for more permissions, and patches outside of the task's directory or to files that decide what
/// git and Codex run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Escalations {
    /// A person is asked.
    #[default]
    Ask,
    /// They are declined without asking, and the turn goes on.
    Decline,
}

impl ApprovalPolicy {
    /// The operator's standing decision on this request, with the reason.
    pub fn standing_decision(
        &self,
        request: &ServerRequest,
        inspection: &Inspection,
    ) -> Option<(Decision, String)> {
        let accepted = |what: &str| Some((Decision::Accept, format!("{what} are accepted without asking")));
        match request {
            _ if inspection.escalation.counts() => {
                let declines = self.escalations == Escalations::Decline;
                declines.then(|| (Decision::Decline, why_declined(request, inspection)))
            }
            ServerRequest::Command(_) if self.accept_commands => accepted("commands"),
            ServerRequest::FileChange(_) if self.accept_file_changes => accepted("file changes"),
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

/// Why an escalation is declined, for the log.
fn why_declined(request: &ServerRequest, inspection: &Inspection) -> String {
    let is_unknown = inspection.escalation == Escalation::Unknown;
    let what = match request {
        ServerRequest::Command(command) if command.is_input() => {
            "input to a command that has left the sandbox is declined"
        }
        ServerRequest::Command(_) if is_unknown => {
            "it is unknown whether the command asks to leave the sandbox, and such commands are declined"
        }
        ServerRequest::Command(_) => "commands that ask to leave the sandbox are declined",
        ServerRequest::FileChange(_) if is_unknown => {
            "it is unknown which files would change, and changes outside the task's directory are declined"
        }
        ServerRequest::FileChange(_) => {
            "changes outside the task's directory, and of .git, .codex and .agents, are declined"
        }
        _ => "requests for a wider sandbox are declined",
    };
    format!("{what} for this task (escalations = \"decline\")")
}

/// Whether only a yes or no is asked for: no form, no page to open.
fn is_plain_confirmation(asked: &ElicitationRequest) -> bool {
    let fields = asked.requested_schema.as_ref().and_then(|schema| schema["properties"].as_object());
    let has_fields = fields.is_some_and(|fields| !fields.is_empty());
    let opens_page = asked.mode == "url" || asked.url.as_ref().is_some_and(|url| !url.is_empty());
    !has_fields && !opens_page
}

#[cfg(test)]
mod tests {
    use codex_wire::request::{CommandApproval, FileChangeApproval, PermissionsApproval};

    use super::*;

    fn requests() -> [ServerRequest; 3] {
        [
            ServerRequest::Command(CommandApproval::default()),
            ServerRequest::FileChange(FileChangeApproval::default()),
            ServerRequest::Permissions(PermissionsApproval::default()),
        ]
    }

    #[test]
    fn what_asks_for_more_than_the_sandbox_is_never_accepted_unasked() {
        let policy =
            ApprovalPolicy { accept_commands: true, accept_file_changes: true, ..ApprovalPolicy::default() };
        let decides = |request: &ServerRequest, escalation: Escalation| {
            policy.standing_decision(request, &escalation.into()).map(|(decision, _)| decision)
        };
        let [command, patch, permissions] = &requests();
        assert_eq!(decides(command, Escalation::None), Some(Decision::Accept));
        assert_eq!(decides(patch, Escalation::None), Some(Decision::Accept));
        for escalation in [Escalation::Asked, Escalation::Unknown] {
            for request in [command, patch, permissions] {
                assert_eq!(decides(request, escalation), None, "{request:?} {escalation:?}");
            }
        }
    }

    #[test]
    fn escalations_are_declined_where_the_operator_says_so_and_nothing_else_is() {
        let policy = ApprovalPolicy { escalations: Escalations::Decline, ..ApprovalPolicy::default() };
        let input = CommandApproval { kind: Some("writeStdin".to_owned()), ..CommandApproval::default() };
        for request in requests().into_iter().chain([ServerRequest::Command(input)]) {
            assert_eq!(policy.standing_decision(&request, &Inspection::default()), None);
            for escalation in [Escalation::Asked, Escalation::Unknown] {
                let (decision, reason) = policy.standing_decision(&request, &escalation.into()).unwrap();
                assert_eq!(decision, Decision::Decline);
                assert!(reason.ends_with(" for this task (escalations = \"decline\")"), "{reason}");
            }
        }
    }
}
