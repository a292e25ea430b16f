//! The choices that a person has, and the meaning of a typed answer. Pure: reads no keyboard, writes to no screen.

use std::collections::BTreeMap;

use codex_bridge_core::inbox::form;
use codex_bridge_core::request::DecisionWord;
use codex_session::Decision;
use codex_session::ask::quoted_unless_word;
use serde_json::{Value, json};

use crate::cli::render::paint::Paint;
use crate::cli::render::request::{field, letter};
use crate::cli::render::width::wrap;
use crate::view::{Choice, Field, FieldKind, Question, Request, RequestKind};

/// Typed instead of an answer, declines the questions or the form.
const DECLINE: &str = "!decline";

/// The meaning of a typed line.
#[derive(Debug, Clone, PartialEq)]
pub enum TypedAnswer {
    /// The request is decided.
    Decide(Decision),
    /// The question is answered, and the request has another one.
    Next,
    /// The line is no valid answer; the text says which answers are.
    Invalid(String),
    /// The person detaches; the task continues.
    Detach,
}

/// A request shown at the terminal, with the answers typed so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Dialog {
    /// The request.
    pub request: Request,
    steps: Vec<Step>,
    /// The answers by the keys of the questions or fields; none for a field that was left empty.
    answers: BTreeMap<String, Vec<String>>,
}

/// What one typed line answers.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    Question(Question),
    Field(Field),
}

impl Step {
    fn key(&self) -> &str {
        match self {
            Self::Question(question) => &question.id,
            Self::Field(field) => &field.name,
        }
    }

    /// What can be typed.
    fn hint(&self) -> String {
        match self {
            Self::Question(question) => match (question.options.is_empty(), question.is_free) {
                (true, _) => "in your own words".to_owned(),
                (false, true) => "a letter, or your own words".to_owned(),
                (false, false) => "a letter".to_owned(),
            },
            Self::Field(field) => {
                let input = match field.kind {
                    FieldKind::Array => "letters or values, with commas between them",
                    FieldKind::Boolean => "yes or no",
                    FieldKind::Unfillable => "cannot be filled in",
                    FieldKind::Other => "a value as JSON",
                    _ if !field.choices.is_empty() => "a letter or a value",
                    _ => "a value",
                };
                match (&field.default, field.required) {
                    (Some(default), _) => format!("{input}; Enter takes {default}"),
                    (None, false) => format!("{input}; Enter leaves it out"),
                    (None, true) => input.to_owned(),
                }
            }
        }
    }

    /// The answer in a typed line. The error says which answers are valid.
    fn read(&self, typed: &str) -> Result<Vec<String>, String> {
        match self {
            Self::Question(question) => {
                let answer = choose(question, typed).ok_or("type the letter of one of the choices")?;
                Ok(vec![answer])
            }
            Self::Field(field) => read_field(field, typed),
        }
    }
}

/// The texts for a field; none if it was left empty. The rules are those of the desk.
fn read_field(field: &Field, typed: &str) -> Result<Vec<String>, String> {
    if typed.is_empty() {
        let default = field.default.as_ref().unwrap_or(&Value::Null);
        return form::check(field, default).map(|()| Vec::new());
    }
    let texts = match field.kind {
        FieldKind::Array if !field.choices.iter().any(|choice| choice.value == typed) => {
            typed.split(',').map(|one| chosen(field, one.trim())).collect::<Result<_, _>>()?
        }
        _ => vec![chosen(field, typed)?],
    };
    form::check(field, &form::value(field, &texts)).map(|()| texts)
}

/// The value of the choice that a text means by its letter, value or label; any other text as it is. A server could name one
/// choice with the letter of another, so a text that means several is an error.
fn chosen(field: &Field, typed: &str) -> Result<String, String> {
    let is_meant = |(index, choice): &(usize, &Choice)| {
        choice.value == typed
            || choice.shown().eq_ignore_ascii_case(typed)
            || typed.eq_ignore_ascii_case(&letter(*index).to_string())
    };
    let meant: Vec<&Choice> =
        field.choices.iter().enumerate().filter(is_meant).map(|(_, choice)| choice).collect();
    match meant.as_slice() {
        [] => Ok(typed.to_owned()),
        [choice] => Ok(choice.value.clone()),
        several => {
            let values: Vec<String> =
                several.iter().map(|choice| quoted_unless_word(&choice.value)).collect();
            Err(format!(
                "{typed} can mean {}: use `codex-bridge answer`, which takes values",
                values.join(" and ")
            ))
        }
    }
}

impl Dialog {
    /// A dialog without answers.
    pub fn new(request: Request) -> Self {
        let takes_form = request.offers(&DecisionWord::Form);
        let fields = request.fields.iter().filter(|_| takes_form).cloned().map(Step::Field);
        let steps = request.questions.iter().cloned().map(Step::Question).chain(fields).collect();
        Self { steps, request, answers: BTreeMap::new() }
    }

    /// The next question or field, with its index.
    fn next(&self) -> Option<(usize, &Step)> {
        self.steps.iter().enumerate().find(|(_, step)| !self.answers.contains_key(step.key()))
    }

    /// Whether the next answer must be hidden while it is typed.
    pub fn is_secret(&self) -> bool {
        matches!(self.next(), Some((_, Step::Question(question))) if question.is_secret)
    }

    /// The lines that say what can be typed, and the prompt.
    pub fn prompt(&self, paint: Paint, columns: usize) -> (Vec<String>, String) {
        let Some((index, step)) = self.next() else {
            return (choices(&self.offers(), paint, columns), "> ".to_owned());
        };
        let mut lines = match step {
            Step::Question(_) => Vec::new(),
            Step::Field(field) => self::field(index + 1, field, paint, columns),
        };
        let hint = format!("{}; {DECLINE} declines, Ctrl-C leaves", step.hint());
        let hint = wrap(&hint, columns.saturating_sub(2));
        lines.extend(hint.iter().map(|line| format!("  {}", paint.faint(line))));
        let number = if self.steps.len() > 1 { format!("{} ", index + 1) } else { String::new() };
        (lines, format!("{number}> "))
    }

    /// Interprets a typed line.
    pub fn answer(&mut self, typed: &str) -> TypedAnswer {
        let typed = typed.trim();
        let Some((_, step)) = self.next() else { return self.decide(typed) };
        if typed == DECLINE {
            return TypedAnswer::Decide(Decision::Decline);
        }
        let texts = match step.read(typed) {
            Ok(texts) => texts,
            Err(invalid) => return TypedAnswer::Invalid(invalid),
        };
        let key = step.key().to_owned();
        self.answers.insert(key, texts);
        if self.next().is_some() {
            return TypedAnswer::Next;
        }
        let mut answers = self.answers.clone();
        answers.retain(|_, texts| !texts.is_empty());
        TypedAnswer::Decide(Decision::Answers(answers))
    }

    fn decide(&self, typed: &str) -> TypedAnswer {
        let offers = self.offers();
        let key = match typed.to_ascii_lowercase().as_str() {
            "yes" => "y".to_owned(),
            "no" => "n".to_owned(),
            other => other.to_owned(),
        };
        let keys: Vec<&str> = offers.iter().map(|offer| offer.key).collect();
        let invalid = TypedAnswer::Invalid(format!("type {}", keys.join(", ")));
        offers.into_iter().find(|offer| offer.key == key).map_or(invalid, |offer| offer.answer)
    }

    fn offers(&self) -> Vec<Offer> {
        let is_elicitation = self.request.kind == RequestKind::Elicitation;
        let cancel = if is_elicitation { "neither yes nor no" } else { "no, and end the turn" };
        let known = [
            // A form without fields.
            ("y", "send the form", Decision::Form(json!({}))),
            ("y", "yes, once", Decision::Accept),
            ("s", "yes, for this task", Decision::AcceptForSession),
            ("a", "yes, always, in every thread", Decision::AcceptAlways),
            ("n", "no", Decision::Decline),
            ("c", cancel, Decision::Cancel),
        ];
        let offers = known.into_iter().filter(|(_, _, decision)| self.request.offers(&decision.into()));
        let offers =
            offers.map(|(key, label, decision)| Offer { key, label, answer: TypedAnswer::Decide(decision) });
        offers.chain([Offer { key: "d", label: "detach", answer: TypedAnswer::Detach }]).collect()
    }
}

/// One key that can be typed.
struct Offer {
    key: &'static str,
    label: &'static str,
    answer: TypedAnswer,
}

/// The typed answer: an option by its letter or its label, or free text if the question takes it.
fn choose(question: &Question, typed: &str) -> Option<String> {
    let by_letter = |index: usize| typed.eq_ignore_ascii_case(&letter(index).to_string());
    let chosen = question.options.iter().enumerate();
    let chosen =
        chosen.filter(|(index, choice)| by_letter(*index) || choice.label.eq_ignore_ascii_case(typed));
    let chosen = chosen.map(|(_, choice)| choice.label.clone()).next();
    chosen.or_else(|| (question.is_free && !typed.is_empty()).then(|| typed.to_owned()))
}

fn choices(offers: &[Offer], paint: Paint, columns: usize) -> Vec<String> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for Offer { key, label, .. } in offers {
        let width = key.len() + label.len() + 5;
        let shown = format!("  {} {label}", paint.busy(&format!("[{key}]")));
        match lines.last_mut() {
            Some((used, line)) if *used + width <= columns => {
                *used += width;
                line.push_str(&shown);
            }
            _ => lines.push((width, shown)),
        }
    }
    lines.into_iter().map(|(_, line)| line).collect()
}

/// The choices after Ctrl-C.
pub fn ctrl_c_choices(paint: Paint, columns: usize) -> (Vec<String>, String) {
    let offer = |key, label| Offer { key, label, answer: TypedAnswer::Detach };
    let offers = [
        offer("i", "interrupt the task"),
        offer("d", "detach: the task continues"),
        offer("Enter", "stay here"),
    ];
    (choices(&offers, paint, columns), "> ".to_owned())
}

#[cfg(test)]
mod tests;
