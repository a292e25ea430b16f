//! Two pages of the login: one gives the tab its secret after a login, the other asks for the token when a form came
//! without the secret.

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;
use codex_bridge_core::request::DecisionWord;

use super::frame::{Frame, page as render};
use super::words;

/// The fields with credentials. The page does not repeat them.
const CREDENTIALS: [&str; 2] = ["tab", "token"];

#[derive(Template)]
#[template(path = "entered.html")]
struct Entered {
    frame: Frame,
    tab: String,
}

/// The page after a login. The script stores the tab's secret and opens the tasks.
pub fn entered(tab: String) -> Response {
    super::with_security_headers(render(
        StatusCode::OK,
        &Entered { frame: Frame::bare("entered", "Logged in"), tab },
    ))
}

#[derive(Template)]
#[template(path = "locked.html")]
struct Locked<'a> {
    frame: Frame,
    path: &'a str,
    /// The label of the button.
    label: &'static str,
    /// The other fields of the form.
    fields: Vec<&'a (String, String)>,
    has_failed: bool,
}

/// Repeats a form that came without the secret of its tab, with a field for the token.
pub fn page(path: &str, fields: &[(String, String)], has_failed: bool) -> Response {
    let is_kept = |field: &&(String, String)| !CREDENTIALS.contains(&field.0.as_str());
    let locked = Locked {
        frame: Frame::bare("locked", "Enter your token"),
        label: label(path, fields),
        // A browser reads `//name` as another host.
        path: if path.starts_with("//") { "/" } else { path },
        fields: fields.iter().filter(is_kept).collect(),
        has_failed,
    };
    super::with_security_headers(render(StatusCode::FORBIDDEN, &locked))
}

fn label(path: &str, fields: &[(String, String)]) -> &'static str {
    let decision =
        fields.iter().find(|(name, _)| name == "decision").map(|(_, text)| DecisionWord::from(text.as_str()));
    match (path.rsplit('/').next().unwrap_or_default(), decision) {
        (_, Some(DecisionWord::Answers | DecisionWord::Form)) => "Send answer",
        (_, Some(decision)) => words::button(&decision).map_or("Decide", |button| button.label),
        ("tasks", _) => "Start task",
        ("steer", _) => "Steer",
        ("interrupt", _) => "Interrupt",
        ("continue", _) => "Continue",
        ("fork", _) => "Fork",
        ("retry", _) => "Retry",
        _ => "Send",
    }
}
