//! What the canvas is told of our work, shown on the Molecule stand-in and the real Codex.

use serde_json::{Value, json};

use crate::channel_rig::Channel;

fn is_busy(heartbeat: &Value) -> bool {
    heartbeat["is_busy"] == true
}

#[tokio::test]
async fn a_heartbeat_names_what_is_being_worked_on_and_the_next_one_after_it_nothing() {
    let channel = Channel::new().await;
    channel
        .molecule
        .say("deploy with sk-proj-abcdefghijklmnopqrstuvwx1234 [play] stall gate => say Deployed.");
    channel.start().await;
    let state =
        channel.molecule.until("a busy heartbeat", |state| state.heartbeats.iter().any(is_busy)).await;
    assert_eq!(state.notices, [""; 0], "the turn still runs");
    let first_busy = state.heartbeats.iter().position(is_busy).unwrap();
    // The first heartbeat may come before the message does.
    assert!(first_busy <= 1, "no heartbeat misses the work: {:#?}", state.heartbeats);
    let busy = &state.heartbeats[first_busy];
    assert_eq!(busy["active_tasks"], 1, "{busy}");
    let task = busy["current_task"].as_str().unwrap();
    assert!(task.starts_with("deploy with ") && !task.contains("abcdefghijklmnop"), "{busy}");
    channel.shell.model.release("gate");
    let is_idle_again = |all: &[Value]| all.last().is_some_and(|last| !is_busy(last));
    let state = channel.molecule.until("an idle heartbeat", |state| is_idle_again(&state.heartbeats)).await;
    let idle = state.heartbeats.last().unwrap();
    assert_eq!((&idle["active_tasks"], &idle["current_task"]), (&json!(0), &json!("")), "{idle}");
    channel.end().await;
}
