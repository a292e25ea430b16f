//! The outer part of one line: the kind of the message, its thread and its turn. It is parsed once for every message
//! and borrows from the line. The parameters are parsed only on demand.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::answer::RpcError;
use crate::id::RequestId;

/// One line's routing facts, borrowed from the line.
///
/// ```
/// use codex_wire::envelope::{Envelope, Kind};
///
/// let line = br#"{"method":"turn/started","params":{"threadId":"t1","turn":{"id":"u1"}}}"#;
/// let envelope = Envelope::parse(line).unwrap();
/// assert_eq!(envelope.kind(), Some(Kind::Notification));
/// assert_eq!(envelope.route.thread_id.as_deref(), Some("t1"));
/// assert_eq!(envelope.route.turn_id.as_deref(), Some("u1"));
/// ```
#[derive(Debug, Default)]
pub struct Envelope<'a> {
    /// The method of a request or notification.
    pub method: Option<Cow<'a, str>>,
    /// The id of a request or reply, as it came.
    pub id: Option<RequestId>,
    /// The thread and the turn.
    pub route: Route<'a>,
    /// A reply's result, unparsed.
    pub result: Option<&'a RawValue>,
    /// A reply's error.
    pub error: Option<RpcError>,
}

/// The thread and the turn of a message: the ids in `params`, under any of the keys that methods use.
#[derive(Debug, Default)]
pub struct Route<'a> {
    /// `threadId`, or `conversationId` of the legacy methods, or the id of a `thread` member.
    pub thread_id: Option<Cow<'a, str>>,
    /// `turnId`, or the id of a `turn` member.
    pub turn_id: Option<Cow<'a, str>>,
}

/// The kinds of message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Wants no answer.
    Notification,
    /// Wants an answer from us.
    Request,
    /// Answers a call of ours.
    Reply,
}

impl<'a> Envelope<'a> {
    /// Reads a line. Fails on what is not a JSON object.
    pub fn parse(line: &'a [u8]) -> Result<Self, serde_json::Error> {
        // Checked as a whole, which is faster than text by text.
        let line = std::str::from_utf8(line).map_err(serde::de::Error::custom)?;
        serde_json::from_str(line)
    }

    /// The kind, if it is a message of the protocol.
    pub fn kind(&self) -> Option<Kind> {
        match (&self.method, &self.id) {
            (Some(_), Some(_)) => Some(Kind::Request),
            (Some(_), None) => Some(Kind::Notification),
            (None, Some(_)) if self.result.is_some() || self.error.is_some() => Some(Kind::Reply),
            (None, _) => None,
        }
    }
}

/// A string that borrows from the line when it has no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// An id: a text, or the `id` of a nested `turn` or `thread`. Any other value is `None`.
struct IdOf<'a>(Option<Cow<'a, str>>);

impl<'de: 'a, 'a> Deserialize<'de> for Envelope<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EnvelopeVisitor)
    }
}

struct EnvelopeVisitor;

impl<'de> Visitor<'de> for EnvelopeVisitor {
    type Value = Envelope<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Envelope<'de>, A::Error> {
        let mut envelope = Envelope::default();
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match &*key.0 {
                "method" => envelope.method = Some(map.next_value::<Text<'de>>()?.0),
                "id" => envelope.id = map.next_value::<Option<RequestId>>()?,
                "params" => envelope.route = map.next_value()?,
                "result" => envelope.result = Some(map.next_value()?),
                "error" => envelope.error = map.next_value::<Option<&RawValue>>()?.map(read_error),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(envelope)
    }
}

/// An error of an unknown shape still fails its call; otherwise the caller would wait for ever.
fn read_error(raw: &RawValue) -> RpcError {
    let odd = |_| RpcError { code: 0, message: raw.get().to_owned(), data: None };
    serde_json::from_str(raw.get()).unwrap_or_else(odd)
}

/// Implements the visitor methods that skip values of other types.
macro_rules! skip_scalars_and_lists {
    ($empty:expr) => {
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok($empty)
        }
        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok($empty)
        }
        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok($empty)
        }
        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
            Ok($empty)
        }
        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok($empty)
        }
        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok($empty)
        }
    };
}

impl<'de: 'a, 'a> Deserialize<'de> for Route<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RouteVisitor)
    }
}

struct RouteVisitor;

impl<'de> Visitor<'de> for RouteVisitor {
    type Value = Route<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("parameters")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Route<'de>, A::Error> {
        let mut route = Route::default();
        while let Some(key) = map.next_key::<Text<'de>>()? {
            let place = match &*key.0 {
                "threadId" | "conversationId" | "thread" => &mut route.thread_id,
                "turnId" | "turn" => &mut route.turn_id,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            let id = map.next_value::<IdOf<'de>>()?.0;
            *place = place.take().or(id);
        }
        Ok(route)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Route::default())
    }

    skip_scalars_and_lists!(Route::default());
}

impl<'de: 'a, 'a> Deserialize<'de> for IdOf<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IdVisitor)
    }
}

struct IdVisitor;

impl<'de> Visitor<'de> for IdVisitor {
    type Value = IdOf<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id, or an object with one")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<IdOf<'de>, E> {
        Ok(IdOf(Some(Cow::Borrowed(text))))
    }

    fn visit_str<E>(self, text: &str) -> Result<IdOf<'de>, E> {
        Ok(IdOf(Some(Cow::Owned(text.to_owned()))))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<IdOf<'de>, A::Error> {
        let mut id = None;
        while let Some(key) = map.next_key::<Text<'de>>()? {
            if &*key.0 == "id" {
                id = map.next_value::<IdOf<'de>>()?.0;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(IdOf(id))
    }

    skip_scalars_and_lists!(IdOf(None));
}

#[cfg(test)]
mod tests;
