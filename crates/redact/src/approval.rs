//! A text as it is shown to the person who approves it.
//!
//! Redaction hides secrets from later readers. Here the reader must see what will run, so a mark may cover only text
//! that cannot run and does not matter for the decision. The rules are stricter than necessary, so that they are sound:
//!
//! 1. A mark covers one unbroken string of letters, digits and a few signs that no shell acts on at any depth of
//!    quoting. Text with `` $ ` ; | & < > ( ) { } \ ``, quotes, blanks, line breaks, patterns or anything outside ASCII is shown.
//! 2. A mark never covers the name of a program or a variable or a part of it, the target of a redirection, a path or a
//!    host. It covers nothing where the quotes of a command cannot be followed (`"$(…)"`, here-documents).
//! 3. If a command runs computed text (`eval`, `| sh`, `python -c`, `$X` in the place of a program) or decodes text
//!    (`base64 -d`), nothing is hidden: the value of `T=npm_…` could become a program with `${T%%_*}`.
//! 4. If a command expands or pipes anything (`` $ ` | < > ( ``), nothing is hidden: a later part could cut a program
//!    out of any string, or decode it (`cut -c5-9 > n; bash n`). The same holds for diffs and for arguments of tools,
//!    since it is unknown what uses them.
//! 5. Otherwise a *generated* string is hidden, and any value of a name that announces a password: only the program
//!    that it is for gets it. A word that may be an operand is shown (`dropdb --no-password production`, `tee
//!    password=x`), and so is a short `secret` or `token`, which may name an object (`gh secret delete --secret=PROD`).
//!
//! A secret that no rule hides is shown, unless it is a real credential: a value that the program itself knows, a
//! private key, or a generated string in a command that may move it. Such a credential is marked, and
//! [`Shown::is_whole`] is false: the text must not be approved by a person who has seen only this form.
//!
//! Invisible characters are named in place (`⟨U+200B⟩`) and not removed, since a shell acts on them. The bracket of a
//! text that imitates one of our marks is named too.

mod finding;
mod inert;
mod quotes;
mod shell;

use crate::Redactor;
use crate::mark::{BRACKETS, is_look_alike, push_mark};
use crate::plain::{self, Named};
use crate::text::Span;
use quotes::Unwrapped;
use shell::Context;

/// How deep shown texts are searched for secrets inside of them.
const MOST_DEPTH: usize = 3;

/// How a text is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextKind {
    /// A whole command line.
    Command,
    /// A part of a larger whole that is not known here: a diff, a path, a host, the arguments of a tool.
    Excerpt,
    /// Text for readers. Nothing acts on it, so all secrets are hidden and invisible characters are removed.
    Prose,
}

/// A text as it is shown to the person who approves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The text, with `[password, 24 characters]` in the place of what is hidden.
    pub text: String,
    /// How many secrets are hidden.
    pub hidden: usize,
    /// How many secrets are shown, because something could act on them.
    pub exposed: usize,
    /// Whether everything that could be acted on is shown. If not, only a person who sees the original may approve it.
    pub is_whole: bool,
}

impl Redactor {
    /// Returns `text` for a person who is to approve it: no mark covers what a shell would act on.
    ///
    /// ```
    /// use redact::approval::TextKind;
    ///
    /// let redactor = redact::Redactor::knowing(["pass$(word)"]);
    /// let shown = redactor.show_for_approval("DB_PASSWORD=hunter2 psql -c 'select 1'", TextKind::Command);
    /// assert_eq!((shown.text.as_str(), shown.hidden), ("DB_PASSWORD=[password, 7 characters] psql -c 'select 1'", 1));
    ///
    /// let shown = redactor.show_for_approval(r#"DB_PASSWORD="a$(touch x)" psql"#, TextKind::Command);
    /// assert_eq!((shown.text.as_str(), shown.exposed), (r#"DB_PASSWORD="a$(touch x)" psql"#, 1));
    ///
    /// assert!(!redactor.show_for_approval("login 'pass$(word)'", TextKind::Command).is_whole);
    /// ```
    pub fn show_for_approval(&self, text: &str, kind: TextKind) -> Shown {
        if kind == TextKind::Prose {
            let plain = plain::plain(text);
            return self.shown(&plain, kind);
        }
        self.shown(text, kind)
    }

    fn shown(&self, text: &str, kind: TextKind) -> Shown {
        let unwrapped = quotes::unwrapped(text).filter(|_| kind == TextKind::Command);
        let command = unwrapped.as_ref().map_or(text, |unwrapped| &unwrapped.command);
        let mut covering = Covering {
            redactor: self,
            text: command,
            kind,
            context: Context::of(command, kind),
            marks: Vec::new(),
            exposed: 0,
            is_whole: true,
        };
        covering.settle(finding::spans(self, command), MOST_DEPTH);
        if let Some(unwrapped) = &unwrapped {
            covering.wrap(unwrapped);
        }
        covering.finish(text)
    }
}

/// How a secret that was found is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Handling {
    /// Hidden: nothing acts on it.
    Hide,
    /// Shown: something may act on it.
    Show,
    /// Hidden although something may act on it: it must not appear in a chat.
    Withhold,
}

struct Covering<'a> {
    redactor: &'a Redactor,
    text: &'a str,
    kind: TextKind,
    context: Context<'a>,
    marks: Vec<Span>,
    exposed: usize,
    is_whole: bool,
}

impl Covering<'_> {
    /// Decides on secrets that may be nested: an outer one before those inside of it.
    fn settle(&mut self, spans: Vec<Span>, depth: usize) {
        let mut rest = spans.into_iter().peekable();
        while let Some(span) = rest.next() {
            let mut inner = Vec::new();
            while let Some(next) = rest.next_if(|next| next.end <= span.end) {
                inner.push(next);
            }
            match self.handling(span) {
                Handling::Hide => self.marks.push(span),
                Handling::Withhold => {
                    self.is_whole = false;
                    self.marks.push(span);
                }
                Handling::Show => {
                    self.exposed += 1;
                    self.look_into(span, &inner, depth);
                    self.settle(inner, depth);
                }
            }
        }
    }

    /// Searches a shown secret for further secrets inside of it.
    fn look_into(&mut self, span: Span, inner: &[Span], depth: usize) {
        let Some(depth) = depth.checked_sub(1) else { return };
        let mut from = span.start;
        let ends = inner.iter().map(|span| (span.start, span.end)).chain([(span.end, span.end)]);
        for (start, end) in ends {
            if from < start {
                let found = finding::spans(self.redactor, &self.text[from..start]);
                let moved = |span: Span| Span { start: span.start + from, end: span.end + from, ..span };
                let is_less = |found: &Span| (found.start, found.end) != (span.start, span.end);
                self.settle(found.into_iter().map(moved).filter(is_less).collect(), depth);
            }
            from = from.max(end);
        }
    }

    fn handling(&self, span: Span) -> Handling {
        let value = &self.text[span.start..span.end];
        let is_forbidden = inert::is_forbidden_to_show(span.kind);
        if self.kind == TextKind::Prose {
            return Handling::Hide;
        }
        let may_act = self.context.may_be_name(span.start, span.end)
            || self.context.is_in_use_by_shell(span.start)
            || self.context.runs_what_it_computes();
        let is_generated = inert::is_generated(span.kind, value);
        let is_named = || !self.context.may_be_operand(span.start) && inert::is_named_value(span.kind, value);
        let is_hidden = !may_act
            && (inert::is_known_value(span.kind, value)
                || (self.context.moves_nothing() && (is_generated || is_named())));
        if is_hidden {
            return Handling::Hide;
        }
        let may_travel = is_generated && !may_act;
        if is_forbidden || may_travel { Handling::Withhold } else { Handling::Show }
    }

    /// Moves the marks to the positions of their secrets in the command line of the shell.
    fn wrap(&mut self, unwrapped: &Unwrapped) {
        for mark in &mut self.marks {
            let end = unwrapped.origins[mark.end - 1] + 1;
            (mark.start, mark.end) = (unwrapped.origins[mark.start], end);
        }
    }

    fn finish(mut self, whole: &str) -> Shown {
        // nested secrets were settled before later ones
        self.marks.sort_by_key(|mark| mark.start);
        let mut text = String::with_capacity(whole.len() + 32 * self.marks.len());
        let mut at = 0;
        for mark in &self.marks {
            self.push_seen(&whole[at..mark.start], &mut text);
            push_mark(mark.kind, &whole[mark.start..mark.end], &mut text);
            at = mark.end;
        }
        self.push_seen(&whole[at..], &mut text);
        Shown { text, hidden: self.marks.len(), exposed: self.exposed, is_whole: self.is_whole }
    }

    /// Appends text that stays, with deceptive characters named.
    fn push_seen(&self, seen: &str, into: &mut String) {
        let breaks = if self.kind == TextKind::Excerpt { Named::LoneReturns } else { Named::AllReturns };
        let named = plain::with_named(seen, breaks);
        let mut rest = &*named;
        while let Some(at) = rest.find(BRACKETS) {
            into.push_str(&rest[..at]);
            let bracket = rest[at..].chars().next().unwrap_or('[');
            if is_look_alike(&rest[at..]) {
                plain::push_named(bracket, into);
            } else {
                into.push(bracket);
            }
            rest = &rest[at + bracket.len_utf8()..];
        }
        into.push_str(rest);
    }
}

#[cfg(test)]
mod tests;
