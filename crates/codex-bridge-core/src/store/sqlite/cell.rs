//! How values stand in a cell: JSON and single words as text.

use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use serde::de::value::{Error as WordError, StrDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer};
use serde::{Deserialize, Serialize};

use codex_wire::thread::{TokenCount, TokenUsage};

/// A value that stands as JSON.
#[derive(Debug)]
pub struct Json<T>(pub T);

impl<T: Serialize> ToSql for Json<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        serde_json::to_string(&self.0).map(ToSqlOutput::from).map_err(unwritable)
    }
}

impl<T: DeserializeOwned> FromSql for Json<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        serde_json::from_str(value.as_str()?).map(Json).map_err(FromSqlError::other)
    }
}

/// A value that is one of a few words.
#[derive(Debug)]
pub struct Word<T>(pub T);

impl<T: Serialize> ToSql for Word<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match serde_json::to_value(&self.0).map_err(unwritable)? {
            serde_json::Value::String(word) => Ok(ToSqlOutput::from(word)),
            other => Err(unwritable(format!("{other} is not a word"))),
        }
    }
}

impl<T: DeserializeOwned> FromSql for Word<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let word: StrDeserializer<'_, WordError> = value.as_str()?.into_deserializer();
        T::deserialize(word).map(Word).map_err(FromSqlError::other)
    }
}

fn unwritable(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(why.into())
}

/// [`TokenUsage`] as it is stored. Its own names: the type reads Codex's names and writes others, so that it would
/// not read back what it wrote.
#[derive(Debug, Serialize, Deserialize)]
pub struct StoredUsage {
    last: StoredCount,
    total: StoredCount,
    context_window: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredCount {
    total: u64,
    input: u64,
    cached_input: u64,
    output: u64,
    reasoning_output: u64,
}

impl From<&TokenUsage> for StoredUsage {
    fn from(usage: &TokenUsage) -> Self {
        let TokenUsage { last, total, model_context_window } = usage;
        Self { last: last.into(), total: total.into(), context_window: *model_context_window }
    }
}

impl From<&TokenCount> for StoredCount {
    fn from(count: &TokenCount) -> Self {
        let TokenCount {
            total_tokens: total,
            input_tokens: input,
            cached_input_tokens: cached_input,
            output_tokens: output,
            reasoning_output_tokens: reasoning_output,
        } = *count;
        Self { total, input, cached_input, output, reasoning_output }
    }
}

impl From<StoredUsage> for TokenUsage {
    fn from(stored: StoredUsage) -> Self {
        let StoredUsage { last, total, context_window } = stored;
        Self { last: last.into(), total: total.into(), model_context_window: context_window }
    }
}

impl From<StoredCount> for TokenCount {
    fn from(stored: StoredCount) -> Self {
        let StoredCount { total, input, cached_input, output, reasoning_output } = stored;
        Self {
            total_tokens: total,
            input_tokens: input,
            cached_input_tokens: cached_input,
            output_tokens: output,
            reasoning_output_tokens: reasoning_output,
        }
    }
}
