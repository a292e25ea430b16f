//! Stalls: the model waits where the script says so, until it is released.

use scripted_model::{Scenario, ScriptedModel};

use crate::codex::Codex;

#[tokio::test]
async fn a_stall_before_the_first_byte_holds_the_turn_until_released() {
    let model = ScriptedModel::start().await.unwrap();
    model.script("wait", Scenario::new().stall("gate").say("Released."));
    let mut codex = Codex::start(&model).await;

    codex.prompt("wait").await;
    model.wait_for_stall("gate").await;
    assert!(codex.items("agentMessage").is_empty());
    model.release("gate");
    codex.wait_for("turn/completed").await;

    assert_eq!(codex.items("agentMessage")[0]["text"], "Released.");
    codex.end().await;
}

#[tokio::test]
async fn a_stall_in_mid_message_keeps_the_message_open() {
    let model = ScriptedModel::start().await.unwrap();
    model.script("wait", Scenario::new().delta("Half").stall("gate").delta(" and half."));
    let mut codex = Codex::start(&model).await;

    codex.prompt("wait").await;
    let first = codex.wait_for("item/agentMessage/delta").await;
    assert_eq!(first["params"]["delta"], "Half");
    model.wait_for_stall("gate").await;
    model.release("gate");
    codex.wait_for("turn/completed").await;

    assert_eq!(codex.items("agentMessage")[0]["text"], "Half and half.");
    codex.end().await;
}

#[tokio::test]
async fn stopping_the_model_cuts_what_is_stalled() {
    let model = ScriptedModel::start().await.unwrap();
    model.script("wait", Scenario::new().delta("Half").stall("never").delta(" and half."));
    let mut codex = Codex::start(&model).await;

    codex.prompt("wait").await;
    codex.wait_for("item/agentMessage/delta").await;
    model.stop().await;
    let turn = codex.wait_for("turn/completed").await;

    assert_eq!(turn["params"]["turn"]["status"], "failed");
    codex.end().await;
}
