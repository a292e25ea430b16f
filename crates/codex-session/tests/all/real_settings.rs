//! Which settings hold on the real Codex: those of the session, whatever the user's own config says.

use codex_session::{ApprovalMode, Decision, FailureKind, Sandbox, Session};
use scripted_model::{CodexConfig, Scenario, ToolCall};

use crate::real_parts::{Person, answer_to};
use crate::workbench::RealCodex;

/// A config.toml that would let everything pass.
fn careless(config: CodexConfig) -> CodexConfig {
    config.extra(
        "approvals_reviewer = \"auto_review\"\napproval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n",
    )
}

fn touch(codex: &RealCodex) {
    codex.model.script("make it", Scenario::new().exec("touch made.txt").then_say("went on"));
}

#[tokio::test]
async fn a_careless_config_neither_stops_the_questions_nor_lifts_the_sandbox() {
    let codex = RealCodex::configured(careless).await;
    touch(&codex);
    let person = Person::saying([Decision::Decline]);
    let session = codex.start(person.approver()).await;
    assert_eq!(answer_to(&session, "make it").await, "went on");
    assert_eq!(person.texts().len(), 1);
    assert!(!codex.made("made.txt"));
    codex.end(session).await;

    // Asked nothing, but held by the sandbox.
    let mut config = codex.config();
    config.approval_mode = ApprovalMode::Never;
    let session = Session::start(config, codex.stdio(), None).await.unwrap();
    assert_eq!(answer_to(&session, "make it").await, "went on");
    assert!(!codex.made("made.txt"), "{}", codex.tool_output("make it"));
    codex.end(session).await;
}

#[tokio::test]
async fn the_reviewer_is_a_person_whatever_the_users_config_says() {
    let reviewed = "approvals_reviewer = \"auto_review\"\napproval_policy = \"on-request\"\n";
    let codex = RealCodex::configured(|config| config.extra(reviewed)).await;
    let call = ToolCall::exec_escalated("touch made.txt", "it is needed");
    codex.model.script("make it", Scenario::new().call(call).then_say("went on"));
    let person = Person::saying([Decision::Accept]);
    let mut config = codex.config();
    config.approval_mode = ApprovalMode::OnRequest;
    let session = Session::start(config, codex.stdio(), person.approver()).await.unwrap();
    assert_eq!(answer_to(&session, "make it").await, "went on");
    assert!(codex.made("made.txt") && person.texts().len() == 1);
    codex.end(session).await;
}

#[tokio::test]
async fn the_workspace_may_be_written_if_the_session_says_so() {
    let codex = RealCodex::new().await;
    touch(&codex);
    // The homes of tests lie in the temporary directory, which commands may write.
    let elsewhere = tempfile::tempdir_in("/var/tmp").unwrap();
    let outside = elsewhere.path().join("outside.txt");
    let escape = Scenario::new().exec(format!("touch {}; true", outside.display())).then_say("went on");
    codex.model.script("escape", escape);
    let mut config = codex.config();
    (config.sandbox, config.approval_mode) = (Sandbox::WorkspaceWrite, ApprovalMode::OnRequest);
    let session = Session::start(config, codex.stdio(), None).await.unwrap();
    for prompt in ["make it", "escape"] {
        assert_eq!(answer_to(&session, prompt).await, "went on");
    }
    assert!(codex.made("made.txt"), "{}", codex.tool_output("make it"));
    assert!(!outside.exists());
    codex.end(session).await;
}

#[tokio::test]
async fn instructions_of_the_session_reach_the_model() {
    let codex = RealCodex::new().await;
    let mut config = codex.config();
    config.developer_instructions = Some("Speak like a pirate.".to_owned());
    let session = Session::start(config, codex.stdio(), None).await.unwrap();
    answer_to(&session, "hello").await;
    assert!(codex.last_input().contains("Speak like a pirate."));
    codex.end(session).await;
}

// peer: S16
#[tokio::test]
async fn a_config_that_codex_cannot_read_fails_with_its_words() {
    let codex = RealCodex::configured(|config| config.extra("this is not TOML")).await;
    let Err(failure) = Session::start(codex.config(), codex.stdio(), None).await else {
        panic!("it started")
    };
    assert_eq!(failure.kind, FailureKind::Startup);
    assert!(failure.message.contains("startup failed"), "{failure}");
    assert!(failure.message.contains("config.toml"), "{failure}");
    codex.home.assert_no_processes().await;
}
