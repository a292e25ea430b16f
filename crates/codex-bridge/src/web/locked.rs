//! Pages between the cookie and a change: a tab that has logged in takes its secret with it, and one that has not is asked
//! for the token before what its form says is done.

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;

use super::frame::{Frame, page as drawn};
use super::words;

/// What a form shows who it is by; neither is shown again.
const PROOFS: [&str; 2] = ["tab", "token"];

#[derive(Template)]
#[template(path = "entered.html")]
struct Entered {
    frame: Frame,
    tab: String,
}

/// Somebody has logged in: the script puts the secret of the tab where only this tab has it, and goes on.
pub fn entered(tab: String) -> Response {
    super::shield(drawn(StatusCode::OK, &Entered { frame: Frame::bare("entered", "Logged in"), tab }))
}

#[derive(Template)]
#[template(path = "locked.html")]
struct Locked<'a> {
    frame: Frame,
    path: &'a str,
    /// What would be done, in the words of the button.
    what: &'static str,
    /// All that the form says.
    fields: Vec<&'a (String, String)>,
    has_failed: bool,
}

/// A form that came without the secret of its tab: all of it again, and a field for the token.
pub fn page(path: &str, fields: &[(String, String)], has_failed: bool) -> Response {
    let is_told = |field: &&(String, String)| !PROOFS.contains(&field.0.as_str());
    let locked = Locked {
        frame: Frame::bare("locked", "Your token, please"),
        what: what(path, fields),
        // A path that a browser would take for another host's.
        path: if path.starts_with("//") { "/" } else { path },
        fields: fields.iter().filter(is_told).collect(),
        has_failed,
    };
    super::shield(drawn(StatusCode::FORBIDDEN, &locked))
}

fn what(path: &str, fields: &[(String, String)]) -> &'static str {
    let decision = fields.iter().find(|(name, _)| name == "decision").map(|(_, text)| text.as_str());
    match (path.rsplit('/').next().unwrap_or_default(), decision) {
        (_, Some("answers" | "form")) => "Send the answer",
        (_, Some(decision)) => words::button(decision).map_or("Decide", |button| button.words),
        ("tasks", _) => "Hand over the task",
        ("steer", _) => "Steer",
        ("interrupt", _) => "Interrupt",
        ("continue", _) => "Continue",
        ("fork", _) => "Fork",
        ("retry", _) => "Try again",
        _ => "Send it",
    }
}
