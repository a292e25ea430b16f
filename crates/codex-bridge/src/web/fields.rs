//! The fields of any submitted form.

use axum::Form;
use axum::extract::{FromRequest, Request};

use super::error_page::ErrorPage;
use crate::http::{BODY_MAX_BYTES, problem};

/// The fields of a form, in the order of the page.
#[derive(Debug, Default)]
pub struct Fields(pub Vec<(String, String)>);

impl Fields {
    /// The value of a field. `None` if it is absent or empty.
    pub fn value<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.values(name).next()
    }

    /// The non-empty values of all fields of this name.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let has_value = move |(field, text): &&(String, String)| field == name && !text.trim().is_empty();
        self.0.iter().filter(has_value).map(|(_, text)| text.as_str())
    }
}

impl<S: Send + Sync> FromRequest<S> for Fields {
    type Rejection = ErrorPage;

    async fn from_request(request: Request, state: &S) -> Result<Self, ErrorPage> {
        let read = Form::<Vec<(String, String)>>::from_request(request, state).await;
        let Form(mut fields) = read.map_err(|error| problem::bad_form(&error, BODY_MAX_BYTES))?;
        for (_, text) in &mut fields {
            // Browsers send line ends as CR LF.
            *text = text.replace("\r\n", "\n");
        }
        Ok(Self(fields))
    }
}
