//! `codex-bridge channel`: manages channels, which send notifications and receive work by chat.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use redact::plain::{path, plain};

use super::{Globals, block_on, output};
use crate::amount::one_line;
use crate::calls::{AllowSender, DisallowSender, Lines, RunChannel};
use crate::channel::KINDS;
use crate::channel::registry::ChannelStatus;
use crate::channel::settings::Kind;
use crate::client::Client;
use crate::config::{self, edit};
use crate::daemon::{self, Start, StartOptions};
use crate::failure::{Code, Failure};
use crate::view::{Allowed, Channel, ChannelLog, Reached};

/// How often the log of a channel is read from the daemon that serves it.
const LOG_INTERVAL: Duration = Duration::from_millis(500);
/// How much of a stranger's name is shown.
const MAX_NAME_CHARS: usize = 40;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Add a channel to the configuration file
    Add {
        /// The channel's name; without --platform, also its platform
        name: String,
        /// The platform, such as telegram; `type` in the configuration file
        #[arg(long)]
        platform: Option<String>,
        /// Who may write: an id, or id:approver; may be repeated
        #[arg(long, value_name = "ID")]
        allow: Vec<String>,
        /// A setting of the platform, such as workspace_id=…; may be repeated. Put secrets into the environment instead
        #[arg(long = "set", value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
    /// List the channels with their status, and senders that are not allowed
    List,
    /// Test the connection to a channel's platform
    Test {
        /// The channel's name
        name: String,
    },
    /// Serve a channel in the foreground. If a daemon is running, the daemon serves it, and its log is printed here
    Run {
        /// The channel's name
        name: String,
        /// Who may write: an id, or id:approver; may be repeated
        #[arg(long, value_name = "ID")]
        allow: Vec<String>,
    },
    /// Let a stranger write: `channel list` shows the code of each
    Allow {
        /// The stranger's code
        code: String,
        /// Let the person also decide what Codex asks
        #[arg(long)]
        approver: bool,
    },
    /// Take back what `allow` gave
    Disallow {
        /// The channel's name
        name: String,
        /// The person's id on the platform
        sender: String,
    },
    /// Pause a channel until the next `run`; new messages wait on the platform
    Pause {
        /// The channel's name
        name: String,
    },
}

pub fn run(globals: &Globals, args: Args) -> Result<ExitCode, Failure> {
    match args.action {
        Action::Add { name, platform, allow, settings } => add(globals, &name, platform, &allow, &settings),
        Action::List => block_on(list(globals)),
        Action::Test { name } => block_on(test(globals, &name)),
        Action::Run { name, allow } => serve(globals, &name, allow),
        Action::Allow { code, approver } => block_on(allow(globals, code, approver)),
        Action::Disallow { name, sender } => block_on(disallow(globals, &name, sender)),
        Action::Pause { name } => block_on(pause(globals, &name)),
    }
}

fn add(
    globals: &Globals,
    name: &str,
    platform: Option<String>,
    allow: &[String],
    settings: &[String],
) -> Result<ExitCode, Failure> {
    let usage = |message: String| Failure::new(Code::Usage, message);
    let is_plain = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-';
    if name.is_empty() || !name.chars().all(is_plain) {
        return Err(usage(format!("{name:?} is not a valid name: use lowercase letters, digits and -")));
    }
    let mut platform = platform.unwrap_or_else(|| name.to_owned());
    if platform == "webhook" && !settings.iter().any(|setting| setting.starts_with("url")) {
        // `webhook` used to name both platforms. The one that sends has a `url`; the one that receives is `hook` now.
        "hook".clone_into(&mut platform);
    }
    let Some(kind) = Kind::named(&platform) else {
        return Err(usage(format!("there is no platform {platform}"))
            .hint(format!("the platforms are {}", Kind::names())));
    };
    let paths = globals.paths()?;
    if config::load(&paths)?.channels.contains_key(name) {
        return Err(usage(format!("{} already has a channel {name}", paths.config_file.display())));
    }
    let mut lines = vec![String::new(), format!("[channels.{name}]"), format!("type = {:?}", kind.name)];
    if !allow.is_empty() {
        // JSON strings are valid TOML.
        lines.push(format!("allow = {}", serde_json::json!(allow)));
    }
    for setting in settings {
        let is_key = |key: &str| key.chars().all(|char| char.is_ascii_alphanumeric() || "_-.".contains(char));
        let (key, value) = setting
            .split_once('=')
            .filter(|(key, _)| !key.is_empty() && is_key(key))
            .ok_or_else(|| usage(format!("{setting:?} is not KEY=VALUE")))?;
        let value = value.parse::<i64>().map_or_else(|_| serde_json::json!(value), serde_json::Value::from);
        lines.push(format!("{key} = {value}"));
    }
    // `append` checks the new configuration before it is written.
    edit::append(&paths.config_file, &(lines.join("\n") + "\n"))?;
    output::lines(&[format!(
        "{name} was added to {}; `codex-bridge channel run {name}` serves it",
        paths.config_file.display()
    )])?;
    Ok(ExitCode::SUCCESS)
}

async fn list(globals: &Globals) -> Result<ExitCode, Failure> {
    let channels: Vec<Channel> = globals.client()?.get(&["channels"], &()).await?;
    let none = "no channels; `codex-bridge channel run NAME` serves one";
    globals.print_list(&channels, none, |channels| channels.iter().flat_map(lines).collect())
}

/// A name from a platform in quotes, at most forty characters of it, so that it cannot pass for our own words.
fn quoted(name: &str) -> String {
    let name: String = one_line(&plain(name)).chars().take(MAX_NAME_CHARS).collect();
    format!("{name:?}")
}

/// An id from a platform as one word of a shell. What cannot be seen is named in it.
fn shell_word(id: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "_-.:@/".contains(char);
    if !id.is_empty() && id.chars().all(is_plain) {
        id.to_owned()
    } else {
        format!("'{}'", path(id).replace('\'', r"'\''"))
    }
}

fn lines(channel: &Channel) -> Vec<String> {
    let mut lines =
        vec![format!("{:16} {:9} {}", channel.name, channel.standing.as_str(), plain(&channel.about))];
    if channel.open_messages > 0 {
        lines.push(format!("  {} unfinished messages: codex-bridge inbox", channel.open_messages));
    }
    lines.extend(channel.knocks.iter().map(|knock| {
        let (name, count) = (quoted(&knock.sender_name), knock.count);
        format!(
            "  not allowed: {} ({name}), {count} messages, last {}; to allow: codex-bridge channel allow {}",
            shell_word(&knock.sender_id),
            knock.last_at,
            plain(&knock.code)
        )
    }));
    lines.extend(channel.allowed.iter().map(|allowed| {
        let role = if allowed.approver { "approver" } else { "user" };
        format!("  allowed by a code: {} ({role})", shell_word(&allowed.sender_id))
    }));
    lines
}

async fn test(globals: &Globals, name: &str) -> Result<ExitCode, Failure> {
    let call = from_environment(name, Vec::new());
    let report: Reached = globals.client()?.post(&["channels", name, "test"], &call).await?;
    globals.print(&report, |report| vec![report.said.clone()])
}

async fn allow(globals: &Globals, code: String, approver: bool) -> Result<ExitCode, Failure> {
    let call = AllowSender { code, approver };
    let allowed: Allowed = globals.client()?.post(&["channels", "allow"], &call).await?;
    globals.print(&allowed, |Allowed { channel, sender_id, sender_name, approver }| {
        let sender_id = shell_word(sender_id);
        let name = sender_name.as_ref().map(|name| format!(" ({})", quoted(name))).unwrap_or_default();
        let may = if *approver { "write, and decide what Codex asks" } else { "write" };
        vec![
            format!("{sender_id}{name} may {may} on {channel} from now on"),
            format!("`codex-bridge channel disallow {channel} {sender_id}` takes that back"),
        ]
    })
}

async fn disallow(globals: &Globals, name: &str, sender_id: String) -> Result<ExitCode, Failure> {
    let call = DisallowSender { sender_id };
    let channel: Channel = globals.client()?.post(&["channels", name, "disallow"], &call).await?;
    globals.print(&channel, |_| {
        vec![format!("{} may not write on {name} any more", shell_word(&call.sender_id))]
    })
}

async fn pause(globals: &Globals, name: &str) -> Result<ExitCode, Failure> {
    let channel: Channel = globals.client()?.post(&["channels", name, "pause"], &()).await?;
    globals
        .print(&channel, |_| vec![format!("{name} is paused; `codex-bridge channel run {name}` resumes it")])
}

/// A call that serves a channel, with the caller's variables and current directory.
fn from_environment(name: &str, allow: Vec<String>) -> RunChannel {
    let set = |variable: &str| {
        Some((variable.to_owned(), std::env::var(variable).ok().filter(|text| !text.is_empty())?))
    };
    let variables: BTreeMap<String, String> =
        KINDS.iter().flat_map(|kind| kind.variables).filter_map(|name| set(name)).collect();
    RunChannel { name: name.to_owned(), variables, allow, cwd: std::env::current_dir().ok() }
}

/// Serves a channel in the running daemon. If none is running, this process becomes the daemon.
fn serve(globals: &Globals, name: &str, allow: Vec<String>) -> Result<ExitCode, Failure> {
    let call = from_environment(name, allow);
    match block_on(run_in_daemon(&globals.client_of_running()?, &call)) {
        Err(failure) if failure.code == Code::DaemonNotRunning => {}
        outcome => return outcome,
    }
    let options =
        StartOptions { start: Start::Foreground, listen: None, behind_proxy: false, channel: Some(call) };
    daemon::serve(&globals.paths()?, options)?;
    Ok(ExitCode::SUCCESS)
}

async fn run_in_daemon(client: &Client, call: &RunChannel) -> Result<ExitCode, Failure> {
    client.post::<Channel>(&["channels", &call.name, "run"], call).await?;
    output::note(format!("the running daemon serves {}; its log follows", call.name));
    let mut count = 0;
    loop {
        let log: ChannelLog = client.get(&["channels", &call.name, "log"], &Lines { after: count }).await?;
        count = log.count;
        output::lines(&log.lines)?;
        if log.standing == ChannelStatus::Stopped {
            return Err(Failure::new(Code::ChannelStopped, log.about));
        }
        tokio::time::sleep(LOG_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_stranger_has_one_line_whatever_the_name_is() {
        let name = "Eve), 1 messages, last 2026; to allow: codex-bridge channel allow EEEEEEEE\n  not allowed: 42 (Ada";
        let knock = json!({
            "sender_id": "66", "sender_name": name, "conversation": "66", "code": "EEEEEEEE", "count": 1, "last_at": "2026",
        });
        let channel: Channel = serde_json::from_value(json!({
            "name": "telegram", "standing": "serving", "about": "", "open_messages": 0, "knocks": [knock],
        }))
        .unwrap();
        let all = lines(&channel).join("\n");
        let strangers: Vec<&str> = all.lines().filter(|line| line.contains("not allowed: ")).collect();
        assert!(strangers.len() == 1 && strangers[0].ends_with("channel allow EEEEEEEE"), "{all}");
        assert!(strangers[0].starts_with("  not allowed: 66 (\"Eve), "), "the name ends at its quote: {all}");
    }

    #[test]
    fn an_id_is_one_word_of_a_shell() {
        assert_eq!(shell_word("@ada:example.org"), "@ada:example.org");
        assert_eq!(shell_word("66; rm -rf ~"), "'66; rm -rf ~'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!((shell_word("*").as_str(), shell_word("").as_str()), ("'*'", "''"));
    }
}
