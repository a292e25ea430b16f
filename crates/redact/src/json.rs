//! Redaction inside JSON values: strings as they are after unescaping, fields by their names, arguments by their flags.

use serde_json::{Map, Value};

use crate::assignments::is_secret;
use crate::headers::{self, Header};
use crate::mark::push_sentinel;
use crate::names::{self, Name};
use crate::text::Text;
use crate::{MOST_ROUNDS, Redactor, values};

/// A longer argument is not the name of anything.
const LONGEST_FLAG: usize = 40;

/// Hides the secrets in `value`; returns how many.
pub(crate) fn redact(redactor: &Redactor, value: &mut Value) -> usize {
    let mut hidden = 0;
    for _ in 0..MOST_ROUNDS {
        let found = redact_under(redactor, None, value);
        hidden += found;
        if found == 0 {
            break;
        }
    }
    hidden
}

/// `name` is what the field or the flag before announces.
fn redact_under(redactor: &Redactor, name: Option<Name>, value: &mut Value) -> usize {
    match value {
        Value::String(text) => redact_string(redactor, name, text),
        Value::Array(items) => redact_array(redactor, name, items),
        Value::Object(fields) => redact_object(redactor, fields),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn redact_string(redactor: &Redactor, name: Option<Name>, text: &mut String) -> usize {
    if let Some(name) = name.filter(|name| !is_whole_value(name)) {
        return redact_header(redactor, name, text);
    }
    if let Some(name) = name
        && !values::is_harmless(text.as_bytes())
        && is_secret(&name, text.as_bytes())
    {
        text.clear();
        push_sentinel(name.kind, text);
        return 1;
    }
    let (redacted, hidden) = redactor.count_and_redact(text);
    if hidden > 0 {
        *text = redacted.into_owned();
    }
    hidden
}

/// The scheme or the names of cookies stay, as they do in text.
fn redact_header(redactor: &Redactor, name: Name, text: &mut String) -> usize {
    let header = Header { kind: name.kind, is_certain: true, enclosing_quote: None };
    let found = headers::find(&Text::new(text.as_bytes(), true), 0, header);
    if let Ok(Some(span)) = found {
        let mut sentinel = String::new();
        push_sentinel(span.kind, &mut sentinel);
        text.replace_range(span.start..span.end, &sentinel);
        return 1 + redact_string(redactor, None, text);
    }
    redact_string(redactor, None, text)
}

/// Arguments of a command and pairs of a header list: `["--password", "x"]`, `["x-api-key", "x"]`.
fn redact_array(redactor: &Redactor, name: Option<Name>, items: &mut [Value]) -> usize {
    let mut hidden = 0;
    let mut before = None;
    for item in items {
        let count = redact_under(redactor, name.or(before), item);
        before = item.as_str().filter(|_| count == 0).and_then(announced);
        hidden += count;
    }
    hidden
}

fn redact_object(redactor: &Redactor, fields: &mut Map<String, Value>) -> usize {
    let mut hidden = 0;
    // `{"name": "DB_PASSWORD", "value": "…"}` as lists of variables and headers have it
    let named = ["name", "key"].iter().find_map(|field| fields.get(*field)?.as_str()).and_then(field_name);
    for (field, value) in fields.iter_mut() {
        let name = field_name(field).or_else(|| named.filter(|_| field == "value"));
        hidden += redact_under(redactor, name, value);
    }
    hidden + redact_names(redactor, fields)
}

/// A name may itself be a secret. Two that become the same are told apart by a number.
fn redact_names(redactor: &Redactor, fields: &mut Map<String, Value>) -> usize {
    let mut hidden = 0;
    let secret: Vec<String> =
        fields.keys().filter(|name| redactor.count_and_redact(name).1 > 0).cloned().collect();
    for name in secret {
        let (redacted, count) = redactor.count_and_redact(&name);
        hidden += count;
        let mut fresh = redacted.clone().into_owned();
        let mut number = 2;
        while fields.contains_key(&fresh) {
            fresh = format!("{redacted} {number}");
            number += 1;
        }
        if let Some(value) = fields.remove(&name) {
            fields.insert(fresh, value);
        }
    }
    hidden
}

/// What a field's name announces. JSON fields are named on purpose, so less proof is needed of the value.
fn field_name(field: &str) -> Option<Name> {
    if field.contains("[redacted:") {
        return None;
    }
    names::classify(field.as_bytes()).map(Name::likelier)
}

/// What an argument announces about the next one.
fn announced(argument: &str) -> Option<Name> {
    let is_flag_or_header = argument.len() <= LONGEST_FLAG
        && argument.contains('-')
        && argument.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !is_flag_or_header {
        return None;
    }
    names::classify(argument.as_bytes())
}

/// Authorization and cookies are more than their secret: a scheme, names.
fn is_whole_value(name: &Name) -> bool {
    name.kind != names::AUTHORIZATION && name.kind != names::COOKIE
}

#[cfg(test)]
mod tests;
