//! `codex-bridge answer`: words for what a task asks, by the keys of its questions.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::ExitCode;

use codex_session::Decision;
use serde_json::{Map, Value};

use super::{Globals, decide};
use crate::calls::answers_of;
use crate::failure::{Code, Failure};
use crate::view::Request;

#[derive(clap::Args)]
pub struct Args {
    /// The task; any unique beginning of its id
    id: String,
    /// The request; any unique beginning of its id
    request: String,
    /// The answers, each as KEY=ANSWER; a key may come again for more than one answer. A single question needs no key.
    /// `-` reads them from stdin as a JSON object, so that a secret shows in no list of processes
    #[arg(required = true, value_name = "KEY=ANSWER")]
    answers: Vec<String>,
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let asked = globals.client()?.request(&args.id, &args.request).await?;
    let decision = decision(&asked, &args.answers)?;
    decide::agree(globals, &asked.task_id, Some(&asked.request_id), &decision).await
}

fn decision(asked: &Request, given: &[String]) -> Result<Decision, Failure> {
    let is_form = asked.decisions.iter().any(|decision| decision == "form");
    if given == ["-"] {
        let answers = from_stdin()?;
        return Ok(if is_form { Decision::Form(answers) } else { Decision::Answers(answers_of(&answers)?) });
    }
    if is_form {
        return Ok(Decision::Form(form(given)?));
    }
    let keys: Vec<&str> = asked.questions.iter().map(|question| question.id.as_str()).collect();
    let mut answers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for given in given {
        let (key, answer) = match (given.split_once('='), keys.as_slice()) {
            (Some((key, answer)), _) if keys.is_empty() || keys.contains(&key) => (key, answer),
            (_, [only]) => (*only, given.as_str()),
            _ => return Err(unknown_key(given, &keys)),
        };
        answers.entry(key.to_owned()).or_default().push(answer.to_owned());
    }
    Ok(Decision::Answers(answers))
}

/// A form's fields: what reads as JSON is taken as such, everything else as text.
fn form(given: &[String]) -> Result<Value, Failure> {
    let mut fields = Map::new();
    for given in given {
        let (key, text) = given.split_once('=').ok_or_else(|| unknown_key(given, &[]))?;
        let value = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
        fields.insert(key.to_owned(), value);
    }
    Ok(Value::Object(fields))
}

fn from_stdin() -> Result<Value, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.map_err(|error| Failure::new(Code::Usage, format!("stdin cannot be read: {error}")))?;
    serde_json::from_str(&text).map_err(|error| {
        Failure::new(Code::Usage, format!("stdin holds no JSON object: {error}"))
            .hint(r#"for example {"q1": "yes"}"#)
    })
}

fn unknown_key(given: &str, keys: &[&str]) -> Failure {
    let hint = if keys.is_empty() {
        "write it as KEY=ANSWER".to_owned()
    } else {
        format!("the keys are: {}", keys.join(", "))
    };
    Failure::new(Code::Usage, format!("{given:?} answers no question of this request")).hint(hint)
}

#[cfg(test)]
mod tests {
    use crate::failure::Code;

    use std::collections::BTreeMap;

    use codex_session::Decision;
    use serde_json::json;

    use super::decision;
    use crate::view::Request;

    fn asked(decisions: &[&str], keys: &[&str]) -> Request {
        let questions: Vec<_> = keys.iter().map(|key| json!({"id": key, "text": "?"})).collect();
        serde_json::from_value(json!({
            "task_id": "t", "request_id": "r", "kind": "question", "title": "", "reason": null, "details": [],
            "hidden_secrets": 0, "decisions": decisions, "method": "m", "state": "open", "created_at": "", "questions": questions,
        }))
        .unwrap()
    }

    fn given(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn answers_are_gathered_by_key() {
        let request = asked(&["answers"], &["a", "b"]);
        let expected =
            BTreeMap::from([("a".into(), vec!["1".into(), "2".into()]), ("b".into(), vec!["x=y".into()])]);
        assert_eq!(decision(&request, &given(&["a=1", "b=x=y", "a=2"])), Ok(Decision::Answers(expected)));
        assert_eq!(decision(&request, &given(&["c=1"])).unwrap_err().code, Code::Usage);
    }

    #[test]
    fn a_single_question_needs_no_key() {
        let request = asked(&["answers"], &["only"]);
        let expected = BTreeMap::from([("only".into(), vec!["1 = 1".into()])]);
        assert_eq!(decision(&request, &given(&["1 = 1"])), Ok(Decision::Answers(expected)));
    }

    #[test]
    fn a_form_has_typed_fields() {
        let request = asked(&["form", "decline"], &[]);
        let expected = json!({"count": 3, "ok": true, "name": "ana"});
        assert_eq!(
            decision(&request, &given(&["count=3", "ok=true", "name=ana"])),
            Ok(Decision::Form(expected))
        );
    }
}
