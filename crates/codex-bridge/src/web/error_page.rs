//! The error page: the failure, its hint, and a link back.

use askama::Template;
use axum::response::{IntoResponse, Response};

use super::frame::{Frame, page};
use crate::failure::Failure;

/// A failure that becomes a page.
#[derive(Debug)]
pub struct ErrorPage(Failure);

#[derive(Template)]
#[template(path = "error.html")]
struct Page {
    frame: Frame,
    failure: Failure,
    /// Whether certainly nothing was changed.
    is_unchanged: bool,
}

impl Page {
    fn new(failure: Failure) -> Self {
        // A wrong call is refused before anything is changed. Another failure may happen at any time.
        let is_unchanged = failure.code.status().is_client_error();
        Self { frame: Frame::bare("error", "That did not work"), failure, is_unchanged }
    }
}

impl<E: Into<Failure>> From<E> for ErrorPage {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for ErrorPage {
    fn into_response(self) -> Response {
        page(self.0.code.status(), &Page::new(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Code;

    #[test]
    fn the_page_says_that_nothing_was_changed_only_if_that_is_certain() {
        for (code, is_unchanged) in [
            (Code::EmptyPrompt, true),
            (Code::Forbidden, true),
            (Code::NotSteered, true),
            (Code::SteerUnconfirmed, false),
            (Code::Store, false),
            (Code::Undelivered, false),
        ] {
            let page = Page::new(Failure::new(code, "why")).render().unwrap();
            assert_eq!(page.contains("Nothing was changed."), is_unchanged, "{page}");
        }
    }
}
