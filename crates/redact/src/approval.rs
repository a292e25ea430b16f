//! A text as it is shown to the person who approves it.
//!
//! Redaction hides a secret from whoever reads along later. Here the reader must see what will run, so a mark may cover
//! only what cannot run and tells the reader nothing. The rules, each simpler than it need be, so that it is sound:
//!
//! 1. A mark covers one unbroken string of letters, digits and a few signs that no shell acts on at any depth of
//!    quoting. Text with `` $ ` ; | & < > ( ) { } \ ``, quotes, blanks, line breaks, patterns or anything outside ASCII is shown.
//! 2. A mark never covers (a part of) the name of a program or a variable, the target of a redirection, a path or a host, nor
//!    anything where the quotes of a command cannot be followed (`"$(…)"`, here-documents).
//! 3. Where a command runs text that it computes (`eval`, `| sh`, `python -c`, `$X` in the place of a program), or decodes any
//!    (`base64 -d`), nothing is hidden: the value of `T=npm_…` could become a program with `${T%%_*}`.
//! 4. Where a command expands or pipes anything (`` $ ` | < > ( ``), nothing is hidden: a later part could cut a program out of
//!    any string, or decode it (`cut -c5-9 > n; bash n`). So it is in every diff and in the arguments of tools, which others use.
//! 5. Else a *generated* string is hidden, and any value of a name that announces a password: it reaches nothing but the program
//!    that it is for. Not so a word that may be an operand (`dropdb --no-password production`, `tee password=x`), nor a short
//!    `secret` or `token`, which may name what is acted on (`gh secret delete --secret=PROD`).
//!
//! What a rule refuses to hide is shown, unless it is a real credential: one that the program itself knows, a private key, or,
//! where it may travel, a generated string. These go to no chat. They are marked, and [`Shown::is_whole`] says that the text must
//! not be approved by whoever has seen only this.
//!
//! Invisible characters are named in place (`⟨U+200B⟩`) and not taken out: a shell acts on them. So is the bracket of
//! a text that poses as a mark of ours.

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

/// How often a text is looked through again inside of what is shown.
const MOST_DEPTH: usize = 3;

/// What a text is for whoever acts on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matter {
    /// Everything that is acted on at once: a command line.
    Command,
    /// A part of more that is not seen here: a diff, a path, a host, the arguments of a tool.
    Excerpt,
    /// Words for a reader. Nothing acts on them, so all secrets are hidden and invisible characters are taken out.
    Prose,
}

/// A text as it is shown to the person who approves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The text, with `[password, 24 characters]` in the place of what is hidden.
    pub text: String,
    /// How many secrets are hidden.
    pub hidden: usize,
    /// How many are not, because something could act on them.
    pub exposed: usize,
    /// Whether everything that something could act on is there. If not, only who sees the original may approve it.
    pub is_whole: bool,
}

impl Redactor {
    /// Returns `text` for a person who is to approve it: no mark covers what a shell would act on.
    ///
    /// ```
    /// use redact::approval::Matter;
    ///
    /// let redactor = redact::Redactor::knowing(["pass$(word)"]);
    /// let shown = redactor.show_for_approval("DB_PASSWORD=hunter2 psql -c 'select 1'", Matter::Command);
    /// assert_eq!((shown.text.as_str(), shown.hidden), ("DB_PASSWORD=[password, 7 characters] psql -c 'select 1'", 1));
    ///
    /// let shown = redactor.show_for_approval(r#"DB_PASSWORD="a$(touch x)" psql"#, Matter::Command);
    /// assert_eq!((shown.text.as_str(), shown.exposed), (r#"DB_PASSWORD="a$(touch x)" psql"#, 1));
    ///
    /// assert!(!redactor.show_for_approval("login 'pass$(word)'", Matter::Command).is_whole);
    /// ```
    pub fn show_for_approval(&self, text: &str, matter: Matter) -> Shown {
        if matter == Matter::Prose {
            let plain = plain::plain(text);
            return self.shown(&plain, matter);
        }
        self.shown(text, matter)
    }

    fn shown(&self, text: &str, matter: Matter) -> Shown {
        let unwrapped = quotes::unwrapped(text).filter(|_| matter == Matter::Command);
        let command = unwrapped.as_ref().map_or(text, |unwrapped| &unwrapped.command);
        let mut covering = Covering {
            redactor: self,
            text: command,
            matter,
            context: Context::of(command, matter),
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

/// What is done with a secret that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Its mark hides nothing that acts.
    Hide,
    /// It may act, so the reader sees it.
    Show,
    /// It may act, but must not be seen by whoever reads a chat.
    Withhold,
}

struct Covering<'a> {
    redactor: &'a Redactor,
    text: &'a str,
    matter: Matter,
    context: Context<'a>,
    marks: Vec<Span>,
    exposed: usize,
    is_whole: bool,
}

impl Covering<'_> {
    /// Decides on secrets that lie beside or within each other, an outer one before what lies in it.
    fn settle(&mut self, spans: Vec<Span>, depth: usize) {
        let mut rest = spans.into_iter().peekable();
        while let Some(span) = rest.next() {
            let mut inner = Vec::new();
            while let Some(next) = rest.next_if(|next| next.end <= span.end) {
                inner.push(next);
            }
            match self.fate(span) {
                Fate::Hide => self.marks.push(span),
                Fate::Withhold => {
                    self.is_whole = false;
                    self.marks.push(span);
                }
                Fate::Show => {
                    self.exposed += 1;
                    self.look_into(span, &inner, depth);
                    self.settle(inner, depth);
                }
            }
        }
    }

    /// Looks for secrets inside of one that is shown, where nothing was found yet.
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

    fn fate(&self, span: Span) -> Fate {
        let value = &self.text[span.start..span.end];
        let is_forbidden = inert::is_forbidden_to_show(span.kind);
        if self.matter == Matter::Prose {
            return Fate::Hide;
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
            return Fate::Hide;
        }
        let may_travel = is_generated && !may_act;
        if is_forbidden || may_travel { Fate::Withhold } else { Fate::Show }
    }

    /// Moves the marks to where their secrets stand in the command line of the shell.
    fn wrap(&mut self, unwrapped: &Unwrapped) {
        for mark in &mut self.marks {
            let end = unwrapped.origins[mark.end - 1] + 1;
            (mark.start, mark.end) = (unwrapped.origins[mark.start], end);
        }
    }

    fn finish(mut self, whole: &str) -> Shown {
        // what lay in a secret that is shown was settled before what came behind it
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

    /// Text that stays, with everything in it that would deceive the eye named.
    fn push_seen(&self, seen: &str, into: &mut String) {
        let breaks = if self.matter == Matter::Excerpt { Named::LoneReturns } else { Named::AllReturns };
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
