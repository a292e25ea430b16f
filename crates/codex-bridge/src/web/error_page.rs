//! The error page: the failure, its hint, and a link back.

use askama::Template;
use axum::response::{IntoResponse, Response};

use super::frame::{Frame, page};
use crate::failure::Failure;

/// A failure that becomes a page.
#[derive(Debug)]
pub struct ErrorPage {
    failure: Failure,
    /// Whether certainly nothing was changed.
    is_unchanged: bool,
}

impl ErrorPage {
    /// A failure after which a part may have been done.
    pub fn partly_done(failure: Failure) -> Self {
        Self { failure, is_unchanged: false }
    }
}

#[derive(Template)]
#[template(path = "error.html")]
struct Page {
    frame: Frame,
    failure: Failure,
    is_unchanged: bool,
}

impl<E: Into<Failure>> From<E> for ErrorPage {
    fn from(error: E) -> Self {
        let failure = error.into();
        // A wrong call is refused before anything is changed. Another failure may happen at any time.
        Self { is_unchanged: failure.code.status().is_client_error(), failure }
    }
}

impl IntoResponse for ErrorPage {
    fn into_response(self) -> Response {
        let Self { failure, is_unchanged } = self;
        let status = failure.code.status();
        page(status, &Page { frame: Frame::bare("error", "That did not work"), failure, is_unchanged })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Code;

    fn rendered(error: ErrorPage) -> String {
        let ErrorPage { failure, is_unchanged } = error;
        Page { frame: Frame::bare("error", "That did not work"), failure, is_unchanged }.render().unwrap()
    }

    #[test]
    fn the_page_says_that_nothing_was_changed_only_if_that_is_certain() {
        let unchanged = "Nothing was changed.";
        assert!(rendered(Failure::new(Code::EmptyPrompt, "the prompt is empty").into()).contains(unchanged));
        assert!(rendered(Failure::new(Code::Forbidden, "no").into()).contains(unchanged));
        assert!(!rendered(Failure::new(Code::Store, "broken").into()).contains(unchanged));
        assert!(!rendered(Failure::new(Code::Undelivered, "gone").into()).contains(unchanged));
        assert!(
            !rendered(ErrorPage::partly_done(Failure::new(Code::Refused, "too long"))).contains(unchanged)
        );
    }
}
