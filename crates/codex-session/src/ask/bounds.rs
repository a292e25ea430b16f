//! Describes the bounds of a request: its sandbox, what an escalation allows, and what an approval for the session covers.
//!
//! Every sentence here was verified on codex 0.166 under a permission profile with denied paths, which every thread
//! has. No command runs without a sandbox; an accepted escalation runs in a sandbox that can write nearly everywhere.

use codex_wire::escalation::Escalation;

use super::clean::Cleaner;
use super::{Context, Kind, Offer};
use crate::inspection::{SensitiveFile, SensitivePlace};

/// Codex's name for no sandbox.
const UNBOUND: &str = "danger-full-access";
/// How many denied paths are named; the rest is counted.
const MAX_NAMED: usize = 4;

/// What an approval for the session covers, for commands.
const SESSION_COMMAND: &str = "approving for this session also approves the same command, word for word: it runs again in \
    this task without asking, in the sandbox. Asking to leave the sandbox is asked again";
/// The same without a sandbox.
const SESSION_COMMAND_UNBOUND: &str = "approving for this session also approves the same command, word for word: it runs again in this \
    task without asking, and without a sandbox";
/// The same for permissions.
pub(super) const SESSION_PERMISSIONS: &str =
    "approving for this session also approves it for every later command of this task, in later turns too";
/// The same for tools of MCP servers.
pub(super) const SESSION_TOOL: &str = "approving for this session also approves this tool of this server: it runs again in this task \
    without asking, with any arguments";

/// The possible answers to commands and patches. An approval of an escalation counts once: codex 0.166 would let a command
/// that was accepted for the session leave the sandbox again without asking.
pub(super) fn verdicts(escalation: Escalation, always: Option<Offer>) -> Vec<Offer> {
    let lasting = [Offer::AcceptForSession].into_iter().chain(always).filter(|_| !escalation.counts());
    [Offer::Accept].into_iter().chain(lasting).chain([Offer::Decline, Offer::Cancel]).collect()
}

/// What an approval for the session covers, for commands.
pub(super) fn session_command(context: &Context<'_>) -> &'static str {
    if context.sandbox == Some(UNBOUND) { SESSION_COMMAND_UNBOUND } else { SESSION_COMMAND }
}

/// In which sandbox a command runs.
pub(super) fn sandbox(context: &Context<'_>) -> String {
    let name = name(context);
    match (context.sandbox, context.inspection.escalation) {
        (Some(UNBOUND), _) => "none (danger-full-access)".to_owned(),
        (_, Escalation::Asked) => format!("{name}, which this asks to leave"),
        (_, Escalation::Unknown) => format!("{name}, which this may ask to leave"),
        // A profile without denied paths does not confine an accepted command.
        _ if context.denied.is_empty() => format!("{name}. Accepting may let the command run outside it."),
        _ => format!("{name}: the command runs in it. No command of a task ever runs without a sandbox."),
    }
}

/// What an accepted command could do outside of the sandbox; `None` if it stays inside.
pub(super) fn care_for_command(
    context: &Context<'_>,
    kind: Kind,
    cleaner: &mut Cleaner<'_>,
) -> Option<String> {
    let name = name(context);
    let what = match (kind, context.inspection.escalation) {
        _ if context.sandbox == Some(UNBOUND) => return None,
        (Kind::Network, _) | (_, Escalation::None) => return None,
        (Kind::CommandInput, _) => {
            format!("this is input to a running command that is outside of the sandbox ({name}).")
        }
        (_, Escalation::Asked) => format!("this command asks to leave the sandbox ({name})."),
        (_, Escalation::Unknown) => format!(
            "it is unknown whether this command asks to leave the sandbox ({name}). It is treated as if it did."
        ),
    };
    if context.denied.is_empty() {
        return Some(format!("{what} Accepted, it may run without any sandbox."));
    }
    let network = if context.network { "on" } else { "off" };
    let denied = named(context.denied.iter().copied(), cleaner);
    let planted = match context.writable_path {
        [] => String::new(),
        dirs => format!(
            " Programs are also looked up in {}, where commands can write: what runs may not be what its name says.",
            named(dirs.iter().map(String::as_str), cleaner)
        ),
    };
    Some(format!(
        "{what} Accepted, it may write anywhere on this machine that Codex's own user may, except in {denied}. \
         The network stays {network}.{planted}"
    ))
}

/// The sensitive files of a patch, one line for each reason; `None` if there are none.
pub(super) fn care_for_patch(context: &Context<'_>, cleaner: &mut Cleaner<'_>) -> Option<String> {
    let sensitive_files = &context.inspection.sensitive_files;
    let mut named = |is_among: fn(&SensitivePlace) -> bool| {
        let among = sensitive_files.iter().filter(|file| is_among(&file.place));
        among.map(|file| file_name(file, cleaner)).collect::<Vec<_>>().join(", ")
    };
    let outside = named(|place| *place != SensitivePlace::ControlDir);
    let control = named(|place| *place == SensitivePlace::ControlDir);
    let mut lines = Vec::new();
    if !outside.is_empty() {
        lines.push(format!("changes files outside the task's directory: {outside}"));
    }
    if !control.is_empty() {
        lines.push(format!("changes files that decide what git, Codex or other agents run: {control}"));
    }
    if lines.is_empty() && context.inspection.escalation == Escalation::Unknown {
        lines.push(
            "it is unknown which files change. This is treated as a change outside the task's directory."
                .to_owned(),
        );
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// What an approval for the session covers, for patches.
pub(super) fn session_patch(files: &[String]) -> String {
    format!(
        "approving for this session also approves further changes of these files in this task, without asking: {}",
        files.join(", ")
    )
}

fn name<'a>(context: &Context<'a>) -> &'a str {
    context.sandbox.unwrap_or("as Codex's own config says")
}

fn file_name(file: &SensitiveFile, cleaner: &mut Cleaner<'_>) -> String {
    // The diff contains the name too, so a secret in it is counted there.
    let mut names = cleaner.uncounted();
    let path = names.place(&file.path);
    match &file.place {
        SensitivePlace::ThroughLink(real) => format!("{path} (through a link: {})", names.place(real)),
        SensitivePlace::Outside | SensitivePlace::ControlDir => path,
    }
}

fn named<'a>(paths: impl ExactSizeIterator<Item = &'a str>, cleaner: &mut Cleaner<'_>) -> String {
    let more = paths.len().saturating_sub(MAX_NAMED);
    let mut named: Vec<String> = paths.take(MAX_NAMED).map(|path| cleaner.place(path)).collect();
    if more > 0 {
        named.push(format!("{more} more paths"));
    }
    named.join(", ")
}
