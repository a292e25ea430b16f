//! The choices that a person has, and the meaning of a typed answer. Pure: reads no keyboard, writes to no screen.

use std::collections::BTreeMap;

use codex_session::Decision;

use crate::cli::render::paint::Paint;
use crate::cli::render::request::letter;
use crate::cli::render::width::wrap;
use crate::view::Question;
use crate::view::Request;

/// Typed instead of an answer, declines the questions.
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
    questions: Vec<Question>,
    answers: BTreeMap<String, Vec<String>>,
}

impl Dialog {
    /// A dialog without answers.
    pub fn new(request: Request) -> Self {
        Self { questions: request.questions.clone(), request, answers: BTreeMap::new() }
    }

    /// The next question, with its index.
    fn next(&self) -> Option<(usize, &Question)> {
        self.questions.iter().enumerate().find(|(_, question)| !self.answers.contains_key(&question.id))
    }

    /// Whether the next answer must be hidden while it is typed.
    pub fn is_secret(&self) -> bool {
        self.next().is_some_and(|(_, question)| question.is_secret)
    }

    /// The lines that say what can be typed, and the prompt.
    pub fn prompt(&self, paint: Paint, columns: usize) -> (Vec<String>, String) {
        let Some((index, question)) = self.next() else {
            return (choices(&self.offers(), paint, columns), "> ".to_owned());
        };
        let input = match (question.options.is_empty(), question.is_free) {
            (true, _) => "in your own words",
            (false, true) => "a letter, or your own words",
            (false, false) => "a letter",
        };
        let hint = format!("{input}; {DECLINE} declines, Ctrl-C leaves");
        let lines = wrap(&hint, columns.saturating_sub(2))
            .iter()
            .map(|line| format!("  {}", paint.faint(line)))
            .collect();
        let number = if self.questions.len() > 1 { format!("{} ", index + 1) } else { String::new() };
        (lines, format!("{number}> "))
    }

    /// Interprets a typed line.
    pub fn answer(&mut self, typed: &str) -> TypedAnswer {
        let typed = typed.trim();
        let Some((_, question)) = self.next() else { return self.decide(typed) };
        if typed == DECLINE {
            return TypedAnswer::Decide(Decision::Decline);
        }
        let Some(answer) = choose(question, typed) else {
            return TypedAnswer::Invalid("type the letter of one of the choices".to_owned());
        };
        let id = question.id.clone();
        self.answers.insert(id, vec![answer]);
        if self.next().is_some() {
            TypedAnswer::Next
        } else {
            TypedAnswer::Decide(Decision::Answers(self.answers.clone()))
        }
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
        let offered = |decision: &str| self.request.decisions.iter().any(|allowed| allowed == decision);
        let known = [
            ("accept", "y", "yes, once", Decision::Accept),
            ("acceptForSession", "s", "yes, for this session", Decision::AcceptForSession),
            ("acceptAlways", "a", "yes, always, in every thread", Decision::AcceptAlways),
            ("decline", "n", "no", Decision::Decline),
            ("cancel", "c", "no, and end the turn", Decision::Cancel),
        ];
        let offers = known.into_iter().filter(|(word, ..)| offered(word));
        let offers = offers.map(|(_, key, label, decision)| Offer {
            key,
            label,
            answer: TypedAnswer::Decide(decision),
        });
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
