//! `codex-bridge answer`: answers questions and forms, by the keys of the questions or fields.

use std::collections::BTreeMap;
use std::io::{read_to_string, stdin};
use std::process::ExitCode;

use codex_bridge_core::request::DecisionWord;
use codex_session::Decision;
use codex_wire::reason;
use serde_json::Value;

use super::{Globals, decide};
use crate::calls::answers_of;
use crate::failure::{Code, Failure, parser_message};
use crate::view::Request;

#[derive(clap::Args)]
pub struct Args {
    /// The task's id, or a unique beginning of it
    id: String,
    /// The request's id, or a unique beginning of it
    request: String,
    /// The answers. Repeat a key to give several answers; a single question needs no key. A field of a form that is left
    /// out has its default. `-` reads a JSON object from stdin, which keeps secrets out of the process list
    #[arg(value_name = "KEY=ANSWER", required = true)]
    answers: Vec<String>,
}

pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let path = ["tasks", &args.id, "requests", &args.request];
    let request: Request = globals.client()?.get(&path, &()).await?;
    let decision = decision(&request, &args.answers)?;
    decide::approve(globals, &request.task_id, Some(&request.request_id), &decision).await
}

fn decision(request: &Request, arguments: &[String]) -> Result<Decision, Failure> {
    let is_form = request.offers(&DecisionWord::Form);
    if arguments == ["-"] {
        let answers = from_stdin()?;
        return Ok(if is_form { Decision::Form(answers) } else { Decision::Answers(answers_of(&answers)?) });
    }
    let questions = request.questions.iter().map(|question| question.id.as_str());
    let fields = request.fields.iter().map(|field| field.name.as_str());
    let keys: Vec<&str> = questions.chain(fields).collect();
    let mut answers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for argument in arguments {
        let (key, answer) = match (argument.split_once('='), keys.as_slice()) {
            (Some((key, answer)), _) if keys.is_empty() || keys.contains(&key) => (key, answer),
            (_, [only]) => (*only, argument.as_str()),
            _ => return Err(unknown_key(argument, &keys)),
        };
        answers.entry(key.to_owned()).or_default().push(answer.to_owned());
    }
    Ok(Decision::Answers(answers))
}

fn from_stdin() -> Result<Value, Failure> {
    let text = read_to_string(stdin())
        .map_err(|error| Failure::new(Code::Usage, format!("cannot read stdin: {}", reason(&error))))?;
    serde_json::from_str(&text).map_err(|error| {
        Failure::new(
            Code::Usage,
            format!("stdin is not a JSON object: {}", parser_message(&error.to_string())),
        )
        .hint(r#"for example {"q1": "yes"}"#)
    })
}

fn unknown_key(argument: &str, keys: &[&str]) -> Failure {
    let hint = if keys.is_empty() {
        "write answers as KEY=ANSWER".to_owned()
    } else {
        format!("the keys are: {}", keys.join(", "))
    };
    Failure::new(Code::Usage, format!("{argument:?} answers no question of this request")).hint(hint)
}

#[cfg(test)]
mod tests {
    use crate::failure::Code;

    use std::collections::BTreeMap;

    use codex_session::Decision;
    use serde_json::json;

    use super::decision;
    use crate::view::Request;

    fn request(decisions: &[&str], keys: &[&str]) -> Request {
        let questions: Vec<_> = keys.iter().map(|key| json!({"id": key, "text": "?"})).collect();
        serde_json::from_value(json!({
            "task_id": "t", "request_id": "r", "kind": "question", "title": "", "reason": null, "details": [],
            "hidden_secrets": 0, "decisions": decisions, "method": "m", "state": "open", "created_at": "", "questions": questions,
        }))
        .unwrap()
    }

    fn arguments(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn answers_are_gathered_by_key() {
        let request = request(&["answers"], &["a", "b"]);
        let expected =
            BTreeMap::from([("a".into(), vec!["1".into(), "2".into()]), ("b".into(), vec!["x=y".into()])]);
        assert_eq!(decision(&request, &arguments(&["a=1", "b=x=y", "a=2"])), Ok(Decision::Answers(expected)));
        assert_eq!(decision(&request, &arguments(&["c=1"])).unwrap_err().code, Code::Usage);
    }

    #[test]
    fn a_single_question_needs_no_key() {
        let request = request(&["answers"], &["only"]);
        let expected = BTreeMap::from([("only".into(), vec!["1 = 1".into()])]);
        assert_eq!(decision(&request, &arguments(&["1 = 1"])), Ok(Decision::Answers(expected)));
    }

    #[test]
    fn the_bridge_knows_the_types_of_a_forms_fields() {
        let request = request(&["form", "decline"], &[]);
        let expected =
            BTreeMap::from([("zip".into(), vec!["01234".into()]), ("ok".into(), vec!["true".into()])]);
        assert_eq!(
            decision(&request, &arguments(&["zip=01234", "ok=true"])),
            Ok(Decision::Answers(expected))
        );
    }
}
