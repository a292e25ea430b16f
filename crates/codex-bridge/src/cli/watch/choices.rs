//! What a person is asked in place, and what their answer means. Reads no keyboard and writes to no screen.

use std::collections::BTreeMap;

use codex_session::Decision;

use crate::cli::render::paint::Paint;
use crate::cli::render::request::letter;
use crate::cli::render::width::wrap;
use crate::view::Question;
use crate::view::Request;

/// Refuses to answer a question.
const REFUSE: &str = "!decline";

/// What a line that was typed leads to.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// It decides.
    Decide(Decision),
    /// The next question of the same request.
    Next,
    /// It does not say anything that can be acted on: this is what would.
    Again(String),
    /// The person leaves; the task goes on.
    Detach,
}

/// A request that is being put to a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Inquiry {
    /// The request.
    pub request: Request,
    questions: Vec<Question>,
    answers: BTreeMap<String, Vec<String>>,
}

impl Inquiry {
    /// Nothing is answered yet.
    pub fn new(request: Request) -> Self {
        Self { questions: request.questions.clone(), request, answers: BTreeMap::new() }
    }

    /// The question that is next, with its number.
    fn next(&self) -> Option<(usize, &Question)> {
        self.questions.iter().enumerate().find(|(_, question)| !self.answers.contains_key(&question.id))
    }

    /// Whether the next answer must not be seen.
    pub fn is_secret(&self) -> bool {
        self.next().is_some_and(|(_, question)| question.is_secret)
    }

    /// What can be answered, and the prompt to type behind.
    pub fn prompt(&self, paint: Paint, columns: usize) -> (Vec<String>, String) {
        let Some((index, question)) = self.next() else {
            return (choices(&self.offers(), paint, columns), "> ".to_owned());
        };
        let how = match (question.options.is_empty(), question.is_free) {
            (true, _) => "in your own words",
            (false, true) => "a letter, or your own words",
            (false, false) => "a letter",
        };
        let how = format!("{how}; {REFUSE} refuses, Ctrl-C leaves");
        let lines = wrap(&how, columns.saturating_sub(2))
            .iter()
            .map(|line| format!("  {}", paint.faint(line)))
            .collect();
        let number = if self.questions.len() > 1 { format!("{} ", index + 1) } else { String::new() };
        (lines, format!("{number}> "))
    }

    /// Reads what was typed.
    pub fn answer(&mut self, typed: &str) -> Step {
        let typed = typed.trim();
        let Some((_, question)) = self.next() else { return self.decide(typed) };
        if typed == REFUSE {
            return Step::Decide(Decision::Decline);
        }
        let Some(answer) = choose(question, typed) else {
            return Step::Again("type the letter of one of the choices".to_owned());
        };
        let id = question.id.clone();
        self.answers.insert(id, vec![answer]);
        if self.next().is_some() { Step::Next } else { Step::Decide(Decision::Answers(self.answers.clone())) }
    }

    fn decide(&self, typed: &str) -> Step {
        let offers = self.offers();
        let key = match typed.to_ascii_lowercase().as_str() {
            "yes" => "y".to_owned(),
            "no" => "n".to_owned(),
            other => other.to_owned(),
        };
        let keys: Vec<&str> = offers.iter().map(|offer| offer.key).collect();
        let again = Step::Again(format!("type {}", keys.join(", ")));
        offers.into_iter().find(|offer| offer.key == key).map_or(again, |offer| offer.step)
    }

    fn offers(&self) -> Vec<Offer> {
        let offered = |decision: &str| self.request.decisions.iter().any(|it| it == decision);
        let all = [
            ("accept", "y", "yes, once", Decision::Accept),
            ("acceptForSession", "s", "yes, for this session", Decision::AcceptForSession),
            ("acceptAlways", "a", "yes, always, in every thread", Decision::AcceptAlways),
            ("decline", "n", "no", Decision::Decline),
            ("cancel", "c", "no, and end the turn", Decision::Cancel),
        ];
        let offers = all.into_iter().filter(|(word, ..)| offered(word));
        let offers =
            offers.map(|(_, key, words, decision)| Offer { key, words, step: Step::Decide(decision) });
        offers.chain([Offer { key: "d", words: "detach", step: Step::Detach }]).collect()
    }
}

struct Offer {
    key: &'static str,
    words: &'static str,
    step: Step,
}

/// The answer that was typed: a choice by its letter or its words, or one's own words where they will do.
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
    for Offer { key, words, .. } in offers {
        let width = key.len() + words.len() + 5;
        let shown = format!("  {} {words}", paint.busy(&format!("[{key}]")));
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

/// What a person may do who pressed Ctrl-C.
pub fn leaving(paint: Paint, columns: usize) -> (Vec<String>, String) {
    let offer = |key, words| Offer { key, words, step: Step::Detach };
    let offers =
        [offer("i", "interrupt the task"), offer("d", "detach: it goes on"), offer("Enter", "stay here")];
    (choices(&offers, paint, columns), "> ".to_owned())
}

#[cfg(test)]
mod tests;
