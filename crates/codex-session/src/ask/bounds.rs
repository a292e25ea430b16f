//! The bounds of what is asked for, in words: in which sandbox it happens, what an escalation opens, and what a yes for the
//! session covers.
//!
//! Every sentence here was seen on codex 0.166 under a permission profile with denied paths, which every thread has: no
//! command runs without a sandbox, and an accepted escalation stays in one that lets it write nearly everywhere.

use codex_wire::escalation::Escalation;

use super::clean::Cleaner;
use super::{Context, Kind, Offer};
use crate::inspection::{Reach, ReachPlace};

/// The sandbox that is none, in Codex's words.
const UNBOUND: &str = "danger-full-access";
/// Denied paths that are named before the rest is counted.
const MAX_NAMED: usize = 4;

/// What a yes for the session covers, for commands.
const SESSION_COMMAND: &str = "a yes for this session covers the same command, word for word: it runs again in \
    this task without asking, in the sandbox. Asking to leave the sandbox is asked again";
/// The same where no sandbox holds them.
const SESSION_COMMAND_UNBOUND: &str = "a yes for this session covers the same command, word for word: it runs again in this \
    task without asking, and without a sandbox";
/// The same for permissions.
pub(super) const SESSION_PERMISSIONS: &str =
    "a yes for this session keeps this open for every later command of this task, in later turns too";
/// The same for tools of MCP servers.
pub(super) const SESSION_TOOL: &str = "a yes for this session covers this tool of this server: it runs again in this task \
    without asking, with any arguments";

/// The answers to commands and patches. A yes to an escalation counts once: codex 0.166 would let a command that was
/// accepted for the session leave the sandbox again without asking.
pub(super) fn verdicts(escalation: Escalation, always: Option<Offer>) -> Vec<Offer> {
    let lasting = [Offer::AcceptForSession].into_iter().chain(always).filter(|_| !escalation.counts());
    [Offer::Accept].into_iter().chain(lasting).chain([Offer::Decline, Offer::Cancel]).collect()
}

/// What a yes for the session covers, for commands.
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
        // A profile without a denied path keeps no command in.
        _ if context.denied.is_empty() => format!("{name}. Accepting may let the command run outside it."),
        _ => format!("{name}: the command runs in it. No command of a task ever runs without a sandbox."),
    }
}

/// What an accepted command could do beyond the sandbox; none if it stays in it.
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
            format!("this is input to a running command that is not held by the sandbox ({name}).")
        }
        (_, Escalation::Asked) => format!("this command asks to leave the sandbox ({name})."),
        (_, Escalation::Unknown) => format!(
            "it could not be told whether this command asks to leave the sandbox ({name}). It is treated as if it did."
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

/// Which files of a patch need care, one line for each reason; none if none does.
pub(super) fn care_for_patch(context: &Context<'_>, cleaner: &mut Cleaner<'_>) -> Option<String> {
    let reaches = &context.inspection.reaches;
    let mut named = |is_among: fn(&ReachPlace) -> bool| {
        let among = reaches.iter().filter(|reach| is_among(&reach.place));
        among.map(|reach| file(reach, cleaner)).collect::<Vec<_>>().join(", ")
    };
    let outside = named(|place| *place != ReachPlace::Ruling);
    let ruling = named(|place| *place == ReachPlace::Ruling);
    let mut lines = Vec::new();
    if !outside.is_empty() {
        lines.push(format!("changes files outside the task's directory: {outside}"));
    }
    if !ruling.is_empty() {
        lines.push(format!("changes files that decide what git, Codex or other agents run: {ruling}"));
    }
    if lines.is_empty() && context.inspection.escalation == Escalation::Unknown {
        lines.push(
            "it could not be told which files change. This is treated as a change outside the task's directory."
                .to_owned(),
        );
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// What a yes for the session covers, for patches.
pub(super) fn session_patch(files: &[String]) -> String {
    format!(
        "a yes for this session covers further changes of these files: they are made in this task without asking: {}",
        files.join(", ")
    )
}

fn name<'a>(context: &Context<'a>) -> &'a str {
    context.sandbox.unwrap_or("as Codex's own config says")
}

fn file(reach: &Reach, cleaner: &mut Cleaner<'_>) -> String {
    // The diff shows the name too: a secret in it is counted there.
    let mut names = cleaner.uncounted();
    let path = names.place(&reach.path);
    match &reach.place {
        ReachPlace::Through(real) => format!("{path} (through a link: {})", names.place(real)),
        ReachPlace::Outside | ReachPlace::Ruling => path,
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
