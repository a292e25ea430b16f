//! The approximate size of a batch. The writer's queue has a limit in bytes too.

use serde::Serialize;

use crate::store::Write;

/// The size of a row without its long texts.
const ROW: usize = 1024;

/// The approximate size of a batch. `bodies` are the JSON bodies of its events.
pub fn of(batch: &[Write], bodies: &[String]) -> usize {
    let rows: usize = batch.iter().map(of_write).sum();
    rows + bodies.iter().map(String::len).sum::<usize>()
}

fn of_write(write: &Write) -> usize {
    match write {
        Write::AddTask(task) | Write::SaveTask(task) => ROW + task.final_text.as_ref().map_or(0, String::len),
        Write::SaveTurn(turn) => {
            let answer = turn.final_text.as_ref().map_or(0, String::len);
            ROW + answer + turn.sealed_prompt.as_ref().map_or(0, Vec::len)
        }
        Write::SaveRequest(request) => ROW + of_json(&request.ask),
        Write::SaveWholeChanges(whole) => ROW + of_json(&whole.changes),
        Write::AddDelivery(delivery) | Write::SaveDelivery(delivery) => ROW + of_json(&delivery.notice),
        Write::Append { events, .. } => 64 * events.len(),
        Write::Audit(line) => ROW + line.detail.len(),
        Write::AddMessage(message) | Write::SaveMessage(message) => {
            ROW + message.sealed_text.as_ref().map_or(0, Vec::len)
        }
        Write::SaveAttachment(one) => {
            ROW + one.sealed_about.len() + one.sealed_content.as_ref().map_or(0, Vec::len)
        }
        Write::SaveConversation(_) | Write::SaveChannel(_) | Write::SaveToken(_) | Write::HandOver { .. } => {
            ROW
        }
    }
}

fn of_json(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(0, |text| text.len())
}
