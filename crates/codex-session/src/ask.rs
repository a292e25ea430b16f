//! Requests as they are shown to people: readable, with everything that the decision covers.
//!
//! Texts come from a model, a repository or an MCP server, and are not trusted. Deceptive characters are named or
//! removed, and lines of such a text are indented so that they cannot pose as ours. A secret is replaced by a mark with
//! its kind and length, and counted, but only if nothing acts on it (see [`redact::approval`]). Otherwise it is shown;
//! if it must not be shown, the request can only be declined, except by a person who has seen it on the machine.
//! Nothing is cut, since a person can only agree to what is shown. The one exception is a patch of more than 8 MiB,
//! which says how much of which file is missing. How an answer reaches Codex is not known here.

mod bounds;
mod changes;
mod clean;
mod draft;
mod elicitation;
mod field;
mod label;
mod permissions;

use codex_wire::escalation::Escalation;
use codex_wire::item::FileChange;
use codex_wire::request::ServerRequest;
use redact::Redactor;
use serde::{Deserialize, Serialize};

use crate::inspection::Inspection;
use crate::projection::call_id::{command_call_id, patch_call_id};
use draft::Draft;
pub use field::{Choice, FieldKind, ShownField, quoted_unless_word};
pub use label::Label;

/// A request for a person. It is stored in this form and read by later versions: fields are added, never renamed or
/// removed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ask {
    /// The digest of the request before redaction. A decision counts only for the request with this digest.
    pub digest: String,
    /// Codex's method. Stored with the request, and not in here.
    #[serde(skip)]
    pub method: String,
    /// What it is about.
    pub kind: Kind,
    /// The question in one line.
    pub title: String,
    /// The tool call that waits for the decision, for commands and file changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// Whether it asks for more than the sandbox allows; `None` for kinds of requests that cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escalation: Option<Escalation>,
    /// What the decision covers. Cautions come first.
    pub details: Vec<Detail>,
    /// How many of the first details are cautions.
    #[serde(skip_serializing_if = "is_zero")]
    pub cautions: usize,
    /// The files that would change, for [`Kind::FileChange`]; empty if they are unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ShownChange>,
    /// The questions, for [`Kind::Questions`], in the order of the request.
    pub questions: Vec<ShownQuestion>,
    /// The fields of the form, for [`Kind::Form`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<ShownField>,
    /// How many secrets are hidden.
    pub hidden_secrets: usize,
    /// Who asks.
    pub asked_by: AskedBy,
    /// The possible answers. If the request needs to be revealed first, all of them are negative.
    pub offers: Vec<Offer>,
    /// Whether something that could run is not shown. Then only a person who has seen the request on the machine may
    /// approve it.
    pub needs_reveal: bool,
    /// The possible answers after it was revealed; empty if they are the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub offers_after_reveal: Vec<Offer>,
    /// The whole request with nothing hidden; `None` if nothing is hidden. Never serialised.
    #[serde(skip)]
    pub unredacted: Option<Unredacted>,
}

/// The text of a request with nothing hidden. Neither `Debug` nor serialisation shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Unredacted(String);

impl Unredacted {
    /// The text. The caller is responsible for where it goes.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Unredacted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unredacted")
    }
}

/// The kind of an [`Ask`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A command is to run.
    Command,
    /// Something is to be typed into a running command.
    CommandInput,
    /// A host on the network is to be reached.
    Network,
    /// Files are to change.
    FileChange,
    /// The sandbox is to be widened.
    Permissions,
    /// The model wants to know something.
    Questions,
    /// An MCP server wants a form filled in.
    Form,
    /// An MCP server wants a page visited.
    Page,
    /// A tool of an MCP server is to run.
    McpTool,
    /// Something that this version does not know, from a store of a later one.
    #[default]
    #[serde(other)]
    Other,
}

/// One fact that the decision covers. Readable and redacted; may have several lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Detail {
    /// What it is: `Command`, `Directory` …
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub label: Label,
    /// The fact.
    pub text: String,
}

/// What a patch does to one file. Readable and redacted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Change"))]
pub struct ShownChange {
    /// The file.
    pub path: String,
    /// What happens to it.
    pub kind: ShownChangeKind,
    /// Where the file moves to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<String>,
    /// The unified diff, redacted, with its two header lines.
    #[serde(default)]
    pub diff: String,
    /// How many lines the whole diff adds; none if that was not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_lines: Option<usize>,
    /// How many lines the whole diff takes away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed_lines: Option<usize>,
    /// How many bytes at the end of the diff are missing; 0 if it is whole.
    #[serde(default)]
    pub cut_bytes: usize,
}

/// What a patch does to a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ChangeKind"))]
#[serde(rename_all = "snake_case")]
pub enum ShownChangeKind {
    /// The file is new.
    Add,
    /// The file changes, or moves.
    Update,
    /// The file goes.
    Delete,
    /// Something that we do not know.
    #[default]
    #[serde(other)]
    Other,
}

impl ShownChangeKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Add, Self::Update, Self::Delete, Self::Other];

    /// As it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Other => "other",
        }
    }
}

/// A question of the model. Readable and redacted: an answer is given in the request's own words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Question"))]
#[serde(default)]
pub struct ShownQuestion {
    /// The key of its answer, as in the request.
    pub id: String,
    /// Heading and question.
    pub text: String,
    /// The choices.
    pub options: Vec<ShownOption>,
    /// Whether an answer of one's own will do.
    pub is_free: bool,
    /// Whether the answer is a secret: never stored, never shown.
    pub is_secret: bool,
}

/// A choice of a [`ShownQuestion`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "QuestionOption"))]
#[serde(default)]
pub struct ShownOption {
    /// The choice.
    pub label: String,
    /// What it means.
    pub description: String,
}

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskedBy {
    /// The thread that the person talks to.
    #[default]
    Thread,
    /// A sub-agent of it.
    SubAgent {
        /// Its thread.
        thread_id: String,
    },
}

/// An answer on offer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offer {
    /// Yes, once.
    Accept,
    /// Yes, and the same again in this thread without asking. The detail `Session` says what counts as the same.
    AcceptForSession,
    /// Yes, and commands with this prefix permanently in every thread.
    AcceptAlways {
        /// The arguments of the prefix; readable and redacted.
        prefix: Vec<String>,
    },
    /// All requested permissions or some, for this turn.
    GrantForTurn,
    /// All requested permissions or some, for this thread.
    GrantForSession,
    /// The answers to the questions, or the filled form.
    Answer,
    /// Declined; the turn continues.
    Decline,
    /// Declined, and the turn ends.
    Cancel,
    /// Neither yes nor no to an MCP server; the turn goes on.
    Dismiss,
}

/// The context of a request.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The session's own thread. A request of another thread comes from a sub-agent.
    pub thread_id: &'a str,
    /// The session's directory, for requests that name none.
    pub cwd: &'a str,
    /// Codex's name of the sandbox in effect; `None` if Codex's own config decides.
    pub sandbox: Option<&'a str>,
    /// Paths that no command may read or write.
    pub denied: &'a [&'a str],
    /// Directories on the PATH of commands that commands may write: a program there may have been replaced.
    pub writable_path: &'a [String],
    /// Whether commands reach the network.
    pub network: bool,
    /// The file change item that a patch approval is about, from its `item/started`.
    pub patch: Option<&'a FileChange>,
    /// The result of the inspection.
    pub inspection: &'a Inspection,
    /// Whether people may allow commands permanently: codex 0.166 writes such a rule to a file, for every thread and
    /// also after a restart.
    pub allow_permanent_rules: bool,
}

// The signature that serde requires.
#[expect(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Ask {
    /// The request for a person; `None` for requests that are not for people.
    pub fn new(request: &ServerRequest, context: &Context<'_>, redactor: &Redactor) -> Option<Self> {
        let ask = Self::drawn(request, context, redactor)?;
        let unredacted = ask.unredacted(request, context);
        Some(Self { unredacted, ..ask })
    }

    fn drawn(request: &ServerRequest, context: &Context<'_>, redactor: &Redactor) -> Option<Self> {
        let draft = Draft::new(*context, redactor, request.thread_id());
        let ask = match request {
            ServerRequest::Command(it) => draft.command(it),
            ServerRequest::FileChange(it) => draft.file_change(it),
            ServerRequest::Permissions(it) => draft.permissions(it),
            ServerRequest::UserInput(it) => draft.questions(it),
            ServerRequest::Elicitation(it) => draft.elicitation(it),
            ServerRequest::ToolCall(_) | ServerRequest::CurrentTime | ServerRequest::Unknown { .. } => {
                return None;
            }
        };
        let call_id = match request {
            ServerRequest::Command(it) => Some(command_call_id(&it.item_id)),
            ServerRequest::FileChange(it) => Some(patch_call_id(&it.item_id)),
            _ => None,
        };
        let escalation = Inspection::is_needed(request).then_some(context.inspection.escalation);
        let (method, digest) = (request.method().to_owned(), request.digest(context.patch));
        Some(Self { digest, method, call_id, escalation, ..ask })
    }

    /// The text with nothing hidden, for the person at the machine; `None` if nothing is hidden.
    fn unredacted(&self, request: &ServerRequest, context: &Context<'_>) -> Option<Unredacted> {
        let is_all_shown = self.hidden_secrets == 0 && !self.needs_reveal;
        let whole = Self::drawn(request, context, &Redactor::hiding_nothing()).filter(|_| !is_all_shown);
        whole.map(|ask| Unredacted(ask.text()))
    }

    /// Whether it asks for input rather than for a yes or no.
    pub fn is_question(&self) -> bool {
        matches!(self.kind, Kind::Questions | Kind::Form)
    }

    /// Whether a field of its form has a default, which is sent unless something else is given.
    pub fn has_defaults(&self) -> bool {
        self.fields.iter().any(|field| field.default.is_some())
    }

    /// Whether at least one of the answers is a secret.
    pub fn asks_for_secret(&self) -> bool {
        self.questions.iter().any(|question| question.is_secret)
    }

    /// Whether the diff of a file is cut.
    pub fn has_cut_diff(&self) -> bool {
        self.changes.iter().any(|change| change.cut_bytes > 0)
    }

    /// The first detail that is not a caution. If there is none, the first caution.
    pub fn subject(&self) -> Option<&Detail> {
        self.details.get(self.cautions).or(self.details.first())
    }

    /// The text of the detail with this label.
    pub fn detail(&self, label: &Label) -> Option<&str> {
        self.details.iter().find(|detail| detail.label == *label).map(|detail| detail.text.as_str())
    }

    /// The field of the form with this name.
    pub fn field(&self, name: &str) -> Option<&ShownField> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Hides the secrets that had to be shown. If the result is unreadable, everything is removed.
    pub fn redact(&mut self, redactor: &Redactor) {
        let Ok(mut value) = serde_json::to_value(&*self) else { return *self = Self::default() };
        redactor.redact_json(&mut value);
        *self = serde_json::from_value(value).unwrap_or_default();
    }

    /// Cuts the diffs to `bytes` in total, for a list. Returns the original changes if something was cut.
    pub fn cut_diffs_to(&mut self, bytes: usize) -> Option<Vec<ShownChange>> {
        let is_more = self.changes.iter().map(|change| change.diff.len()).sum::<usize>() > bytes;
        is_more.then(|| {
            let whole = self.changes.clone();
            changes::cut(&mut self.changes, bytes);
            whole
        })
    }

    /// The request as plain text.
    pub fn text(&self) -> String {
        let mut lines = vec![self.title.clone()];
        for Detail { label, text } in &self.details {
            if text.contains('\n') {
                lines.push(format!("{label}:"));
                lines.extend(text.split('\n').map(|line| format!("  {line}")));
            } else {
                lines.push(format!("{label}: {text}"));
            }
        }
        lines.extend(self.changes.iter().flat_map(ShownChange::lines));
        for (index, question) in self.questions.iter().enumerate() {
            lines.extend(question.lines(index + 1));
        }
        match self.hidden_secrets {
            0 => {}
            1 => lines.push("1 secret is hidden.".to_owned()),
            count => lines.push(format!("{count} secrets are hidden.")),
        }
        if let AskedBy::SubAgent { thread_id } = &self.asked_by {
            lines.push(format!("Asked by a sub-agent, thread {thread_id}."));
        }
        let offers: Vec<String> = self.offers.iter().map(Offer::words).collect();
        lines.push(format!("Answers: {}", offers.join(", ")));
        lines.join("\n")
    }
}

impl Offer {
    /// Whether it is a negative answer.
    fn is_no(&self) -> bool {
        matches!(self, Self::Decline | Self::Cancel | Self::Dismiss)
    }

    fn words(&self) -> String {
        match self {
            Self::Accept => "accept".to_owned(),
            Self::AcceptForSession => "accept for this session".to_owned(),
            Self::AcceptAlways { prefix } => format!("accept `{}` always, in every thread", prefix.join(" ")),
            Self::GrantForTurn => "grant all or a part for this turn".to_owned(),
            Self::GrantForSession => "grant all or a part for this session".to_owned(),
            Self::Answer => "answer".to_owned(),
            Self::Decline => "decline".to_owned(),
            Self::Cancel => "cancel the turn".to_owned(),
            Self::Dismiss => "dismiss".to_owned(),
        }
    }
}

/// The rest of a diff after a header line, if that line names this file.
fn behind_header<'a>(diff: &'a str, sign: &str, path: &str) -> Option<&'a str> {
    let (line, behind) = diff.split_once('\n')?;
    let named = line.strip_prefix(sign)?;
    (named == path || named == "/dev/null").then_some(behind)
}

impl ShownChange {
    /// The diff without its two header lines, if they only repeat `path` and `moved_to`.
    pub fn without_header(&self) -> &str {
        let after = self.moved_to.as_deref().unwrap_or(&self.path);
        let behind = behind_header(&self.diff, "--- ", &self.path);
        behind.and_then(|diff| behind_header(diff, "+++ ", after)).unwrap_or(&self.diff)
    }

    /// The same with the shown secrets hidden.
    #[must_use]
    pub fn redacted(&self, redactor: &Redactor) -> Self {
        let hidden = |text: &String| redactor.redact(text).into_owned();
        Self {
            path: hidden(&self.path),
            moved_to: self.moved_to.as_ref().map(hidden),
            diff: hidden(&self.diff),
            ..self.clone()
        }
    }

    fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.diff.lines().map(|line| format!("  {line}")).collect();
        if self.cut_bytes > 0 {
            lines.push(format!("  (cut: {} more bytes of this file's diff are not shown)", self.cut_bytes));
        }
        lines
    }
}

impl ShownQuestion {
    /// The question with its number, and its options.
    pub fn lines(&self, number: usize) -> Vec<String> {
        let secret = if self.is_secret { " (secret: the answer is neither stored nor shown)" } else { "" };
        let mut lines: Vec<String> = self.text.split('\n').map(|line| format!("   {line}")).collect();
        if let Some(first) = lines.first_mut() {
            *first = format!("{number}. {}", first.trim_start());
        }
        if let Some(last) = lines.last_mut() {
            last.push_str(secret);
        }
        for ShownOption { label, description } in &self.options {
            let meaning = if description.is_empty() { String::new() } else { format!(": {description}") };
            lines.push(format!("   - {label}{meaning}"));
        }
        if self.is_free && !self.options.is_empty() {
            lines.push("   - or an answer of your own".to_owned());
        }
        lines
    }
}

/// The longest id of a question that is shown.
const LONGEST_KEY: usize = 40;

/// The key of a question for people. It is the model's id, unless that id could deceive the reader or contains a
/// secret: then it is `q1`, `q2` …
pub(crate) fn question_key(index: usize, id: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "_-.".contains(char);
    let is_shown = (1..=LONGEST_KEY).contains(&id.len())
        && id.chars().all(is_plain)
        && redact::Redactor::default().count_and_redact(id).1 == 0;
    if is_shown { id.to_owned() } else { format!("q{}", index + 1) }
}

#[cfg(test)]
mod tests;
