//! Reads chat texts as answers to what Codex asks, and explains how to write them. Pure.

use std::collections::BTreeMap;

use codex_session::ask::{Kind, ShownField, quoted_unless_word};
use codex_session::{Ask, Decision};
use serde_json::{Map, Value};

use super::form;
use crate::request::RequestName;
use crate::task::TaskId;

/// A request with more questions is answered in words.
const MOST_BY_TAPS: usize = 4;
/// A question with more options is answered in words.
const MOST_OPTIONS: usize = 10;
/// How many characters of questions and options are shown below the first question. Longer ones are answered in words.
const MOST_CHARS_BELOW: usize = 1_000;

/// How to answer a request in a chat. A secret must be answered elsewhere, because a chat stores what is written there.
pub fn how(task_id: &TaskId, request_id: &RequestName, ask: &Ask) -> String {
    let (keys, task_id, request_id) = (keys(ask), task_id.short(), request_id.short());
    if ask.asks_for_secret() {
        return format!(
            "The answer to {request_id} is a secret, which is not taken in a chat. Answer on the web page, or on the \
             machine: codex-bridge answer {task_id} {request_id} -"
        );
    }
    if is_form(ask) {
        let rest = if ask.has_defaults() { "; a field that you leave out has its default" } else { "" };
        return format!("/answer {request_id} FIELD=VALUE, a line for each field{rest}");
    }
    match keys.as_slice() {
        [] | [_] => format!("/answer {request_id} YOUR ANSWER"),
        _ => {
            let lines: Vec<String> = keys.iter().map(|key| format!("\n{key}=YOUR ANSWER")).collect();
            format!("/answer {request_id}{}", lines.concat())
        }
    }
}

/// What is wrong with an answer, and how to write it.
pub fn instead(wrong: &str, task_id: &TaskId, request_id: &RequestName, ask: &Ask) -> String {
    let how = how(task_id, request_id, ask);
    if ask.asks_for_secret() { how } else { format!("{wrong} Write:\n{how}") }
}

/// The decision in a text, or how to write it.
pub fn decision(
    task_id: &TaskId,
    request_id: &RequestName,
    ask: &Ask,
    text: &str,
) -> Result<Decision, String> {
    let text = text.trim();
    let keys = keys(ask);
    let wrong = |what: &str| Err(instead(what, task_id, request_id, ask));
    if ask.asks_for_secret() {
        return Err(how(task_id, request_id, ask));
    }
    if text.is_empty() {
        return wrong("The answer is empty.");
    }
    if is_form(ask) {
        let fields: Option<Map<String, Value>> = text.lines().map(|line| field(ask, line)).collect();
        return match fields.map(Value::from) {
            Some(given) => match form::filled(ask, given.clone()) {
                Ok(_) => Ok(Decision::Form(given)),
                Err(told) => wrong(&format!("{told}.")),
            },
            None => wrong("A form needs one FIELD=VALUE per line."),
        };
    }
    match keys.as_slice() {
        [] => {
            let id = request_id.short();
            Err(format!("{id} is not a question. Write /approve {id} or /deny {id}."))
        }
        [only] => {
            let named = text.strip_prefix(*only).and_then(|rest| rest.strip_prefix('='));
            Ok(answers([((*only).to_owned(), named.unwrap_or(text).trim().to_owned())]))
        }
        _ => match keyed(&keys, text) {
            Some(given) if given.len() == keys.len() => Ok(answers(given)),
            _ => wrong("There are several questions, and each needs its answer."),
        },
    }
}

/// The decision for an option of each question. Options count from 0.
pub fn chosen(ask: &Ask, numbers: &[usize]) -> Option<Decision> {
    let choose = |(position, number): (usize, &usize)| {
        let label = options(ask, position).get(*number).copied()?;
        Some((ask.questions[position].id.clone(), label.to_owned()))
    };
    let given: Option<Vec<_>> = numbers.iter().enumerate().map(choose).collect();
    given.filter(|given| !given.is_empty() && given.len() == ask.questions.len()).map(answers)
}

/// The options of a question that a tap can choose. There are none unless every question of the request can be answered by
/// a tap: the questions are asked one after the other.
pub fn options(ask: &Ask, question: usize) -> Vec<&str> {
    let takes_taps = !ask.asks_for_secret()
        && ask.questions.len() <= MOST_BY_TAPS
        && ask.questions.iter().all(|question| (1..=MOST_OPTIONS).contains(&question.options.len()))
        && (ask.questions.len() == 1 || chars_below(ask) <= MOST_CHARS_BELOW);
    let question = ask.questions.get(question).filter(|_| takes_taps);
    question.into_iter().flat_map(|question| &question.options).map(|option| option.label.as_str()).collect()
}

/// How many characters are shown below the first question once it is answered: the answers and the other questions.
fn chars_below(ask: &Ask) -> usize {
    let labels = ask.questions.iter().flat_map(|question| &question.options).map(|option| &option.label);
    let texts = ask.questions.iter().skip(1).map(|question| &question.text);
    labels.chain(texts).map(|text| text.chars().count()).sum()
}

/// The answers to questions, by their keys.
type Answers = BTreeMap<String, Vec<String>>;

fn keys(ask: &Ask) -> Vec<&str> {
    ask.questions.iter().map(|question| question.id.as_str()).collect()
}

fn is_form(ask: &Ask) -> bool {
    ask.kind == Kind::Form
}

fn answers(given: impl IntoIterator<Item = (String, String)>) -> Decision {
    Decision::Answers(given.into_iter().map(|(key, answer)| (key, vec![answer])).collect())
}

/// Reads lines that begin with a key and `=`. Any other line continues the answer above it.
fn keyed(keys: &[&str], text: &str) -> Option<BTreeMap<String, String>> {
    let mut given: BTreeMap<String, String> = BTreeMap::new();
    let mut last: Option<String> = None;
    for line in text.lines() {
        let named = line.split_once('=').map(|(key, rest)| (key.trim(), rest.trim()));
        if let Some((key, rest)) = named.filter(|(key, _)| keys.contains(key)) {
            given.insert(key.to_owned(), rest.to_owned());
            last = Some(key.to_owned());
        } else {
            let above = given.get_mut(last.as_ref()?)?;
            above.push('\n');
            above.push_str(line);
        }
    }
    Some(given)
}

fn field(ask: &Ask, line: &str) -> Option<(String, Value)> {
    let (key, text) = line.split_once('=')?;
    let key = key.trim();
    Some((key.to_owned(), value(ask, key, &[text.trim().to_owned()])))
}

fn value(ask: &Ask, key: &str, texts: &[String]) -> Value {
    ask.field(key)
        .map_or_else(|| form::value(&ShownField::default(), texts), |field| form::value(field, texts))
}

/// The decision as the request takes it: each question has its answer, answers by key become fields of a form, and a form
/// has its defaults. The error says what is wrong.
pub fn as_asked(ask: &Ask, decision: Decision) -> Result<Decision, String> {
    let form = match decision {
        Decision::Answers(given) if is_form(ask) => {
            given.iter().map(|(key, texts)| (key.clone(), value(ask, key, texts))).collect()
        }
        Decision::Answers(given) => return answered(ask, given).map(Decision::Answers),
        Decision::Form(form) => form,
        decision => return Ok(decision),
    };
    form::filled(ask, form).map(Decision::Form)
}

/// Checks that each question has an answer, and that each answer belongs to a question.
fn answered(ask: &Ask, given: Answers) -> Result<Answers, String> {
    let keys = keys(ask);
    if let Some(unknown) = given.keys().find(|key| !keys.contains(&key.as_str())) {
        let keys: Vec<String> = keys.into_iter().map(quoted_unless_word).collect();
        let unknown = quoted_unless_word(unknown);
        return Err(format!("there is no question {unknown}: the questions are {}", keys.join(", ")));
    }
    let is_missing =
        |key: &&str| given.get(*key).is_none_or(|texts| texts.iter().all(|text| text.trim().is_empty()));
    match keys.iter().copied().find(is_missing) {
        Some(missing) => Err(format!("the answer to {missing} is missing")),
        None => Ok(given),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decided(ask: &Ask, text: &str) -> Result<Decision, String> {
        decision(&"codex-1".into(), &"req-1".into(), ask, text)
    }

    fn read(ask: Value) -> Ask {
        serde_json::from_value(ask).unwrap()
    }

    fn ask(ids: &[&str]) -> Ask {
        let one = |id: &&str| json!({"id": id, "options": [{"label": "Red"}, {"label": "Blue"}]});
        read(json!({"kind": "questions", "questions": ids.iter().map(one).collect::<Vec<_>>()}))
    }

    fn check(ask: &Ask, text: &str, expected: &[(&str, &str)]) {
        let expected = answers(expected.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())));
        assert_eq!(decided(ask, text), Ok(expected), "{text:?}");
    }

    #[test]
    fn one_question_takes_the_words_as_they_are() {
        check(&ask(&["colour"]), "a dark = blue", &[("colour", "a dark = blue")]);
        check(&ask(&["colour"]), "colour=blue", &[("colour", "blue")]);
        assert_eq!(chosen(&ask(&["colour"]), &[1]), Some(answers([("colour".into(), "Blue".into())])));
        assert_eq!(chosen(&ask(&["colour"]), &[2]), None);
        assert_eq!(options(&ask(&["colour"]), 0), ["Red", "Blue"]);
    }

    #[test]
    fn answers_by_key_fill_in_a_form() {
        let given =
            |key: &str, texts: &[&str]| (key.to_owned(), texts.iter().map(|&text| text.to_owned()).collect());
        let answers = Decision::Answers([given("n", &["3"]), given("tags", &["a", "b"])].into());
        let form = Decision::Form(json!({"n": 3, "tags": ["a", "b"]}));
        assert_eq!(as_asked(&read(json!({"kind": "form"})), answers.clone()), Ok(form));
        let choices = [json!({"value": "a"})];
        let fields =
            json!([{"name": "n", "type": "string"}, {"name": "tags", "type": "array", "choices": choices}]);
        let told = as_asked(&read(json!({"kind": "form", "fields": fields})), answers).unwrap_err();
        assert_eq!(told, "tags must be a list of these: a");
    }

    #[test]
    fn each_question_has_its_answer_and_each_answer_its_question() {
        let asked = |decision: Decision| as_asked(&ask(&["colour", "size"]), decision);
        let given = |pairs: &[(&str, &str)]| {
            answers(pairs.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())))
        };
        let both = given(&[("colour", "a shade of my own"), ("size", "big")]);
        assert_eq!(asked(both.clone()), Ok(both));
        for without_size in [&[("colour", "Red")][..], &[("colour", "Red"), ("size", " ")]] {
            assert_eq!(asked(given(without_size)), Err("the answer to size is missing".to_owned()));
        }
        let told = asked(given(&[("colour", "Red"), ("shade", "dark")])).unwrap_err();
        assert_eq!(told, "there is no question shade: the questions are colour, size");
        assert_eq!(asked(Decision::Decline), Ok(Decision::Decline));
    }

    #[test]
    fn several_questions_need_their_keys_and_say_so() {
        let both = ask(&["colour", "size"]);
        check(
            &both,
            "colour=red\nsize = big\nand = heavy",
            &[("colour", "red"), ("size", "big\nand = heavy")],
        );
        for wrong in ["red", "colour=red", "shade=red\nsize=big"] {
            let told = decided(&both, wrong).unwrap_err();
            assert!(told.contains("/answer req-1\ncolour=YOUR ANSWER\nsize=YOUR ANSWER"), "{told}");
        }
        assert_eq!((options(&both, 1), options(&both, 2).len()), (vec!["Red", "Blue"], 0));
        let tapped =
            answers([("colour", "Blue"), ("size", "Red")].map(|(key, label)| (key.into(), label.into())));
        assert_eq!(
            (chosen(&both, &[1, 0]), chosen(&both, &[1]), chosen(&both, &[])),
            (Some(tapped), None, None)
        );
        assert!(options(&ask(&["x"; MOST_BY_TAPS + 1]), 0).is_empty(), "that needs words");
    }

    #[test]
    fn a_form_is_filled_in_and_an_approval_is_not_answered() {
        let form = read(json!({"kind": "form", "questions": []}));
        let filled = Decision::Form(json!({"count": 3, "name": "ana"}));
        assert_eq!(decided(&form, "count=3\nname=ana"), Ok(filled));
        assert!(decided(&form, "ana").unwrap_err().contains("FIELD=VALUE"));
        let approval = read(json!({"kind": "command", "questions": []}));
        assert!(decided(&approval, "yes").unwrap_err().contains("/approve req-1"));
    }

    #[test]
    fn a_secret_is_neither_offered_nor_taken_in_a_chat() {
        let secret = json!({"id": "a", "is_secret": true, "options": [{"label": "x"}]});
        let alone = read(json!({"kind": "questions", "questions": [secret]}));
        assert!(options(&alone, 0).is_empty());
        assert_eq!(chosen(&alone, &[0]), None, "a button of our own making");
        let with_another = read(json!({"kind": "questions", "questions": [{"id": "b"}, secret]}));
        for ask in [alone, with_another] {
            let told = decided(&ask, "a=hunter2\nb=x").unwrap_err();
            assert!(
                told.contains("codex-bridge answer codex-1 req-1 -") && !told.contains("/answer"),
                "{told}"
            );
            assert!(!told.contains("hunter2"), "{told}");
        }
    }
}
