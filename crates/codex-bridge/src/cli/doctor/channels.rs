//! Checks the configuration of channels and notification targets, and names the channels that the running daemon cannot
//! serve. Sends nothing: `deliveries test` and `channel test` do.

use redact::Redactor;
use redact::plain::plain;

use super::Finding;
use crate::channel::registry::{ChannelStatus, ChannelTargets, Registry};
use crate::client::Client;
use crate::config::File;
use crate::paths::variable;
use crate::view::Channel;

/// The daemon's environment counts, and it may differ from ours.
const FIX: &str = "correct the configuration, or set the variable in the daemon's environment";

/// The channels that only send, and those that also receive.
pub fn channels(file: &File) -> [Finding; 2] {
    let redactor = Redactor::default();
    let registry =
        Registry::new(&file.channels, &file.notify, file.channel_context(&variable, None, &redactor));
    let (receiving, sending) = registry.targets().into_iter().partition(|channel| channel.receives);
    [
        finding("targets", sending, "codex-bridge deliveries test TARGET"),
        finding("channels", receiving, "codex-bridge channel test NAME"),
    ]
}

fn finding(name: &'static str, channels: Vec<ChannelTargets>, test: &str) -> Finding {
    let (mut usable, mut problems) = (Vec::new(), Vec::new());
    for ChannelTargets { name, receives, targets } in channels {
        match targets {
            Ok(_) if receives => usable.push(name),
            Ok(targets) => usable.extend(targets),
            Err(problem) => problems.push(format!("{name}: {problem}")),
        }
    }
    if !problems.is_empty() {
        return Finding::warning(name, problems.join("; "), FIX);
    }
    if usable.is_empty() {
        return Finding::ok(name, "none configured");
    }
    Finding::ok(name, format!("{}; `{test}` tests one", usable.join(", ")))
}

/// The channels that the running daemon cannot serve now, each with the reason.
pub async fn failing(client: &Client) -> Vec<Finding> {
    // Without a daemon no channel is served; another line says so.
    let channels: Vec<Channel> = client.get(&["channels"], &()).await.unwrap_or_default();
    channels.iter().filter_map(failure).collect()
}

fn failure(channel: &Channel) -> Option<Finding> {
    let name = &channel.name;
    let fix = match channel.standing {
        ChannelStatus::Retrying => {
            format!("it is retried by itself; `codex-bridge channel test {name}` tests it")
        }
        ChannelStatus::Stopped => format!("correct the cause, then `codex-bridge channel run {name}`"),
        _ => return None,
    };
    let message = format!("{name} is {}: {}", channel.standing.as_str(), plain(&channel.about));
    Some(Finding::warning("channels", message, fix))
}
