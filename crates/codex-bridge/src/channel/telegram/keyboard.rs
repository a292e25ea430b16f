//! The buttons below a request. The data of a button is the full id of the request, which is random, and the beginning of
//! the digest of the text above the button. The bridge binds the id to a task, a conversation and its approvers. Pure.

use codex_bridge_core::chats::Choice;
use codex_bridge_core::inbox::answer;
use codex_bridge_core::request::{Button, RequestName};
use codex_session::Decision;
use codex_session::ask::Offer;
use serde_json::{Value, json};

use crate::channel::text::ShownRequest;

/// How the data of each button begins.
const APPROVE: &str = "a:";
const FOR_SESSION: &str = "s:";
const DENY: &str = "d:";
const OPTION: &str = "q:";
/// A question with more options has no buttons, and is answered in words.
const MAX_OPTIONS: usize = 10;
/// The longest label of a button, in characters.
const WORDS: usize = 40;

/// The buttons of these requests: one row per request, or one row per option of a question.
pub fn buttons(shown: &[ShownRequest<'_>]) -> Value {
    shown.iter().flat_map(|one| rows(*one, shown.len() > 1)).collect()
}

fn rows(shown: ShownRequest<'_>, is_one_of_many: bool) -> Vec<Value> {
    let (asked, id) = (shown.asked, shown.asked.request_id.short());
    let name = asked.name();
    let button = |start: &str, word: &str, end: &str| {
        let text = if is_one_of_many { format!("{word} {id}") } else { word.to_owned() };
        json!({ "text": text, "callback_data": format!("{start}{name}{end}") })
    };
    if asked.is_question() {
        let options = answer::options(&asked.ask);
        let options = if options.len() > MAX_OPTIONS || !shown.is_whole { Vec::new() } else { options };
        let words = options.iter().map(|label| label.chars().take(WORDS).collect::<String>());
        let row = |(number, word): (usize, String)| json!([button(OPTION, &word, &format!(":{number}"))]);
        return words.enumerate().map(row).collect();
    }
    let mut row = Vec::new();
    if shown.is_whole {
        row.push(button(APPROVE, "Approve", ""));
        if asked.ask.offers.contains(&Offer::AcceptForSession) {
            row.push(button(FOR_SESSION, "For this session", ""));
        }
    }
    row.push(button(DENY, "Deny", ""));
    vec![row.into()]
}

/// The data of a button.
#[derive(Debug, Clone, PartialEq)]
pub struct ButtonData {
    /// The request and its digest.
    pub button: Button,
    /// The decision, or the chosen option.
    pub choice: Choice,
}

/// Parses the data of a button.
pub fn parse(data: &str) -> Option<ButtonData> {
    let about = |asked: &str, choice: Choice| {
        // Buttons of earlier versions have no digest: they can only decline.
        Some(ButtonData { button: Button::named(asked), choice })
    };
    let of = |start: &str, decision: Decision| about(data.strip_prefix(start)?, decision.into());
    let option = || {
        let (asked, number) = data.strip_prefix(OPTION)?.rsplit_once(':')?;
        about(asked, Choice::Option(number.parse().ok()?))
    };
    of(APPROVE, Decision::Accept)
        .or_else(|| of(FOR_SESSION, Decision::AcceptForSession))
        .or_else(|| of(DENY, Decision::Decline))
        .or_else(option)
}

/// The same buttons without those of a request.
pub fn without(buttons: &Value, request_id: &RequestName) -> Value {
    let is_of = |button: &Value| {
        let data = button["callback_data"].as_str().and_then(parse);
        data.is_some_and(|it| it.button.request_id == *request_id)
    };
    let rows = buttons.as_array().map(Vec::as_slice).unwrap_or_default().iter();
    let rows = rows.map(|row| {
        let row = row.as_array().map(Vec::as_slice).unwrap_or_default().iter();
        row.filter(|button| !is_of(button)).cloned().collect::<Vec<_>>()
    });
    rows.filter(|row| !row.is_empty()).map(Value::from).collect()
}

#[cfg(test)]
mod tests {
    use codex_bridge_core::outbox::Asked;

    use super::*;

    const DIGEST: &str = "0123456789abcdef0123456789abcdef";
    const SHORT: &str = "0123456789abcdef";
    const NAME: &str = "req-12ab34cd12ab34cd12ab34cd12ab34cd";
    /// Telegram's limit for `callback_data`.
    const MAX_BYTES: usize = 64;

    fn asked(id: &str, ask: Value) -> Asked {
        let (digest, ask) = (DIGEST.to_owned(), serde_json::from_value(ask).unwrap());
        Asked { request_id: id.into(), digest, ask, is_long: false, was_shown: false, expires_at: None }
    }

    fn whole(asked: &Asked) -> ShownRequest<'_> {
        ShownRequest { asked, is_whole: true }
    }

    fn data(buttons: &Value) -> Vec<&str> {
        let rows = buttons.as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap());
        rows.map(|button| button["callback_data"].as_str().unwrap()).collect()
    }

    #[test]
    fn every_button_says_what_it_does_and_fits() {
        let offers = json!({"kind": "command", "offers": ["accept", "accept_for_session", "decline"]});
        let asked = asked(NAME, offers);
        let buttons = buttons(&[whole(&asked)]);
        let data = data(&buttons);
        let expected = ["a:", "s:", "d:"].map(|start| format!("{start}{NAME}.{SHORT}"));
        assert_eq!(data, expected);
        assert!(data.iter().all(|data| data.len() <= MAX_BYTES));
        let choices: Vec<Choice> = data.iter().map(|data| parse(data).unwrap().choice).collect();
        let decisions = [Decision::Accept, Decision::AcceptForSession, Decision::Decline];
        assert_eq!(choices, decisions.map(Choice::from));
        assert!(data.iter().all(|data| parse(data).unwrap().button.digest == SHORT));
        assert_eq!(parse("x:1"), None);
        let early = parse("a:req-12ab34cd").unwrap();
        assert_eq!((early.button.request_id.as_str(), early.button.digest.as_str()), ("req-12ab34cd", ""));
    }

    #[test]
    fn what_was_not_shown_whole_can_only_be_denied() {
        let asked = asked("req-1", json!({"kind": "command", "offers": ["accept", "accept_for_session"]}));
        let buttons = buttons(&[ShownRequest { asked: &asked, is_whole: false }]);
        assert_eq!(data(&buttons), [format!("d:req-1.{SHORT}")]);
    }

    #[test]
    fn a_question_is_never_approved_and_its_options_have_buttons() {
        let question =
            |options: Value| json!({"kind": "questions", "questions": [{"id": "c", "options": options}]});
        let free = asked("req-1", question(json!([])));
        assert_eq!(buttons(&[whole(&free)]), json!([]));
        let choice = asked("req-1", question(json!([{"label": "Red"}, {"label": "Blue"}])));
        let buttons = buttons(&[whole(&choice)]);
        assert_eq!(data(&buttons), ["0", "1"].map(|number| format!("q:req-1.{SHORT}:{number}")));
        assert_eq!(buttons[1][0]["text"], "Blue");
        let blue = parse(data(&buttons)[1]).unwrap();
        assert_eq!((blue.button.request_id.as_str(), blue.choice), ("req-1", Choice::Option(1)));
        assert_eq!(without(&buttons, &"req-1".into()), json!([]));
        let most = asked(NAME, question(vec![json!({"label": "x"}); MAX_OPTIONS].into()));
        let buttons = super::buttons(&[whole(&most)]);
        assert_eq!(data(&buttons).len(), MAX_OPTIONS);
        assert!(data(&buttons).iter().all(|data| data.len() <= MAX_BYTES), "{buttons}");
    }

    #[test]
    fn what_is_decided_loses_its_buttons_and_the_others_keep_theirs() {
        let (one, two) = (asked(NAME, json!({})), asked("req-2", json!({})));
        let both = buttons(&[whole(&one), whole(&two)]);
        assert_eq!(both[0][0]["text"], "Approve req-12ab34cd12ab", "people read the short name");
        let one = without(&both, &NAME.into());
        assert_eq!(
            (one.as_array().unwrap().len(), &one[0][0]["callback_data"]),
            (1, &json!(format!("a:req-2.{SHORT}")))
        );
        assert_eq!(without(&one, &"req-2".into()), json!([]));
    }
}
