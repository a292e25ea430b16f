//! `codex-bridge attach`: watches a task from its beginning and answers its requests.

use std::process::ExitCode;

use super::run::wait_and_print;
use super::watch::{CtrlC, watch};
use super::{Globals, TaskArgs};
use crate::failure::Failure;

pub async fn run(globals: &Globals, args: &TaskArgs) -> Result<ExitCode, Failure> {
    let client = globals.client()?;
    let task = client.show(&args.id).await?;
    if globals.json {
        return wait_and_print(&client, &task.task_id, CtrlC::Detaches).await;
    }
    watch(&client, &task, 0, CtrlC::Detaches).await
}
