//! The script language of prompts: one step a line, or steps parted by ` => `, after `[play]`.
//!
//! ```text
//! Please make a file. [play] note I will look. => exec touch made.txt => say Done.
//! ```
//!
//! | word | step |
//! |---|---|
//! | `say TEXT`, `note TEXT`, `answer TEXT` | a message without phase, as commentary, as the final answer |
//! | `delta TEXT`, `flood N` | a piece of an open message; N quick deltas |
//! | `think TEXT` | reasoning with a summary |
//! | `exec COMMAND`, `escalate COMMAND` | a shell command, also with a wish to leave the sandbox |
//! | `write PATH TEXT` | a patch that adds a file |
//! | `ask QUESTION` | `request_user_input` with yes and no |
//! | `tool NAME JSON`, `mcp SERVER TOOL JSON` | a function tool, an MCP tool |
//! | `stall NAME` | waits for a release |
//! | `usage INPUT CACHED OUTPUT REASONING` | the token counts of the response |
//! | `http STATUS`, `fail CODE`, `cut`, `end` | the response ends badly |
//!
//! After a call, the next step waits for its output; `and` before a step keeps it in the same response:
//! `exec one => and exec two`.

use serde_json::{Value, json};

use super::{INLINE_MARKER, Phase, Question, Response, Scenario, ToolCall, Usage};

/// Why an inline script could not be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("unknown word in the inline script: {0}")]
    UnknownWord(String),
    #[error("the inline script lacks {0}")]
    MissingArgument(&'static str),
    #[error("not a number in the inline script: {0}")]
    BadNumber(String),
    #[error("not JSON in the inline script: {0}")]
    BadJson(String),
}

impl Scenario {
    /// The scenario that a prompt carries in itself, if it carries one.
    ///
    /// ```
    /// use scripted_model::Scenario;
    ///
    /// let inline = Scenario::from_prompt("Go. [play] exec ls => say Done.").unwrap().unwrap();
    /// assert_eq!(inline, Scenario::new().exec("ls").then_say("Done."));
    /// assert_eq!(Scenario::from_prompt("an ordinary prompt"), Ok(None));
    /// ```
    pub fn from_prompt(prompt: &str) -> Result<Option<Self>, Error> {
        let Some((_, script)) = prompt.split_once(INLINE_MARKER) else { return Ok(None) };
        let mut steps =
            script.lines().flat_map(|line| line.split(" => ")).map(str::trim).filter(|s| !s.is_empty());
        steps.try_fold(Self::new(), add_step).map(Some)
    }
}

fn add_step(scenario: Scenario, step: &str) -> Result<Scenario, Error> {
    let (word, rest) = first_word(step);
    if word == "and" {
        let (word, rest) = first_word(rest);
        return add_word(scenario, word, rest);
    }
    add_word(scenario.then(), word, rest)
}

fn add_word(scenario: Scenario, word: &str, rest: &str) -> Result<Scenario, Error> {
    Ok(match word {
        "say" => scenario.say(rest),
        "note" => scenario.say_as(Phase::Commentary, rest),
        "answer" => scenario.say_as(Phase::FinalAnswer, rest),
        "delta" => scenario.delta(rest),
        "flood" => scenario.flood(number(rest)?, "word "),
        "think" => scenario.reason(rest),
        "exec" => scenario.exec(rest),
        "escalate" => scenario.call(ToolCall::exec_escalated(rest, "the script asks for it")),
        "write" => {
            let (path, text) = first_word(rest);
            scenario.call(ToolCall::add_file(path, text))
        }
        "ask" => scenario.call(ToolCall::request_user_input(&[Question::yes_no("answer", rest)])),
        "tool" => {
            let (name, arguments) = first_word(rest);
            scenario.call(ToolCall::function(name, json_argument(arguments)?))
        }
        "mcp" => {
            let (server, rest) = first_word(rest);
            let (tool, arguments) = first_word(rest);
            scenario.call(ToolCall::mcp(server, tool, json_argument(arguments)?))
        }
        "stall" => scenario.stall(rest),
        "usage" => scenario.usage(usage(rest)?),
        "http" => {
            let body = json!({"error": {"message": "scripted failure"}});
            scenario.respond(Response::http(number(rest)?, body))
        }
        "fail" => scenario.fail(rest, "scripted failure"),
        "cut" => scenario.cut(),
        "end" => scenario.end_early(),
        unknown => return Err(Error::UnknownWord(unknown.to_owned())),
    })
}

fn first_word(text: &str) -> (&str, &str) {
    text.split_once(char::is_whitespace).map_or((text, ""), |(word, rest)| (word, rest.trim_start()))
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, Error> {
    text.trim().parse().map_err(|_| Error::BadNumber(text.to_owned()))
}

fn json_argument(text: &str) -> Result<Value, Error> {
    if text.is_empty() {
        return Ok(json!({}));
    }
    serde_json::from_str(text).map_err(|_| Error::BadJson(text.to_owned()))
}

fn usage(text: &str) -> Result<Usage, Error> {
    let mut counts = text.split_whitespace().map(number);
    let mut next = || counts.next().unwrap_or(Err(Error::MissingArgument("one of the four token counts")));
    Ok(Usage { input: next()?, cached: next()?, output: next()?, reasoning: next()? })
}
