//! The fields of a form as they were sent. Knows no form in particular.

use axum::Form;
use axum::extract::{FromRequest, Request};

use super::wrong::Wrong;
use crate::http::{BODY_MAX_BYTES, problem};

/// The fields of a form, in the order of the page.
#[derive(Debug, Default)]
pub struct Fields(pub Vec<(String, String)>);

impl Fields {
    /// What a field says; none if it is absent or empty.
    pub fn said(&self, name: &str) -> Option<&str> {
        let mut said = self.0.iter().filter(|(field, text)| field == name && !text.trim().is_empty());
        said.next().map(|(_, text)| text.as_str())
    }

    /// Everything that fields of this name say, without empty ones.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let is_said = move |(field, text): &&(String, String)| field == name && !text.trim().is_empty();
        self.0.iter().filter(is_said).map(|(_, text)| text.as_str())
    }
}

impl<S: Send + Sync> FromRequest<S> for Fields {
    type Rejection = Wrong;

    async fn from_request(request: Request, state: &S) -> Result<Self, Wrong> {
        let read = Form::<Vec<(String, String)>>::from_request(request, state).await;
        let Form(mut fields) = read.map_err(|error| problem::bad_form(&error, BODY_MAX_BYTES))?;
        for (_, text) in &mut fields {
            // Browsers send the ends of lines as CR LF, whatever was typed.
            *text = text.replace("\r\n", "\n");
        }
        Ok(Self(fields))
    }
}
