//! What a shell would run of a command, by a parser that is not ours.

use std::io::Cursor;

use brush_parser::ast::{self, Command, CommandPrefixOrSuffixItem as Item, Word};
use brush_parser::word::{self, WordPiece, WordPieceWithSource};
use brush_parser::{Parser, ParserOptions};

use super::is_same_but_for_marks;

/// How deep commands within commands are looked at.
const MOST_DEPTH: usize = 6;

pub fn is_readable(command: &str) -> bool {
    parse(command).is_some()
}

fn parse(command: &str) -> Option<ast::Program> {
    Parser::new(Cursor::new(command), &ParserOptions::default()).parse_program().ok()
}

/// Whether two commands are the same to a shell, but for letters inside of words that are no names.
pub fn compare(command: &str, other: &str) -> Result<(), String> {
    compare_at(command, other, MOST_DEPTH)
}

fn compare_at(command: &str, other: &str, depth: usize) -> Result<(), String> {
    let Some(depth) = depth.checked_sub(1) else { return Ok(()) };
    let (program, other_program) = match (parse(command), parse(other)) {
        (Some(program), Some(other)) => (program, other),
        (None, None) => return Ok(()),
        _ => return Err(format!("one of the two is no command: {command} / {other}")),
    };
    if !is_same_but_for_marks(&format!("{program:?}"), &format!("{other_program:?}")) {
        return Err(format!("another structure: {command} / {other}"));
    }
    let (parts, other_parts) = (Parts::of(&program), Parts::of(&other_program));
    if parts.exact != other_parts.exact {
        return Err(format!("names are hidden: {:?} / {:?}", parts.exact, other_parts.exact));
    }
    for (word, other) in parts.words.iter().zip(&other_parts.words) {
        let (commands, other) = (commands_in(word), commands_in(other));
        if commands.len() != other.len() {
            return Err(format!("other commands inside of {word}"));
        }
        for (command, other) in commands.iter().zip(&other) {
            compare_at(command, other, depth)?;
        }
    }
    for (text, other) in parts.evaluated.iter().zip(&other_parts.evaluated) {
        compare_at(text, other, depth)?;
    }
    Ok(())
}

/// The words of a program by what a shell does with them.
#[derive(Default)]
struct Parts {
    /// Names of programs, targets of redirections and names of variables: no letter of them may be hidden.
    exact: Vec<String>,
    /// Every word, for the commands inside of it.
    words: Vec<String>,
    /// Arguments that are commands of their own: behind `-c` and `eval`, and what `sh` reads.
    evaluated: Vec<String>,
}

impl Parts {
    fn of(program: &ast::Program) -> Self {
        let mut parts = Self::default();
        program.complete_commands.iter().for_each(|list| parts.list(list));
        parts
    }

    fn list(&mut self, list: &ast::CompoundList) {
        for ast::CompoundListItem(list, _) in &list.0 {
            self.pipeline(&list.first);
            for next in &list.additional {
                match next {
                    ast::AndOr::And(pipeline) | ast::AndOr::Or(pipeline) => self.pipeline(pipeline),
                }
            }
        }
    }

    fn pipeline(&mut self, pipeline: &ast::Pipeline) {
        for command in &pipeline.seq {
            match command {
                Command::Simple(command) => self.simple(command),
                Command::Compound(command, redirects) => {
                    self.compound(command);
                    redirects
                        .iter()
                        .flat_map(|list| &list.0)
                        .for_each(|redirect| self.redirect(redirect, false));
                }
                Command::Function(_) | Command::ExtendedTest(..) => {}
            }
        }
    }

    fn compound(&mut self, command: &ast::CompoundCommand) {
        use ast::CompoundCommand as Compound;
        match command {
            Compound::BraceGroup(group) => self.list(&group.list),
            Compound::Subshell(shell) => self.list(&shell.list),
            Compound::ForClause(clause) => {
                self.exact.push(clause.variable_name.clone());
                clause.values.iter().flatten().for_each(|word| self.word(word));
                self.list(&clause.body.list);
            }
            Compound::IfClause(clause) => {
                self.list(&clause.condition);
                self.list(&clause.then);
            }
            _ => {}
        }
    }

    fn simple(&mut self, command: &ast::SimpleCommand) {
        let name = command.word_or_name.as_ref();
        if let Some(word) = name {
            self.exact.push(word.value.clone());
            self.word(word);
        }
        let is_shell = name.is_some_and(|name| matches!(name.value.as_str(), "sh" | "bash"));
        let is_eval = name.is_some_and(|name| name.value == "eval");
        let mut is_next_evaluated = false;
        let mut joined = Vec::new();
        let items = command.prefix.iter().flat_map(|prefix| &prefix.0);
        for item in items.chain(command.suffix.iter().flat_map(|suffix| &suffix.0)) {
            match item {
                Item::IoRedirect(redirect) => self.redirect(redirect, is_shell),
                Item::AssignmentWord(assignment, word) => {
                    self.exact.push(assignment.name.to_string());
                    self.word(word);
                }
                Item::ProcessSubstitution(_, shell) => self.list(&shell.list),
                Item::Word(word) => {
                    self.word(word);
                    if is_next_evaluated {
                        self.evaluated.push(without_quotes(&word.value));
                    }
                    joined.push(without_quotes(&word.value));
                    is_next_evaluated = is_shell && matches!(word.value.as_str(), "-c" | "-lc");
                }
            }
        }
        if is_eval {
            self.evaluated.push(joined.join(" "));
        }
    }

    fn redirect(&mut self, redirect: &ast::IoRedirect, is_shell: bool) {
        match redirect {
            ast::IoRedirect::File(_, _, ast::IoFileRedirectTarget::Filename(word)) => {
                self.exact.push(word.value.clone());
                self.word(word);
            }
            ast::IoRedirect::File(_, _, ast::IoFileRedirectTarget::ProcessSubstitution(_, shell)) => {
                self.list(&shell.list);
            }
            ast::IoRedirect::HereDocument(_, here) => {
                self.word(&here.doc);
                if is_shell {
                    self.evaluated.push(here.doc.value.clone());
                }
            }
            ast::IoRedirect::HereString(_, word) | ast::IoRedirect::OutputAndError(word, _) => {
                self.word(word);
            }
            ast::IoRedirect::File(..) => {}
        }
    }

    fn word(&mut self, word: &Word) {
        self.words.push(word.value.clone());
    }
}

/// The commands that a shell runs to know what a word is.
fn commands_in(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let pieces = word::parse(text, &ParserOptions::default()).unwrap_or_default();
    gather(&pieces, &mut commands);
    commands
}

fn gather(pieces: &[WordPieceWithSource], commands: &mut Vec<String>) {
    for piece in pieces {
        match &piece.piece {
            WordPiece::CommandSubstitution(command) | WordPiece::BackquotedCommandSubstitution(command) => {
                commands.push(command.clone());
            }
            WordPiece::DoubleQuotedSequence(pieces) | WordPiece::GettextDoubleQuotedSequence(pieces) => {
                gather(pieces, commands);
            }
            // what stands in these is only text to the parser: whole words are compared, so nothing of it may be hidden
            WordPiece::ParameterExpansion(expansion) => commands.push(format!("echo {expansion:?}")),
            WordPiece::ArithmeticExpression(expression) => commands.push(format!("echo {expression:?}")),
            _ => {}
        }
    }
}

/// What a program gets of a word, as far as that can be told without running it.
fn without_quotes(word: &str) -> String {
    let pieces = word::parse(word, &ParserOptions::default()).unwrap_or_default();
    let mut text = String::new();
    for piece in pieces {
        match piece.piece {
            WordPiece::Text(part) | WordPiece::SingleQuotedText(part) => text.push_str(&part),
            WordPiece::EscapeSequence(part) => text.push_str(part.trim_start_matches('\\')),
            _ => text.push_str(&word[piece.start_index..piece.end_index]),
        }
    }
    text.trim_matches('"').to_owned()
}
