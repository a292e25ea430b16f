//! Values in SQL columns: JSON, single words, and ids as text.

use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use serde::Serialize;
use serde::de::value::{Error as WordError, StrDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer};

use crate::inbox::{ChannelName, ConversationKey, MessageId};
use crate::outbox::DeliveryId;
use crate::request::RequestName;
use crate::task::TaskId;

/// A value stored as JSON.
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

/// A value stored as one word.
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

macro_rules! id_cells {
    ($($id:ident),*) => {
        $(impl ToSql for $id {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                self.0.to_sql()
            }
        }

        impl FromSql for $id {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                String::column_result(value).map(Self)
            }
        })*
    };
}

id_cells!(TaskId, RequestName, DeliveryId, MessageId, ConversationKey, ChannelName);

fn unwritable(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(why.into())
}
