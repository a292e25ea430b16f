//! The frame of every page: the title, the navigation, and the logged-in user.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use codex_bridge_core::Caller;
use codex_bridge_core::desk::Verb;
use codex_bridge_core::token::Role;

use super::assets::{ASSETS, Assets};
use crate::failure::Failure;
use crate::http::App;

/// The frame of a page.
pub struct Frame {
    /// The heading.
    pub heading: String,
    /// The name of the page, for the navigation and the script.
    pub page: &'static str,
    /// The number of open requests.
    pub open_requests: u64,
    /// The logged-in user. `None` on the login page.
    pub user: Option<User>,
    /// The URLs of the style sheet and the scripts.
    pub assets: &'static Assets,
}

/// The user of a page.
pub struct User {
    /// The name.
    pub name: String,
    /// The role.
    pub role: Role,
    /// Whether the user may start tasks.
    pub may_operate: bool,
    /// Whether the user is on the socket, where there is no login.
    pub is_local: bool,
}

impl Frame {
    /// The frame of a page for an authenticated caller.
    pub async fn new(app: &App, caller: &Caller, page: &'static str, heading: &str) -> Result<Self, Failure> {
        let open_requests = app.desk.count_open_requests(caller).await?;
        let may_operate = caller.may(Verb::Start).is_ok();
        let user =
            User { name: caller.name.clone(), role: caller.role, may_operate, is_local: caller.is_owner() };
        Ok(Self { open_requests, user: Some(user), ..Self::bare(page, heading) })
    }

    /// The frame of a page without a user.
    pub fn bare(page: &'static str, heading: &str) -> Self {
        Self { heading: heading.to_owned(), page, open_requests: 0, user: None, assets: &ASSETS }
    }

    /// The title of the window. It begins with the number of open requests.
    pub fn title(&self) -> String {
        match self.open_requests {
            0 => format!("{} – codex-bridge", self.heading),
            count => format!("({count}) {} – codex-bridge", self.heading),
        }
    }

    /// Whether the user may start tasks.
    pub fn may_operate(&self) -> bool {
        self.user.as_ref().is_some_and(|user| user.may_operate)
    }
}

/// The response for a template.
pub fn page(status: StatusCode, template: &impl Template) -> Response {
    match template.render() {
        Ok(html) => (status, Html(html)).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
