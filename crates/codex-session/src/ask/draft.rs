//! Builds an [`Ask`] for each kind of request.

use codex_wire::ThreadId;
use codex_wire::escalation::Escalation;
use codex_wire::request::{
    CommandApproval, FileChangeApproval, PermissionsApproval, Question, UserInputRequest,
};
use redact::Redactor;
use redact::approval::TextKind;

use super::clean::{self, Cleaner};
use super::{
    Ask, AskedBy, Context, Detail, Kind, Label, Offer, ShownChange, ShownOption, ShownQuestion, bounds,
    changes, permissions, question_key,
};

/// The note about shown texts that look like secrets.
const EXPOSED: &str =
    "some texts that look like secrets are shown, because they could run or their exact wording matters";

/// The note about a request that can only be declined remotely.
const NEEDS_REVEAL: &str = "this contains a secret in a place where it could run, or a private key. It can only be declined \
                            here; on the machine, `codex-bridge requests --reveal` shows it";

/// An unfinished [`Ask`].
pub(super) struct Draft<'a> {
    context: Context<'a>,
    pub(super) cleaner: Cleaner<'a>,
    details: Vec<Detail>,
    /// The caution, shown before everything else.
    care: Option<String>,
    asked_by: AskedBy,
}

impl<'a> Draft<'a> {
    pub(super) fn new(context: Context<'a>, redactor: &'a Redactor, asking: Option<ThreadId>) -> Self {
        let mut cleaner = Cleaner::new(redactor);
        let asked_by = match asking {
            Some(thread_id) if thread_id.as_str() != context.thread_id => {
                AskedBy::SubAgent { thread_id: cleaner.line(thread_id.as_str()) }
            }
            _ => AskedBy::Thread,
        };
        Self { context, cleaner, details: Vec::new(), care: None, asked_by }
    }

    /// Adds prose of one or more lines, if there is any.
    pub(super) fn block(&mut self, label: Label, raw: Option<&str>) {
        self.acted_on(label, raw, TextKind::Prose);
    }

    /// Adds a text that is acted on once it is approved, if there is one.
    pub(super) fn acted_on(&mut self, label: Label, raw: Option<&str>, matter: TextKind) {
        let text = self.cleaner.block(raw.unwrap_or_default(), matter);
        if !text.is_empty() {
            self.details.push(Detail { label, text });
        }
    }

    /// Adds a path, a host or an address in one line, if there is one.
    pub(super) fn place(&mut self, label: Label, raw: Option<&str>) {
        let text = self.cleaner.place(raw.unwrap_or_default());
        if !text.is_empty() {
            self.details.push(Detail { label, text });
        }
    }

    /// Adds a text of our own, or a cleaned one.
    pub(super) fn own(&mut self, label: Label, text: impl Into<String>) {
        self.details.push(Detail { label, text: text.into() });
    }

    fn directory(&mut self, cwd: Option<&str>) {
        let cwd = cwd.filter(|cwd| !cwd.is_empty()).unwrap_or(self.context.cwd);
        self.place(Label::Directory, Some(cwd));
    }

    pub(super) fn finish(mut self, kind: Kind, title: impl Into<String>, offers: Vec<Offer>) -> Ask {
        let needs_reveal = !self.cleaner.is_whole();
        if self.cleaner.exposed_secrets() > 0 {
            self.own(Label::Note, EXPOSED);
        }
        let cautions = usize::from(needs_reveal) + usize::from(self.care.is_some());
        if needs_reveal {
            self.details.insert(0, Detail { label: Label::NotShown, text: NEEDS_REVEAL.to_owned() });
        }
        if let Some(text) = self.care {
            self.details.insert(0, Detail { label: Label::Careful, text });
        }
        let (offers, offers_after_reveal) = if needs_reveal {
            (offers.iter().filter(|offer| offer.is_no()).cloned().collect(), offers)
        } else {
            (offers, Vec::new())
        };
        Ask {
            kind,
            title: title.into(),
            details: self.details,
            cautions,
            hidden_secrets: self.cleaner.hidden_secrets(),
            asked_by: self.asked_by,
            offers,
            needs_reveal,
            offers_after_reveal,
            ..Ask::default()
        }
    }

    pub(super) fn command(mut self, it: &CommandApproval) -> Ask {
        let kind = match (&it.command, &it.network_approval_context) {
            _ if it.is_input() => Kind::CommandInput,
            (None, Some(_)) => Kind::Network,
            _ => Kind::Command,
        };
        self.care = bounds::care_for_command(&self.context, kind, &mut self.cleaner);
        if kind != Kind::Network {
            let command = it.command.as_deref().unwrap_or("(Codex did not say which)");
            self.acted_on(Label::Command, Some(command), TextKind::Command);
            self.directory(it.cwd.as_deref());
        }
        if let Some(network) = &it.network_approval_context {
            self.place(Label::Host, Some(&permissions::host(network)));
        }
        self.block(Label::Reason, it.reason.as_deref());
        if kind != Kind::Network {
            self.own(Label::Sandbox, bounds::sandbox(&self.context));
        }
        if let Some(extra) = &it.additional_permissions {
            let opens = permissions::opens_raw(extra);
            self.acted_on(Label::AlsoOpens, Some(&opens.join("\n")), TextKind::Excerpt);
        }
        let always = self.amendment(it);
        let offers = bounds::verdicts(self.context.inspection.escalation, always);
        if offers.contains(&Offer::AcceptForSession) {
            self.own(Label::Session, bounds::session_command(&self.context));
        }
        let is_escalated = self.context.inspection.escalation == Escalation::Asked;
        let title = match kind {
            Kind::CommandInput => "Let Codex type into a running command?",
            Kind::Network => "Let Codex reach a host on the network?",
            _ if is_escalated && self.care.is_some() => {
                "Let Codex run a command that asks to leave the sandbox?"
            }
            _ => "Let Codex run a command?",
        };
        self.finish(kind, title, offers)
    }

    /// The offer to allow the command permanently, if Codex proposes it and the operator permits it.
    fn amendment(&mut self, it: &CommandApproval) -> Option<Offer> {
        let proposed = it.permanent_rule().filter(|_| self.context.allow_permanent_rules)?;
        // A permanent rule with a secret would be written to a file of Codex, and could not be shown exactly.
        if self.cleaner.has_secret(&clean::shell_words(proposed)) {
            return None;
        }
        let prefix = proposed.iter().map(|word| self.cleaner.place(word)).collect();
        Some(Offer::AcceptAlways { prefix })
    }

    pub(super) fn file_change(mut self, it: &FileChangeApproval) -> Ask {
        let changes = self.context.patch.map(|patch| patch.changes.as_slice()).unwrap_or_default();
        self.care = bounds::care_for_patch(&self.context, &mut self.cleaner);
        let summary = changes::summary(changes, &mut self.cleaner);
        self.own(Label::Changes, summary);
        let changes = changes::shown(changes, &mut self.cleaner);
        if let Some(root) = &it.grant_root {
            let root = self.cleaner.place(root);
            self.own(Label::Also, format!("grants write to {root} for this session"));
        }
        self.block(Label::Reason, it.reason.as_deref());
        let offers = bounds::verdicts(self.context.inspection.escalation, None);
        if offers.contains(&Offer::AcceptForSession) {
            let named =
                |change: &ShownChange| std::iter::once(change.path.clone()).chain(change.moved_to.clone());
            let files: Vec<String> = changes.iter().flat_map(named).collect();
            self.own(Label::Session, bounds::session_patch(&files));
        }
        let ask = self.finish(Kind::FileChange, "Let Codex change files?", offers);
        Ask { changes, ..ask }
    }

    pub(super) fn permissions(mut self, it: &PermissionsApproval) -> Ask {
        let opens = permissions::opens(&it.permissions);
        let opens = if opens.is_empty() { "nothing".to_owned() } else { opens.join("\n") };
        self.acted_on(Label::Opens, Some(&opens), TextKind::Excerpt);
        self.directory(it.cwd.as_deref());
        self.block(Label::Reason, it.reason.as_deref());
        self.own(Label::Session, bounds::SESSION_PERMISSIONS);
        let offers = vec![Offer::GrantForTurn, Offer::GrantForSession, Offer::Decline];
        self.finish(Kind::Permissions, "Widen Codex's sandbox?", offers)
    }

    pub(super) fn questions(mut self, it: &UserInputRequest) -> Ask {
        let questions = it.questions.iter().enumerate();
        let questions: Vec<_> = questions.map(|(index, question)| self.question(index, question)).collect();
        let title = match questions.len() {
            1 => "Codex asks a question".to_owned(),
            count => format!("Codex asks {count} questions"),
        };
        let ask = self.finish(Kind::Questions, title, vec![Offer::Answer, Offer::Decline]);
        Ask { questions, ..ask }
    }

    fn question(&mut self, index: usize, question: &Question) -> ShownQuestion {
        let options = question.options.as_deref().unwrap_or_default();
        let header = self.cleaner.line(&question.header);
        let text = self.cleaner.block(&question.question, TextKind::Prose);
        ShownQuestion {
            id: question_key(index, &question.id),
            text: if header.is_empty() { text } else { format!("{header}: {text}") },
            options: options
                .iter()
                .map(|option| ShownOption {
                    label: self.cleaner.line(&option.label),
                    description: self.cleaner.line(&option.description),
                })
                .collect(),
            is_free: question.is_other || options.is_empty(),
            is_secret: question.is_secret,
        }
    }
}
