//! The form of an MCP server on a card: the input for each field, and the submitted values.
//!
//! An untouched field sends its default, or nothing. It never sends a `false` or an empty text that nobody chose.

use codex_bridge_core::inbox;
use serde_json::{Map, Value, json};

use super::fields::Fields;
use crate::failure::{Code, Failure, parser_message};
use crate::view::{Choice, Field, FieldKind};

/// The prefix of the form's fields. It keeps them apart from our own.
pub const FIELD: &str = "field.";
/// The prefix of a marker that a field with a default was on the page. Then a missing value was removed by a person.
const SHOWN: &str = "shown.";
/// More choices than this become a drop-down list.
const MAX_RADIO_CHOICES: usize = 6;

/// The form of an MCP server.
#[derive(Debug, PartialEq)]
pub enum McpForm {
    /// Fields of known kinds.
    Fields(Vec<Input>),
    /// A form with other fields is answered as JSON. The text has the defaults.
    Json(String),
}

/// The input for one field.
#[derive(Debug, PartialEq)]
pub struct Input {
    /// The name, which is the key of the value.
    pub name: String,
    /// The title.
    pub title: String,
    /// The description.
    pub meaning: String,
    /// Whether a value is required.
    pub is_required: bool,
    /// Whether the field has a default, which is filled in.
    pub has_default: bool,
    /// The control.
    pub control: Control,
}

/// The control of a field.
#[derive(Debug, PartialEq)]
pub enum Control {
    /// A checkbox.
    Check {
        /// Whether it is checked at first.
        is_on: bool,
    },
    /// One of several choices.
    One {
        /// The choices.
        picks: Vec<Pick>,
        /// Whether "no answer" is a choice.
        can_skip: bool,
        /// Whether the choices are a drop-down list.
        is_list: bool,
    },
    /// Any number of choices.
    Any(Vec<Pick>),
    /// A text or a number.
    Typed(Typed),
}

/// A choice of a control.
#[derive(Debug, PartialEq, Eq)]
pub struct Pick {
    /// The value that is sent.
    pub value: String,
    /// The label.
    pub label: String,
    /// Whether the choice is selected at first.
    pub is_on: bool,
}

/// A text input.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Typed {
    /// The `type` attribute.
    pub kind: &'static str,
    /// The value at first.
    pub value: String,
    /// The attributes that the browser validates.
    pub limits: Vec<(&'static str, String)>,
    /// An example.
    pub example: &'static str,
}

/// The form with these fields.
pub fn form(fields: &[Field]) -> McpForm {
    let inputs: Option<Vec<Input>> = fields.iter().map(input).collect();
    match inputs {
        Some(inputs) if !inputs.is_empty() => McpForm::Fields(inputs),
        _ => {
            let defaults =
                fields.iter().filter_map(|field| Some((field.name.clone(), field.default.clone()?)));
            let defaults: Map<String, Value> = defaults.collect();
            McpForm::Json(serde_json::to_string_pretty(&defaults).unwrap_or_default())
        }
    }
}

fn input(field: &Field) -> Option<Input> {
    Some(Input {
        name: field.name.clone(),
        title: field.title.clone().unwrap_or_else(|| field.name.clone()),
        meaning: meaning(field),
        is_required: field.required,
        has_default: field.default.is_some(),
        control: control(field)?,
    })
}

/// The description and the limits.
fn meaning(field: &Field) -> String {
    let (description, limits) = (field.description.clone().unwrap_or_default(), field.limits().join(", "));
    match (description.as_str(), limits.as_str()) {
        (_, "") => description,
        ("", _) => limits,
        _ => format!("{description} ({limits})"),
    }
}

fn control(field: &Field) -> Option<Control> {
    let can_skip = !field.required && field.default.is_none();
    let yes_or_no = || {
        let pick =
            |(value, label): (&str, &str)| Pick { value: value.into(), label: label.into(), is_on: false };
        Control::One { picks: [("true", "Yes"), ("false", "No")].map(pick).into(), can_skip, is_list: false }
    };
    Some(match field.kind {
        FieldKind::Boolean => field
            .default
            .as_ref()
            .map_or_else(yes_or_no, |default| Control::Check { is_on: *default == true }),
        FieldKind::Array => Control::Any(picks(field)),
        FieldKind::String | FieldKind::Number | FieldKind::Integer if !field.choices.is_empty() => {
            Control::One { picks: picks(field), can_skip, is_list: field.choices.len() > MAX_RADIO_CHOICES }
        }
        FieldKind::String | FieldKind::Number | FieldKind::Integer => Control::Typed(typed(field)),
        FieldKind::Unfillable | FieldKind::Other => return None,
    })
}

fn picks(field: &Field) -> Vec<Pick> {
    let as_text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let is_meant = |default: &Value, value: &str| as_text(default) == value;
    let is_default = |value: &str| match &field.default {
        Some(Value::Array(values)) => values.iter().any(|default| is_meant(default, value)),
        Some(default) => is_meant(default, value),
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

/// The submitted values. The desk checks whether the form allows them.
pub fn filled(known: &[Field], fields: &Fields) -> Result<Value, Failure> {
    if matches!(form(known), McpForm::Json(_)) {
        let text = fields.value("json").unwrap_or("{}");
        let invalid = |error: serde_json::Error| {
            Failure::new(
                Code::BadAnswers,
                format!("the answer is not valid JSON: {}", parser_message(&error.to_string())),
            )
        };
        return serde_json::from_str(text).map_err(invalid);
    }
    let value = |field: &Field| Some((field.name.clone(), value_of(field, fields)?));
    Ok(known.iter().filter_map(value).collect())
}

/// The submitted value of a field. `None` if it was left empty, `null` if a person removed its default.
fn value_of(field: &Field, fields: &Fields) -> Option<Value> {
    let key = format!("{FIELD}{}", field.name);
    let given: Vec<String> = fields.values(&key).map(str::to_owned).collect();
    if !given.is_empty() {
        return Some(inbox::form::value(field, &given));
    }
    let was_shown = fields.value(&format!("{SHOWN}{}", field.name)).is_some();
    let can_be_empty = !field.required && field.choices.is_empty() && field.format.is_none();
    was_shown.then(|| match field.kind {
        FieldKind::Boolean => false.into(),
        FieldKind::Array => json!([]),
        FieldKind::String if can_be_empty => "".into(),
        _ => Value::Null,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(fields: &Value) -> Vec<Field> {
        serde_json::from_value(fields.clone()).unwrap()
    }

    fn submitted(pairs: &[(&str, &str)]) -> Fields {
        Fields(pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect())
    }

    #[test]
    fn a_default_is_filled_in_and_only_a_person_removes_it() {
        let dry_run = known(&json!([{"name": "dry_run", "type": "boolean", "default": true}]));
        let McpForm::Fields(inputs) = form(&dry_run) else { panic!("fields") };
        assert_eq!((inputs[0].has_default, &inputs[0].control), (true, &Control::Check { is_on: true }));
        let filled = |pairs: &[(&str, &str)]| filled(&dry_run, &submitted(pairs)).unwrap();
        assert_eq!(filled(&[("shown.dry_run", "1"), ("field.dry_run", "true")]), json!({"dry_run": true}));
        assert_eq!(filled(&[("shown.dry_run", "1")]), json!({"dry_run": false}));
        assert_eq!(filled(&[]), json!({}), "the form did not show the field");
    }

    #[test]
    fn an_empty_field_is_omitted() {
        let all = known(&json!([
            {"name": "name", "type": "string", "required": true}, {"name": "count", "type": "integer"},
            {"name": "sure", "type": "boolean"}, {"name": "note", "type": "string"},
            {"name": "tags", "type": "array", "choices": [{"value": "a"}, {"value": "b"}]},
        ]));
        let filled = |pairs: &[(&str, &str)]| filled(&all, &submitted(pairs));
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
        // The desk says what is wrong.
        assert_eq!(filled(&[("field.count", "three")]).unwrap(), json!({"count": "three"}));
    }

    #[test]
    fn choices_and_limits_are_those_of_the_field() {
        let fields = known(&json!([
            {"name": "colour", "type": "string", "default": "blue", "choices": [{"value": "red", "label": "Red"}, {"value": "blue"}]},
            {"name": "age", "type": "number", "minimum": 1.0, "maximum": 9.5},
            {"name": "sure", "type": "boolean"},
        ]));
        let McpForm::Fields(inputs) = form(&fields) else { panic!("fields") };
        let pick = |value: &str, label: &str, is_on| Pick { value: value.into(), label: label.into(), is_on };
        let picks = vec![pick("red", "Red", false), pick("blue", "blue", true)];
        assert_eq!(inputs[0].control, Control::One { picks, can_skip: false, is_list: false });
        let limits = vec![("step", "any".to_owned()), ("min", "1".to_owned()), ("max", "9.5".to_owned())];
        assert_eq!(inputs[1].control, Control::Typed(Typed { kind: "number", limits, ..Typed::default() }));
        assert_eq!(inputs[1].meaning, "at least 1, at most 9.5");
        let Control::One { can_skip, .. } = &inputs[2].control else { panic!("a yes or a no") };
        assert!(can_skip, "an untouched field is neither yes nor no");
    }

    #[test]
    fn a_form_with_unknown_fields_is_json_with_its_defaults() {
        let odd = known(
            &json!([{"name": "dry_run", "type": "boolean", "default": true}, {"name": "x", "type": "other"}]),
        );
        let McpForm::Json(text) = form(&odd) else { panic!("JSON") };
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!({"dry_run": true}));
        assert_eq!(filled(&odd, &submitted(&[("json", "{\"x\": 1}")])).unwrap(), json!({"x": 1}));
        assert!(matches!(form(&[]), McpForm::Json(_)));
    }
}
