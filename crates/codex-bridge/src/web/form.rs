//! The form of an MCP server on a card: how each field is drawn, and what was filled in.
//!
//! Whoever leaves a field as it is says what its default says, or nothing: never a no or an empty text that nobody meant.

use serde_json::{Map, Value, json};

use super::fields::Fields;
use crate::failure::{Code, Failure};
use crate::view::{Choice, Field, FieldKind};

/// Fields of a form begin so: no field of ours can be taken for one of theirs.
pub const FIELD: &str = "field.";
/// Says that a field with a default was on the page, so that what is not sent was taken away by a person.
const SHOWN: &str = "shown.";
/// As many choices are all on the card; more are a list to open.
const MOST_CHOICES: usize = 6;

/// The form of an MCP server.
#[derive(Debug, PartialEq)]
pub enum FormOf {
    /// Fields that are understood.
    Fields(Vec<Input>),
    /// Anything else is answered as JSON, which begins with the defaults.
    Json(String),
}

/// One field as it is drawn.
#[derive(Debug, PartialEq)]
pub struct Input {
    /// Its name, which is its key.
    pub name: String,
    /// What people call it.
    pub title: String,
    /// What it means.
    pub meaning: String,
    /// Whether it must be filled in.
    pub is_required: bool,
    /// Whether it has a default, which is filled in.
    pub has_default: bool,
    /// What it is filled in with.
    pub control: Control,
}

/// What a field is filled in with.
#[derive(Debug, PartialEq)]
pub enum Control {
    /// A box that is checked or not.
    Check {
        /// Whether it is at first.
        is_on: bool,
    },
    /// One of several.
    One {
        /// The choices.
        picks: Vec<Pick>,
        /// Whether none of them may be chosen.
        can_skip: bool,
        /// Whether there are so many that they are a list to open.
        is_list: bool,
    },
    /// Any of several.
    Any(Vec<Pick>),
    /// Something that is typed.
    Typed(Typed),
}

/// A choice as it is drawn.
#[derive(Debug, PartialEq, Eq)]
pub struct Pick {
    /// What is sent.
    pub value: String,
    /// What people read.
    pub label: String,
    /// Whether it is chosen at first.
    pub is_on: bool,
}

/// What may be typed into a field.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Typed {
    /// The kind of input, in the words of HTML.
    pub kind: &'static str,
    /// What is in it at first.
    pub value: String,
    /// What the browser checks before it sends: names and values of attributes.
    pub limits: Vec<(&'static str, String)>,
    /// What it may look like.
    pub example: &'static str,
}

/// The form with these fields.
pub fn form(fields: &[Field]) -> FormOf {
    let inputs: Option<Vec<Input>> = fields.iter().map(input).collect();
    match inputs {
        Some(inputs) if !inputs.is_empty() => FormOf::Fields(inputs),
        _ => {
            let defaults = fields.iter().filter_map(|it| Some((it.name.clone(), it.default.clone()?)));
            let defaults: Map<String, Value> = defaults.collect();
            FormOf::Json(serde_json::to_string_pretty(&defaults).unwrap_or_default())
        }
    }
}

fn input(field: &Field) -> Option<Input> {
    Some(Input {
        name: field.name.clone(),
        title: field.title.clone().unwrap_or_else(|| field.name.clone()),
        meaning: field.description.clone().unwrap_or_default(),
        is_required: field.required,
        has_default: field.default.is_some(),
        control: control(field)?,
    })
}

fn control(field: &Field) -> Option<Control> {
    let can_skip = !field.required && field.default.is_none();
    let yes_or_no = || {
        let pick =
            |(value, label): (&str, &str)| Pick { value: value.into(), label: label.into(), is_on: false };
        Control::One { picks: [("true", "Yes"), ("false", "No")].map(pick).into(), can_skip, is_list: false }
    };
    Some(match field.kind {
        FieldKind::Boolean => {
            field.default.as_ref().map_or_else(yes_or_no, |it| Control::Check { is_on: *it == true })
        }
        FieldKind::Array => Control::Any(picks(field)),
        FieldKind::String if !field.choices.is_empty() => {
            Control::One { picks: picks(field), can_skip, is_list: field.choices.len() > MOST_CHOICES }
        }
        FieldKind::String | FieldKind::Number | FieldKind::Integer => Control::Typed(typed(field)),
        FieldKind::Other => return None,
    })
}

fn picks(field: &Field) -> Vec<Pick> {
    let is_default = |value: &str| match &field.default {
        Some(Value::Array(values)) => values.iter().any(|it| it == value),
        Some(default) => default == value,
        None => false,
    };
    let pick = |Choice { value, label }: &Choice| Pick {
        value: value.clone(),
        label: label.clone().unwrap_or_else(|| value.clone()),
        is_on: is_default(value),
    };
    field.choices.iter().map(pick).collect()
}

fn typed(field: &Field) -> Typed {
    let (kind, example) = match (field.kind, field.format.as_deref()) {
        (FieldKind::Number | FieldKind::Integer, _) => ("number", ""),
        (_, Some("email")) => ("email", "name@example.org"),
        (_, Some("uri")) => ("url", "https://example.org"),
        (_, Some("date")) => ("date", ""),
        (_, Some("date-time")) => ("text", "2026-08-22T12:00:00Z"),
        _ => ("text", ""),
    };
    let mut limits = Vec::new();
    if kind == "number" {
        limits.push(("step", if field.kind == FieldKind::Integer { "1" } else { "any" }.to_owned()));
        limits.extend(field.minimum.map(|least| ("min", least.to_string())));
        limits.extend(field.maximum.map(|most| ("max", most.to_string())));
    } else {
        limits.extend(field.min_length.map(|least| ("minlength", least.to_string())));
        limits.extend(field.max_length.map(|most| ("maxlength", most.to_string())));
    }
    let value = match &field.default {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    Typed { kind, value, limits, example }
}

/// What was filled in. Whether the form takes it is for others to say, who know it for every door.
pub fn filled(known: &[Field], fields: &Fields) -> Result<Value, Failure> {
    if matches!(form(known), FormOf::Json(_)) {
        let text = fields.said("json").unwrap_or("{}");
        let wrong =
            |error: serde_json::Error| Failure::new(Code::BadAnswers, format!("this is no JSON: {error}"));
        return serde_json::from_str(text).map_err(wrong);
    }
    let mut object = Map::new();
    for field in known {
        if let Some(value) = value_of(field, fields)? {
            object.insert(field.name.clone(), value);
        }
    }
    Ok(Value::Object(object))
}

/// What a field says; none if nobody has said anything by it.
fn value_of(field: &Field, fields: &Fields) -> Result<Option<Value>, Failure> {
    let key = format!("{FIELD}{}", field.name);
    let said = fields.said(&key);
    let was_shown = fields.said(&format!("{SHOWN}{}", field.name)).is_some();
    let wrong = |what: &str| Failure::new(Code::BadAnswers, format!("{} must be {what}", field.name));
    Ok(match (field.kind, said) {
        (FieldKind::Boolean, Some("true")) => Some(true.into()),
        (FieldKind::Boolean, Some("false")) => Some(false.into()),
        (FieldKind::Boolean, Some(_)) => return Err(wrong("true or false")),
        (FieldKind::Boolean, None) => was_shown.then(|| false.into()),
        (FieldKind::Array, None) => was_shown.then(|| json!([])),
        (FieldKind::Array, Some(_)) => Some(fields.all(&key).collect()),
        (FieldKind::String, None) if was_shown && !field.required && field.choices.is_empty() => {
            Some("".into())
        }
        (_, None) if field.required => return Err(wrong("filled in")),
        (_, None) => None,
        (FieldKind::Integer, Some(text)) => {
            Some(text.trim().parse::<i64>().map_err(|_| wrong("a whole number"))?.into())
        }
        (FieldKind::Number, Some(text)) => {
            Some(text.trim().parse::<f64>().map_err(|_| wrong("a number"))?.into())
        }
        (_, Some(text)) => Some(text.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(fields: &Value) -> Vec<Field> {
        serde_json::from_value(fields.clone()).unwrap()
    }

    fn said(pairs: &[(&str, &str)]) -> Fields {
        Fields(pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect())
    }

    #[test]
    fn a_default_is_filled_in_and_only_a_person_takes_it_away() {
        let dry_run = known(&json!([{"name": "dry_run", "type": "boolean", "default": true}]));
        let FormOf::Fields(inputs) = form(&dry_run) else { panic!("fields") };
        assert_eq!((inputs[0].has_default, &inputs[0].control), (true, &Control::Check { is_on: true }));
        let filled = |pairs: &[(&str, &str)]| filled(&dry_run, &said(pairs)).unwrap();
        assert_eq!(filled(&[("shown.dry_run", "1"), ("field.dry_run", "true")]), json!({"dry_run": true}));
        assert_eq!(filled(&[("shown.dry_run", "1")]), json!({"dry_run": false}));
        assert_eq!(filled(&[]), json!({}), "of a form that did not show it");
    }

    #[test]
    fn what_nobody_filled_in_is_left_out() {
        let all = known(&json!([
            {"name": "name", "type": "string", "required": true}, {"name": "count", "type": "integer"},
            {"name": "sure", "type": "boolean"}, {"name": "note", "type": "string"},
            {"name": "tags", "type": "array", "choices": [{"value": "a"}, {"value": "b"}]},
        ]));
        let filled = |pairs: &[(&str, &str)]| filled(&all, &said(pairs));
        let sparse = filled(&[("field.name", "x"), ("field.sure", ""), ("field.note", " ")]);
        assert_eq!(sparse.unwrap(), json!({"name": "x"}));
        let full = [
            ("field.name", "x"),
            ("field.count", "3"),
            ("field.sure", "false"),
            ("field.tags", "a"),
            ("field.tags", "b"),
        ];
        assert_eq!(
            filled(&full).unwrap(),
            json!({"name": "x", "count": 3, "sure": false, "tags": ["a", "b"]})
        );
        assert_eq!(filled(&[]).unwrap_err().message, "name must be filled in");
        let wrong = filled(&[("field.name", "x"), ("field.count", "three")]).unwrap_err();
        assert_eq!(wrong.message, "count must be a whole number");
    }

    #[test]
    fn choices_and_limits_are_those_of_the_field() {
        let fields = known(&json!([
            {"name": "colour", "type": "string", "default": "blue", "choices": [{"value": "red", "label": "Red"}, {"value": "blue"}]},
            {"name": "age", "type": "number", "minimum": 1.0, "maximum": 9.5},
            {"name": "sure", "type": "boolean"},
        ]));
        let FormOf::Fields(inputs) = form(&fields) else { panic!("fields") };
        let pick = |value: &str, label: &str, is_on| Pick { value: value.into(), label: label.into(), is_on };
        let picks = vec![pick("red", "Red", false), pick("blue", "blue", true)];
        assert_eq!(inputs[0].control, Control::One { picks, can_skip: false, is_list: false });
        let limits = vec![("step", "any".to_owned()), ("min", "1".to_owned()), ("max", "9.5".to_owned())];
        assert_eq!(inputs[1].control, Control::Typed(Typed { kind: "number", limits, ..Typed::default() }));
        let Control::One { can_skip, .. } = &inputs[2].control else { panic!("a yes or a no") };
        assert!(can_skip, "whoever says nothing says neither yes nor no");
    }

    #[test]
    fn a_form_that_is_not_understood_is_json_with_its_defaults() {
        let odd = known(
            &json!([{"name": "dry_run", "type": "boolean", "default": true}, {"name": "x", "type": "other"}]),
        );
        let FormOf::Json(text) = form(&odd) else { panic!("JSON") };
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!({"dry_run": true}));
        assert_eq!(filled(&odd, &said(&[("json", "{\"x\": 1}")])).unwrap(), json!({"x": 1}));
        assert!(matches!(form(&[]), FormOf::Json(_)));
    }
}
