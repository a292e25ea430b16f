//! Checks a filled form against its fields before it goes to an MCP server. Pure.

use codex_session::Ask;
use codex_session::ask::{FieldKind, ShownField};
use serde_json::{Map, Value};

fn named<'a>(ask: &'a Ask, name: &str) -> Option<&'a ShownField> {
    ask.fields.iter().find(|field| field.name == name)
}

/// Reads a text as the value of a field. JSON is read as such, unless the field takes text.
pub fn value(ask: &Ask, name: &str, text: &str) -> Value {
    let plain = || Value::String(text.to_owned());
    match named(ask, name).map(|field| field.kind) {
        Some(FieldKind::String) => plain(),
        Some(FieldKind::Array) if !text.trim_start().starts_with('[') => {
            text.split(',').map(|one| Value::String(one.trim().to_owned())).collect()
        }
        _ => serde_json::from_str(text).unwrap_or_else(|_| plain()),
    }
}

/// Checks a filled form. The error says in one sentence what is allowed.
pub fn check(ask: &Ask, form: &Value) -> Result<(), String> {
    if ask.fields.is_empty() {
        return Ok(());
    }
    let Some(form) = form.as_object() else {
        return Err("a form is filled in as an object, with a value for each field".to_owned());
    };
    if let Some(unknown) = form.keys().find(|name| named(ask, name).is_none()) {
        let names: Vec<&str> = ask.fields.iter().map(|field| field.name.as_str()).collect();
        return Err(format!("the form has no field {unknown}: it has {}", names.join(", ")));
    }
    ask.fields.iter().try_for_each(|field| check_field(field, form))
}

fn check_field(field: &ShownField, form: &Map<String, Value>) -> Result<(), String> {
    let name = &field.name;
    let Some(value) = form.get(name) else {
        return if field.required { Err(format!("{name} must be filled in")) } else { Ok(()) };
    };
    let wrong = |what: String| Err(format!("{name} must be {what}"));
    let choices: Vec<&str> = field.choices.iter().map(|choice| choice.value.as_str()).collect();
    let is_choice = |value: &Value| match value.as_str() {
        Some(text) => choices.contains(&text),
        None => choices.contains(&value.to_string().as_str()),
    };
    let kind = field.kind;
    let fits_kind = kind == FieldKind::Other || value.is_string() == (kind == FieldKind::String);
    match (kind, value) {
        _ if !choices.is_empty() && kind != FieldKind::Array && !(is_choice(value) && fits_kind) => {
            wrong(format!("one of: {}", choices.join(" | ")))
        }
        (FieldKind::String, Value::String(_)) if !choices.is_empty() => Ok(()),
        (FieldKind::String, Value::String(text)) => {
            within(field, text.chars().count(), "characters").or_else(wrong)
        }
        (FieldKind::Boolean, Value::Bool(_)) | (FieldKind::Other, _) => Ok(()),
        (FieldKind::Integer, Value::Number(number)) if number.as_f64().is_none_or(|it| it.fract() != 0.0) => {
            wrong("a whole number".to_owned())
        }
        (FieldKind::Integer | FieldKind::Number, Value::Number(number)) => {
            in_range(field, number.as_f64().unwrap_or(f64::NAN)).or_else(wrong)
        }
        (FieldKind::Array, Value::Array(values)) if values.iter().all(is_choice) => {
            within(field, values.len(), "choices").or_else(wrong)
        }
        (FieldKind::Boolean, _) => wrong("true or false".to_owned()),
        (FieldKind::Integer, _) => wrong("a whole number".to_owned()),
        (FieldKind::Number, _) => wrong("a number".to_owned()),
        (FieldKind::Array, _) => wrong(format!("a list of these: {}", choices.join(" | "))),
        (FieldKind::String, _) => wrong("text".to_owned()),
    }
}

fn in_range(field: &ShownField, number: f64) -> Result<(), String> {
    match (field.minimum, field.maximum) {
        (Some(least), _) if number < least => Err(format!("at least {least}")),
        (_, Some(most)) if number > most => Err(format!("at most {most}")),
        _ => Ok(()),
    }
}

fn within(field: &ShownField, length: usize, of: &str) -> Result<(), String> {
    let length = u64::try_from(length).unwrap_or(u64::MAX);
    match (field.min_length, field.max_length) {
        (Some(least), _) if length < least => Err(format!("at least {least} {of}")),
        (_, Some(most)) if length > most => Err(format!("at most {most} {of}")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ask() -> Ask {
        let ask = json!({"kind": "form", "fields": [
            {"name": "name", "type": "string", "required": true, "max_length": 5},
            {"name": "colour", "type": "string", "choices": [{"value": "red"}, {"value": "blue"}]},
            {"name": "count", "type": "integer", "minimum": 1.0, "maximum": 3.0},
            {"name": "size", "type": "integer", "choices": [{"value": "1"}, {"value": "2"}]},
            {"name": "dry_run", "type": "boolean", "default": true},
            {"name": "tags", "type": "array", "choices": [{"value": "a"}, {"value": "b"}], "max_length": 1},
            {"name": "odd", "type": "other"},
        ]});
        serde_json::from_value(ask).unwrap()
    }

    #[test]
    fn a_form_takes_what_its_fields_allow_and_says_what_that_is() {
        let full = json!({"name": "1", "colour": "red", "count": 3, "size": 2, "dry_run": false, "tags": ["a"], "odd": {}});
        assert_eq!(check(&ask(), &full), Ok(()));
        assert_eq!(check(&ask(), &json!({"name": "x"})), Ok(()));
        for (form, told) in [
            (json!({}), "name must be filled in"),
            (json!({"name": 1}), "name must be text"),
            (json!({"name": "too long"}), "name must be at most 5 characters"),
            (json!({"name": "x", "colour": "green"}), "colour must be one of: red | blue"),
            (json!({"name": "x", "size": 3}), "size must be one of: 1 | 2"),
            (json!({"name": "x", "size": "1"}), "size must be one of: 1 | 2"),
            (json!({"name": "x", "count": 9}), "count must be at most 3"),
            (json!({"name": "x", "count": 1.5}), "count must be a whole number"),
            (json!({"name": "x", "count": "2"}), "count must be a whole number"),
            (json!({"name": "x", "dry_run": "yes"}), "dry_run must be true or false"),
            (json!({"name": "x", "tags": ["c"]}), "tags must be a list of these: a | b"),
            (json!({"name": "x", "tags": ["a", "b"]}), "tags must be at most 1 choices"),
            (
                json!({"name": "x", "more": 1}),
                "the form has no field more: it has name, colour, count, size, dry_run, tags, odd",
            ),
            (json!("x"), "a form is filled in as an object, with a value for each field"),
        ] {
            assert_eq!(check(&ask(), &form), Err(told.to_owned()), "{form}");
        }
    }

    #[test]
    fn words_become_what_the_field_takes() {
        assert_eq!(value(&ask(), "name", "3"), json!("3"));
        assert_eq!(value(&ask(), "count", "3"), json!(3));
        assert_eq!(value(&ask(), "dry_run", "true"), json!(true));
        assert_eq!(value(&ask(), "tags", "a, b"), json!(["a", "b"]));
        assert_eq!(value(&Ask::default(), "name", "3"), json!(3), "of a form that is not known");
    }
}
