//! What stands around every page: its title, the way to the other pages, and who looks at it.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use codex_bridge_core::Caller;
use codex_bridge_core::token::Role;

use super::assets::{ASSETS, Assets};
use crate::failure::Failure;
use crate::http::App;

/// What stands around every page.
pub struct Frame {
    /// What the page is about.
    pub heading: String,
    /// Which page, for the way to the others and for the script.
    pub page: &'static str,
    /// How many requests wait for people.
    pub open_requests: u64,
    /// Who looks at it; none on the login page.
    pub who: Option<Who>,
    /// Where the style and the script are.
    pub assets: &'static Assets,
}

/// Who looks at a page.
pub struct Who {
    /// For people.
    pub name: String,
    /// What they may do, in one word.
    pub role: Role,
    /// Whether they came by the socket, and have nothing to log out of.
    pub is_local: bool,
}

impl Frame {
    /// The frame of a page for somebody who was let in.
    pub async fn new(app: &App, caller: &Caller, page: &'static str, heading: &str) -> Result<Self, Failure> {
        let open_requests = app.bridge.store().counts().await?.open_requests;
        let who = Who { name: caller.name.clone(), role: caller.role, is_local: caller.is_owner() };
        Ok(Self { open_requests, who: Some(who), ..Self::bare(page, heading) })
    }

    /// The frame of a page for anybody.
    pub fn bare(page: &'static str, heading: &str) -> Self {
        Self { heading: heading.to_owned(), page, open_requests: 0, who: None, assets: &ASSETS }
    }

    /// The title of the window: it tells from afar that somebody is waited for.
    pub fn title(&self) -> String {
        match self.open_requests {
            0 => format!("{} – codex-bridge", self.heading),
            count => format!("({count}) {} – codex-bridge", self.heading),
        }
    }

    /// Whether whoever looks may hand over work.
    pub fn may_operate(&self) -> bool {
        self.who.as_ref().is_some_and(|who| who.role >= Role::Operator)
    }
}

/// A page as it is sent.
pub fn page(status: StatusCode, template: &impl Template) -> Response {
    match template.render() {
        Ok(html) => (status, Html(html)).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
