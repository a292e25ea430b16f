//! `codex-bridge channel`: where work arrives by chat.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use redact::plain::plain;

use super::{Globals, output};
use crate::calls::RunChannel;
use crate::channel::KINDS;
use crate::channel::registry::Standing;
use crate::channel::settings::Kind;
use crate::client::{Autostart, Client};
use crate::config::{self, edit};
use crate::daemon::{self, Orders, Start};
use crate::failure::{Code, Failure};
use crate::view::Channel;

/// How often the log of a channel is looked at that another daemon serves.
const LOOK_EVERY: Duration = Duration::from_millis(500);

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Write a channel into the configuration file
    Add {
        /// Its name; also its platform, unless that is given
        name: String,
        /// The platform, such as molecule: its `type` in the file
        #[arg(long)]
        platform: Option<String>,
        /// Who may write: an id, or id:approver; may be repeated
        #[arg(long, value_name = "ID")]
        allow: Vec<String>,
        /// A setting of the platform, such as workspace_id=…; secrets belong into the environment. May be repeated
        #[arg(long = "set", value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
    /// List the channels, how they are, and who knocked
    List,
    /// Reach a channel's platform once
    Test {
        /// Which
        name: String,
    },
    /// Serve a channel in the foreground; a daemon that runs serves it, and its words are followed
    Run {
        /// Which
        name: String,
        /// Who may write: an id, or id:approver; may be repeated
        #[arg(long, value_name = "ID")]
        allow: Vec<String>,
    },
    /// Have a channel rest until it is run again; what comes meanwhile waits at its source
    Pause {
        /// Which
        name: String,
    },
}

pub fn run(globals: &Globals, args: Args) -> Result<ExitCode, Failure> {
    match args.what {
        What::Add { name, platform, allow, settings } => add(globals, &name, platform, &allow, &settings)?,
        What::List => list(globals)?,
        What::Test { name } => test(globals, &name)?,
        What::Run { name, allow } => serve(globals, &name, allow)?,
        What::Pause { name } => pause(globals, &name)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn add(
    globals: &Globals,
    name: &str,
    platform: Option<String>,
    allow: &[String],
    settings: &[String],
) -> Result<(), Failure> {
    let usage = |message: String| Failure::new(Code::Usage, message);
    let is_plain = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-';
    if name.is_empty() || !name.chars().all(is_plain) {
        return Err(usage(format!("{name:?} is no name: use small letters, digits and -")));
    }
    let mut platform = platform.unwrap_or_else(|| name.to_owned());
    if platform == "webhook" && !settings.iter().any(|setting| setting.starts_with("url")) {
        // One that sends has an address; what takes what is posted had this name, too.
        "hook".clone_into(&mut platform);
    }
    let Some(kind) = Kind::named(&platform) else {
        return Err(usage(format!("there is no platform {platform}"))
            .hint(format!("it can be one of {}", Kind::names())));
    };
    let paths = globals.paths()?;
    if config::load(&paths)?.channels.contains_key(name) {
        return Err(usage(format!("{} has a channel {name} already", paths.config_file.display())));
    }
    let mut lines = vec![String::new(), format!("[channels.{name}]"), format!("type = {:?}", kind.name)];
    if !allow.is_empty() {
        // A string of JSON is one of TOML too.
        lines.push(format!("allow = {}", serde_json::json!(allow)));
    }
    for setting in settings {
        let is_key = |key: &str| key.chars().all(|char| char.is_ascii_alphanumeric() || "_-.".contains(char));
        let (key, value) = setting
            .split_once('=')
            .filter(|(key, _)| !key.is_empty() && is_key(key))
            .ok_or_else(|| usage(format!("{setting:?} is no KEY=VALUE")))?;
        let value = value.parse::<i64>().map_or_else(|_| serde_json::json!(value), serde_json::Value::from);
        lines.push(format!("{key} = {value}"));
    }
    // What does not hold is said now, and not by the next daemon.
    edit::append(&paths.config_file, &(lines.join("\n") + "\n"))?;
    output::lines(&[format!(
        "{name} is in {}; `codex-bridge channel run {name}` serves it",
        paths.config_file.display()
    )])
}

#[tokio::main(flavor = "current_thread")]
async fn list(globals: &Globals) -> Result<(), Failure> {
    let channels = globals.client()?.channels().await?;
    if globals.json {
        return output::json(&channels);
    }
    if channels.is_empty() {
        return output::lines(&["no channels; `codex-bridge channel run NAME` serves one".to_owned()]);
    }
    output::lines(&channels.iter().flat_map(lines).collect::<Vec<_>>())
}

fn lines(channel: &Channel) -> Vec<String> {
    let mut lines = vec![format!("{:16} {:9} {}", channel.name, channel.standing, plain(&channel.about))];
    if channel.open_messages > 0 {
        lines.push(format!("  {} messages are not done with: codex-bridge inbox", channel.open_messages));
    }
    lines.extend(channel.knocks.iter().map(|knock| {
        let (name, count) = (plain(&knock.sender_name), knock.count);
        format!("  knocked {count} times, last {}: {} ({name})", knock.last_at, plain(&knock.sender_id))
    }));
    lines
}

#[tokio::main(flavor = "current_thread")]
async fn test(globals: &Globals, name: &str) -> Result<(), Failure> {
    let reached = globals.client()?.test_channel(&brought(name, Vec::new())).await?;
    if globals.json {
        return output::json(&reached);
    }
    output::lines(&[reached.said])
}

#[tokio::main(flavor = "current_thread")]
async fn pause(globals: &Globals, name: &str) -> Result<(), Failure> {
    let channel = globals.client()?.pause_channel(name).await?;
    if globals.json {
        return output::json(&channel);
    }
    output::lines(&[format!("{name} rests; `codex-bridge channel run {name}` wakes it")])
}

/// What the caller's surroundings say about a channel.
fn brought(name: &str, allow: Vec<String>) -> RunChannel {
    let set = |variable: &str| {
        Some((variable.to_owned(), std::env::var(variable).ok().filter(|text| !text.is_empty())?))
    };
    let variables: BTreeMap<String, String> =
        KINDS.iter().flat_map(|kind| kind.variables).filter_map(|name| set(name)).collect();
    RunChannel { name: name.to_owned(), variables, allow, cwd: std::env::current_dir().ok() }
}

/// In the daemon that runs; else in one that we are from here on.
fn serve(globals: &Globals, name: &str, allow: Vec<String>) -> Result<(), Failure> {
    let wanted = brought(name, allow);
    let paths = globals.paths()?;
    match ask_running(&Client::new(paths.clone(), Autostart::No), &wanted) {
        Err(failure) if failure.code == Code::DaemonNotRunning => {}
        asked => return asked,
    }
    let orders =
        Orders { start: Start::Foreground, listen: None, behind_proxy: false, channel: Some(wanted) };
    daemon::serve(&paths, orders)
}

#[tokio::main(flavor = "current_thread")]
async fn ask_running(client: &Client, wanted: &RunChannel) -> Result<(), Failure> {
    client.run_channel(wanted).await?;
    output::note(format!("the daemon that runs serves {}; these are its words", wanted.name));
    let mut count = 0;
    loop {
        let log = client.channel_log(&wanted.name, count).await?;
        count = log.count;
        output::lines(&log.lines)?;
        if log.standing == Standing::Stopped {
            return Err(Failure::new(Code::ChannelStopped, log.about));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
