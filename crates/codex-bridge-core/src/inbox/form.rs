//! Checks a filled form against its fields before it goes to an MCP server. Pure.

use std::collections::BTreeSet;

use codex_session::Ask;
use codex_session::ask::{FieldKind, ShownField, quoted_unless_word};
use serde_json::Value;

/// Reads texts as the value of a field: one text, or several choices. Numbers, yes or no, and lists are read as such; the
/// text `null` leaves out a field that is not text.
pub fn value(field: &ShownField, texts: &[String]) -> Value {
    let [text] = texts else { return texts.iter().map(|text| choice(field, text)).collect() };
    let plain = || Value::String(text.clone());
    let json = || serde_json::from_str(text).unwrap_or_else(|_| plain());
    let is_choice = || field.choices.iter().any(|choice| choice.value == *text);
    match field.kind {
        FieldKind::String => plain(),
        FieldKind::Array if is_choice() => [plain()].into_iter().collect(),
        FieldKind::Array if text.trim_start().starts_with('[') => json(),
        FieldKind::Array => text.split(',').map(|one| Value::String(one.trim().to_owned())).collect(),
        FieldKind::Boolean => match text.trim().to_ascii_lowercase().as_str() {
            "yes" | "y" => true.into(),
            "no" | "n" => false.into(),
            _ => json(),
        },
        FieldKind::Integer | FieldKind::Number => {
            text.trim().parse::<i64>().map_or_else(|_| json(), Value::from)
        }
        FieldKind::Unfillable | FieldKind::Other => json(),
    }
}

fn choice(field: &ShownField, text: &str) -> Value {
    let plain = || Value::String(text.to_owned());
    if field.kind == FieldKind::Array {
        plain()
    } else {
        serde_json::from_str(text).unwrap_or_else(|_| plain())
    }
}

/// The whole form: a field that is not given has its default, one that is `null` is left out. The error names the field and
/// says in one sentence what is allowed.
pub fn filled(ask: &Ask, form: Value) -> Result<Value, String> {
    if ask.fields.is_empty() {
        return Ok(form);
    }
    let Value::Object(mut form) = form else {
        return Err("a form is filled in as an object, with a value for each field".to_owned());
    };
    let known: BTreeSet<&str> = ask.fields.iter().map(|field| field.name.as_str()).collect();
    if let Some(unknown) = form.keys().find(|name| !known.contains(name.as_str())) {
        let names: Vec<String> = ask.fields.iter().map(|field| quoted_unless_word(&field.name)).collect();
        let unknown = quoted_unless_word(unknown);
        return Err(format!("the form has no field {unknown}: it has {}", names.join(", ")));
    }
    for field in &ask.fields {
        // The name of a field of an unknown kind may be shown changed: an earlier version stored such fields so.
        let default = field.default.as_ref().filter(|_| field.kind != FieldKind::Other);
        if let (Some(default), false) = (default, form.contains_key(&field.name)) {
            form.insert(field.name.clone(), default.clone());
        }
        check(field, form.get(&field.name).unwrap_or(&Value::Null))?;
    }
    form.retain(|_, value| !value.is_null());
    Ok(Value::Object(form))
}

/// Checks the value of a field; `null` leaves the field out.
pub fn check(field: &ShownField, value: &Value) -> Result<(), String> {
    let name = quoted_unless_word(&field.name);
    if field.kind == FieldKind::Unfillable && (field.required || !value.is_null()) {
        let instead = if field.required { "decline the form" } else { "leave it out" };
        return Err(format!(
            "{name} cannot be filled in, since its name or its choices are not shown exactly: {instead}"
        ));
    }
    if value.is_null() {
        return if field.required { Err(format!("{name} must be filled in")) } else { Ok(()) };
    }
    let wrong = |what: String| Err(format!("{name} must be {what}"));
    let choices: Vec<&str> = field.choices.iter().map(|choice| choice.value.as_str()).collect();
    let is_choice = |value: &Value| match value.as_str() {
        Some(text) => choices.contains(&text),
        None => choices.contains(&value.to_string().as_str()),
    };
    let are_choices = |value: &Value| value.as_array().is_some_and(|values| values.iter().all(is_choice));
    let kind = field.kind;
    let fits_kind = value.is_string() == (kind == FieldKind::String);
    // A field of an unknown kind may take several of its choices.
    let is_single = !matches!(kind, FieldKind::Array | FieldKind::Other);
    match (kind, value) {
        _ if is_single && !choices.is_empty() && !(is_choice(value) && fits_kind) => {
            wrong(format!("one of: {}", one_of(&choices)))
        }
        (FieldKind::String, Value::String(_)) if !choices.is_empty() => Ok(()),
        (FieldKind::String, Value::String(text)) if field.required && text.trim().is_empty() => {
            Err(format!("{name} must be filled in"))
        }
        (FieldKind::String, Value::String(text)) => within(field, text.chars().count(), "characters")
            .and_then(|()| fits_format(field, text))
            .or_else(wrong),
        (FieldKind::Other, value) if !choices.is_empty() && !is_choice(value) && !are_choices(value) => {
            wrong(format!("one of: {}", one_of(&choices)))
        }
        (FieldKind::Boolean, Value::Bool(_)) | (FieldKind::Unfillable | FieldKind::Other, _) => Ok(()),
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
        (FieldKind::Array, _) => wrong(format!("a list of these: {}", one_of(&choices))),
        (FieldKind::String, _) => wrong("text".to_owned()),
    }
}

fn one_of(choices: &[&str]) -> String {
    choices.iter().map(|choice| quoted_unless_word(choice)).collect::<Vec<_>>().join(" | ")
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

/// The formats of MCP. Only their shape is checked: what else they mean is the server's business.
fn fits_format(field: &ShownField, text: &str) -> Result<(), String> {
    let is_filled = |parts: Option<(&str, &str)>| parts.is_some_and(|(a, b)| !a.is_empty() && !b.is_empty());
    let is_word = !text.contains(char::is_whitespace);
    let (fits, what) = match field.format.as_deref() {
        Some("email") => (is_word && is_filled(text.split_once('@')), "an email address"),
        Some("uri") => (is_word && is_filled(text.split_once(':')), "a URI, as in https://example.org"),
        Some("date") => (has_shape(text, "0000-00-00"), "a date, as in 2026-08-22"),
        Some("date-time") => (is_date_time(text), "a date and time, as in 2026-08-22T12:00:00Z"),
        _ => return Ok(()),
    };
    if fits { Ok(()) } else { Err(what.to_owned()) }
}

/// Whether a text has a digit for each `0` of the shape, and is like it otherwise.
fn has_shape(text: &str, shape: &str) -> bool {
    let fits = |(char, like): (char, char)| if like == '0' { char.is_ascii_digit() } else { char == like };
    text.chars().count() == shape.len() && text.chars().zip(shape.chars()).all(fits)
}

fn is_date_time(text: &str) -> bool {
    const SHAPE: &str = "0000-00-00T00:00:00";
    let Some((time, zone)) = text.split_at_checked(SHAPE.len()) else { return false };
    let digits =
        |fraction: &str| fraction.find(|char: char| !char.is_ascii_digit()).unwrap_or(fraction.len());
    let zone = zone.strip_prefix('.').map_or(zone, |fraction| &fraction[digits(fraction)..]);
    has_shape(time, SHAPE) && (zone == "Z" || has_shape(zone, "+00:00") || has_shape(zone, "-00:00"))
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
            {"name": "odd", "type": "other", "choices": [{"value": "1"}, {"value": "2"}]},
            {"name": "mail", "type": "string", "format": "email"},
            {"name": "page", "type": "string", "format": "uri"},
            {"name": "day", "type": "string", "format": "date"},
            {"name": "at", "type": "string", "format": "date-time"},
        ]});
        serde_json::from_value(ask).unwrap()
    }

    #[test]
    fn a_form_takes_what_its_fields_allow_and_says_what_that_is() {
        let full = json!({
            "name": "1", "colour": "red", "count": 3, "size": 2, "dry_run": false, "tags": ["a"], "odd": [1],
            "mail": "a@b", "page": "https://x", "day": "2026-08-22", "at": "2026-08-22T12:00:00.5+02:00",
        });
        assert_eq!(filled(&ask(), full.clone()), Ok(full));
        for (form, told) in [
            (json!({}), "name must be filled in"),
            (json!({"name": 1}), "name must be text"),
            (json!({"name": " "}), "name must be filled in"),
            (json!({"name": "too long"}), "name must be at most 5 characters"),
            (json!({"name": "x", "colour": "green"}), "colour must be one of: red | blue"),
            (json!({"name": "x", "size": 3}), "size must be one of: 1 | 2"),
            (json!({"name": "x", "size": "1"}), "size must be one of: 1 | 2"),
            (json!({"name": "x", "odd": [1, 3]}), "odd must be one of: 1 | 2"),
            (json!({"name": "x", "odd": {}}), "odd must be one of: 1 | 2"),
            (json!({"name": "x", "count": 9}), "count must be at most 3"),
            (json!({"name": "x", "count": 1.5}), "count must be a whole number"),
            (json!({"name": "x", "count": "2"}), "count must be a whole number"),
            (json!({"name": "x", "dry_run": "yes"}), "dry_run must be true or false"),
            (json!({"name": "x", "tags": ["c"]}), "tags must be a list of these: a | b"),
            (json!({"name": "x", "tags": ["a", "b"]}), "tags must be at most 1 choices"),
            (
                json!({"name": "x", "more": 1}),
                "the form has no field more: it has name, colour, count, size, dry_run, tags, odd, mail, page, day, at",
            ),
            (json!({"name": null}), "name must be filled in"),
            (json!({"name": "x", "mail": "me"}), "mail must be an email address"),
            (json!({"name": "x", "page": "here"}), "page must be a URI, as in https://example.org"),
            (json!({"name": "x", "day": "22.8.2026"}), "day must be a date, as in 2026-08-22"),
            (
                json!({"name": "x", "at": "2026-08-22"}),
                "at must be a date and time, as in 2026-08-22T12:00:00Z",
            ),
            (json!("x"), "a form is filled in as an object, with a value for each field"),
        ] {
            assert_eq!(filled(&ask(), form.clone()), Err(told.to_owned()), "{form}");
        }
    }

    #[test]
    fn what_is_not_given_has_its_default_and_null_leaves_it_out() {
        assert_eq!(filled(&ask(), json!({"name": "x"})), Ok(json!({"name": "x", "dry_run": true})));
        assert_eq!(filled(&ask(), json!({"name": "x", "dry_run": null})), Ok(json!({"name": "x"})));
        let unfillable = |required: bool, form: Value| {
            let ask = json!({"fields": [{"name": "shown", "type": "unfillable", "required": required}]});
            filled(&serde_json::from_value(ask).unwrap(), form).is_ok()
        };
        assert!(unfillable(false, json!({})), "it is left out");
        assert!(!unfillable(false, json!({"shown": 1})) && !unfillable(true, json!({})));
        assert_eq!(filled(&Ask::default(), json!({"a": 1})), Ok(json!({"a": 1})), "a form that is not known");
    }

    #[test]
    fn words_become_what_the_field_takes() {
        let value = |name: &str, texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
            value(ask().field(name).unwrap_or(&ShownField::default()), &texts)
        };
        for (name, text, expected) in [
            ("name", "3", json!("3")),
            ("count", "3", json!(3)),
            ("count", " 03 ", json!(3)),
            ("count", "1.5", json!(1.5)),
            ("count", "NaN", json!("NaN")),
            ("count", "null", json!(null)),
            ("dry_run", "true", json!(true)),
            ("dry_run", "No", json!(false)),
            ("tags", "a, b", json!(["a", "b"])),
            ("tags", "[\"a\"]", json!(["a"])),
            ("odd", "{\"x\": 1}", json!({"x": 1})),
            ("unknown", "3", json!(3)),
        ] {
            assert_eq!(value(name, &[text]), expected, "{name}={text}");
        }
        assert_eq!(value("tags", &["1", "2"]), json!(["1", "2"]));
        assert_eq!(value("unknown", &["1", "x"]), json!([1, "x"]));
    }
}
