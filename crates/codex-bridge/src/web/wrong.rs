//! What did not work, as a page: what is wrong, what to do about it, and the way back.

use askama::Template;
use axum::response::{IntoResponse, Response};

use super::frame::{Frame, page};
use crate::failure::Failure;

/// A failure on its way to a person.
#[derive(Debug)]
pub struct Wrong {
    failure: Failure,
    /// Whether what was wanted was surely not begun.
    is_untouched: bool,
}

impl Wrong {
    /// Something that failed when a part of it may have been done.
    pub fn half_done(failure: Failure) -> Self {
        Self { failure, is_untouched: false }
    }
}

#[derive(Template)]
#[template(path = "wrong.html")]
struct Page {
    frame: Frame,
    failure: Failure,
    is_untouched: bool,
}

impl<E: Into<Failure>> From<E> for Wrong {
    fn from(error: E) -> Self {
        let failure = error.into();
        // What the caller got wrong is refused before it is begun; what we got wrong may have come at any time.
        Self { is_untouched: failure.code.status().is_client_error(), failure }
    }
}

impl IntoResponse for Wrong {
    fn into_response(self) -> Response {
        let Self { failure, is_untouched } = self;
        let status = failure.code.status();
        page(status, &Page { frame: Frame::bare("wrong", "That did not work"), failure, is_untouched })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Code;

    fn shown(wrong: Wrong) -> String {
        let Wrong { failure, is_untouched } = wrong;
        Page { frame: Frame::bare("wrong", "That did not work"), failure, is_untouched }.render().unwrap()
    }

    #[test]
    fn that_nothing_was_changed_is_said_only_where_it_is_sure() {
        let sure = "Nothing was changed.";
        assert!(shown(Failure::new(Code::EmptyPrompt, "the prompt is empty").into()).contains(sure));
        assert!(shown(Failure::new(Code::Forbidden, "no").into()).contains(sure));
        assert!(!shown(Failure::new(Code::Store, "broken").into()).contains(sure));
        assert!(!shown(Failure::new(Code::Undelivered, "gone").into()).contains(sure));
        assert!(!shown(Wrong::half_done(Failure::new(Code::Refused, "too long"))).contains(sure));
    }
}
