//! The fields of a form that an MCP server wants filled in: for programs as they are, for people as a line each.
//!
//! What a field says is foreign text and is made fit to be shown. A name or a choice is sent back as it was shown, so a field
//! whose name or choice had to be changed for that cannot be filled in.

use std::collections::{BTreeMap, BTreeSet};

use redact::approval::TextKind;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::clean::Cleaner;

/// One field of a form. Readable and redacted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Field"))]
pub struct ShownField {
    /// Its key in the filled form.
    pub name: String,
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it takes.
    #[serde(rename = "type")]
    pub kind: FieldKind,
    /// Whether it must be filled in.
    #[serde(default)]
    pub required: bool,
    /// The default value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// The only values that it takes; empty if it takes others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<Choice>,
    /// The least that it may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<f64>,
    /// The most that it may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum: Option<f64>,
    /// The least number of characters, or of choices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_length: Option<u64>,
    /// The greatest number of characters, or of choices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u64>,
    /// `email`, `uri`, `date` or `date-time`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
}

/// What a field takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FieldKind {
    /// Text.
    String,
    /// A number.
    Number,
    /// A whole number.
    Integer,
    /// True or false.
    Boolean,
    /// Several of its choices.
    Array,
    /// No value: its name or a choice cannot be shown exactly, or another field is shown under the same name, so what the
    /// server expects cannot be sent back.
    Unfillable,
    /// Something that we do not know.
    #[default]
    #[serde(other)]
    Other,
}

impl FieldKind {
    /// As people read it.
    fn words(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Number => "number",
            Self::Integer => "integer",
            Self::Boolean => "boolean",
            Self::Array => "array",
            Self::Unfillable => "cannot be filled in",
            Self::Other => "any",
        }
    }
}

/// A value that a field takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Choice {
    /// What is sent.
    pub value: String,
    /// What people read, if it is something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// The fields of a form by its schema.
pub(super) fn fields(schema: &Value, cleaner: &mut Cleaner<'_>) -> Vec<ShownField> {
    let required = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let required: BTreeSet<&str> = required.iter().filter_map(Value::as_str).collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    let field = |(name, property): (&String, &Value)| {
        field(name, property, required.contains(name.as_str()), cleaner)
    };
    let mut fields: Vec<ShownField> = properties.into_iter().flatten().map(field).collect();
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for field in &fields {
        *names.entry(field.name.clone()).or_default() += 1;
    }
    for field in fields.iter_mut().filter(|field| names.get(&field.name).is_some_and(|count| *count > 1)) {
        (field.kind, field.default) = (FieldKind::Unfillable, None);
    }
    fields
}

fn field(name: &str, property: &Value, required: bool, cleaner: &mut Cleaner<'_>) -> ShownField {
    let choices = raw_choices(property);
    let number = |key: &str| property.get(key).and_then(Value::as_f64);
    let length = |keys: [&str; 2]| keys.iter().find_map(|key| property.get(*key)?.as_u64());
    let mut clean = |key: &str| property.get(key).and_then(Value::as_str).map(|text| cleaner.line(text));
    let (title, description, format) = (clean("title"), clean("description"), clean("format"));
    let shown_name = cleaner.line(name);
    // A separate cleaner, so that each secret is counted once.
    let mut looking = cleaner.uncounted();
    let is_sendable = shown_name == name && choices.iter().all(|(value, _)| looking.line(value) == *value);
    let kind = match property.get("type").and_then(Value::as_str) {
        Some("string") => FieldKind::String,
        Some("number") => FieldKind::Number,
        Some("integer") => FieldKind::Integer,
        Some("boolean") => FieldKind::Boolean,
        Some("array") if has_text_choices(property) => FieldKind::Array,
        None if has_text_choices(property) => FieldKind::String,
        _ => FieldKind::Other,
    };
    let kind = if is_sendable { kind } else { FieldKind::Unfillable };
    let label = |(value, label): (String, Option<String>)| Choice {
        label: label.map(|label| cleaner.line(&label)).filter(|label| *label != value),
        value: cleaner.line(&value),
    };
    let choices: Vec<Choice> = choices.into_iter().map(label).collect();
    let is_missing =
        |default: &Value| required && default.as_str().is_some_and(|text| text.trim().is_empty());
    let default = property.get("default").filter(|default| !is_missing(default));
    let default = default.and_then(|default| shown_default(default, kind, &choices, &mut looking));
    ShownField {
        name: shown_name,
        title,
        description,
        kind,
        required,
        default,
        choices,
        minimum: number("minimum"),
        maximum: number("maximum"),
        min_length: length(["minLength", "minItems"]),
        max_length: length(["maxLength", "maxItems"]),
        format,
    }
}

/// The only values that a field takes, with what people read for them.
fn raw_choices(property: &Value) -> Vec<(String, Option<String>)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let choice = |(value, label): (&Value, Option<&Value>)| (as_text(value), label.and_then(text));
    constants(property).into_iter().map(choice).collect()
}

/// The values and labels as the schema has them: `enum` with `enumNames`, or a list of constants with titles.
fn constants(property: &Value) -> Vec<(&Value, Option<&Value>)> {
    let items = property.get("items");
    let list = |key: &str| {
        let value = property.get(key).or_else(|| items?.get(key));
        value.and_then(Value::as_array).map(Vec::as_slice)
    };
    let named = list("enumNames").unwrap_or_default();
    let plain = list("enum").unwrap_or_default().iter().enumerate();
    let plain = plain.map(|(place, value)| (value, named.get(place)));
    let titled = list("oneOf").or_else(|| list("anyOf")).unwrap_or_default().iter();
    let titled = titled.filter_map(|it| Some((it.get("const")?, it.get("title"))));
    plain.chain(titled).collect()
}

/// A value as people write it: text as it is, anything else as JSON.
fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Whether a field has choices, and all are text.
fn has_text_choices(property: &Value) -> bool {
    let constants = constants(property);
    !constants.is_empty() && constants.iter().all(|(value, _)| value.is_string())
}

/// A default that fits the field and can be shown as it is.
fn shown_default(
    default: &Value,
    kind: FieldKind,
    choices: &[Choice],
    cleaner: &mut Cleaner<'_>,
) -> Option<Value> {
    let is_choice =
        |value: &Value| choices.is_empty() || choices.iter().any(|choice| as_text(value) == choice.value);
    let fits = match (kind, default) {
        (FieldKind::Boolean, Value::Bool(_)) | (FieldKind::Number, Value::Number(_)) => is_choice(default),
        (FieldKind::Integer, Value::Number(number)) => {
            is_choice(default) && number.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        (FieldKind::String, Value::String(text)) => {
            is_choice(default) && cleaner.verbatim(text, TextKind::Excerpt) == *text
        }
        (FieldKind::Array, Value::Array(values)) => values.iter().all(is_choice),
        _ => false,
    };
    fits.then(|| default.clone())
}

/// The formats of MCP.
const FORMATS: [&str; 4] = ["email", "uri", "date", "date-time"];

impl ShownField {
    /// The field in a line: `name (string, required, one of: a (A) | "b c", default "a"): title – what it means`.
    /// Foreign text is quoted where it could pass for words of ours.
    pub fn line(&self) -> String {
        let mut facts = vec![self.kind.words().to_owned()];
        facts.extend(self.required.then(|| "required".to_owned()));
        if !self.choices.is_empty() {
            let choices: Vec<String> = self.choices.iter().map(Choice::words).collect();
            let many = if self.kind == FieldKind::Array { "any of" } else { "one of" };
            facts.push(format!("{many}: {}", choices.join(" | ")));
        }
        facts.extend(self.limits());
        facts.extend(self.default.as_ref().map(|default| format!("default {default}")));
        let meaning: Vec<&str> =
            [&self.title, &self.description].into_iter().flatten().map(String::as_str).collect();
        let meaning = if meaning.is_empty() { String::new() } else { format!(": {}", meaning.join(" – ")) };
        format!("{} ({}){meaning}", quoted_unless_word(&self.name), facts.join(", "))
    }

    /// The format and the bounds, in words.
    pub fn limits(&self) -> Vec<String> {
        let mut limits: Vec<String> = Vec::new();
        limits.extend(self.format.as_deref().map(|format| {
            let is_known = FORMATS.contains(&format);
            if is_known { format.to_owned() } else { format!("format {}", Value::from(format)) }
        }));
        limits.extend(self.minimum.map(|least| format!("at least {least}")));
        limits.extend(self.maximum.map(|most| format!("at most {most}")));
        let what = if self.kind == FieldKind::Array { "choices" } else { "characters" };
        limits.extend(self.min_length.map(|least| format!("at least {least} {what}")));
        limits.extend(self.max_length.map(|most| format!("at most {most} {what}")));
        limits
    }

    /// The field as a property of a form of MCP. `None` if MCP has no such fields.
    pub fn schema(&self) -> Option<Value> {
        let values = || -> Value { self.choices.iter().map(|choice| choice.value.clone()).collect() };
        let labels = || self.choices.iter().map(Choice::shown);
        let has_labels = self.choices.iter().any(|choice| choice.label.is_some());
        let mut rules = match self.kind {
            FieldKind::String if self.choices.is_empty() => {
                let format = self.format.as_deref().filter(|format| FORMATS.contains(format));
                json!({"type": "string", "minLength": self.min_length, "maxLength": self.max_length, "format": format})
            }
            FieldKind::String => {
                json!({"type": "string", "enum": values(), "enumNames": has_labels.then(|| labels().collect::<Value>())})
            }
            FieldKind::Number | FieldKind::Integer if self.choices.is_empty() => {
                json!({"type": self.kind.words(), "minimum": self.minimum.map(number), "maximum": self.maximum.map(number)})
            }
            FieldKind::Boolean => json!({"type": "boolean"}),
            FieldKind::Array => {
                let titled = |choice: &Choice| json!({"const": choice.value, "title": choice.shown()});
                let items = if has_labels {
                    json!({"anyOf": self.choices.iter().map(titled).collect::<Value>()})
                } else {
                    json!({"type": "string", "enum": values()})
                };
                json!({"type": "array", "items": items, "minItems": self.min_length, "maxItems": self.max_length})
            }
            FieldKind::Number | FieldKind::Integer | FieldKind::Unfillable | FieldKind::Other => return None,
        };
        rules["title"] = json!(self.title);
        rules["description"] = json!(self.description);
        rules["default"] = match &self.default {
            Some(Value::Number(default)) if default.is_f64() => json!(default.as_f64().map(number)),
            default => json!(default),
        };
        if let Some(rules) = rules.as_object_mut() {
            rules.retain(|_, rule| !rule.is_null());
        }
        Some(rules)
    }
}

/// A number that is whole is written without a fraction: MCP takes no `1.0` for an integer.
fn number(number: f64) -> Value {
    serde_json::from_str(&number.to_string()).unwrap_or_default()
}

impl Choice {
    /// What people read.
    pub fn shown(&self) -> &str {
        self.label.as_deref().unwrap_or(&self.value)
    }

    /// What is sent, and what people read if it is something else.
    pub fn words(&self) -> String {
        let value = quoted_unless_word(&self.value);
        self.label
            .as_ref()
            .map_or_else(|| value.clone(), |label| format!("{value} ({})", quoted_unless_word(label)))
    }
}

/// Quotes a server's text unless it is a single word, so that it cannot imitate our own wording.
pub fn quoted_unless_word(text: &str) -> String {
    let is_plain = |char: char| char.is_alphanumeric() || matches!(char, '_' | '-' | '.');
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redact::Redactor;

    fn read(properties: &Value) -> Vec<ShownField> {
        let redactor = Redactor::default();
        let schema = json!({"type": "object", "properties": properties, "required": ["must"]});
        fields(&schema, &mut Cleaner::new(&redactor))
    }

    #[test]
    fn a_field_keeps_what_its_schema_says() {
        let read = read(&json!({
            "dry_run": {"type": "boolean", "default": true, "title": "Dry run"},
            "must": {"type": "integer", "minimum": 1, "maximum": 5, "description": "How many"},
            "mail": {"type": "string", "format": "email", "maxLength": 40},
        }));
        let lines: Vec<String> = read.iter().map(ShownField::line).collect();
        assert_eq!(
            lines,
            [
                "dry_run (boolean, default true): Dry run",
                "mail (string, email, at most 40 characters)",
                "must (integer, required, at least 1, at most 5): How many",
            ]
        );
        assert_eq!(read[0].default, Some(json!(true)));
        assert_eq!((read[2].minimum, read[2].maximum, read[2].required), (Some(1.0), Some(5.0), true));
    }

    #[test]
    fn a_field_is_passed_on_as_it_came() {
        for property in [
            json!({"type": "boolean", "default": true, "title": "Dry run", "description": "Change nothing"}),
            json!({"type": "integer", "minimum": 1, "maximum": 5, "default": 2}),
            json!({"type": "integer", "default": i64::MAX}),
            json!({"type": "number", "minimum": 0.5}),
            json!({"type": "string", "format": "email", "minLength": 3, "maxLength": 40}),
            json!({"type": "string", "enum": ["a", "b"], "default": "b"}),
            json!({"type": "string", "enum": ["a", "b"], "enumNames": ["A", "b"]}),
            json!({"type": "array", "items": {"type": "string", "enum": ["a"]}, "minItems": 1, "default": ["a"]}),
            json!({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}, "maxItems": 1}),
        ] {
            assert_eq!(read(&json!({ "it": property }))[0].schema(), Some(property));
        }
        for property in [json!({"type": "object"}), json!({"type": "integer", "enum": [1, 2]})] {
            assert_eq!(
                read(&json!({ "it": property }))[0].schema(),
                None,
                "MCP has no such field: {property}"
            );
        }
    }

    #[test]
    fn a_line_has_the_title_the_meaning_and_the_labels() {
        let colour = json!({
            "type": "string", "title": "Colour", "description": "Of the door", "default": "red",
            "oneOf": [{"const": "red", "title": "Signal red"}, {"const": "blue", "title": "blue"}],
        });
        let line = "it (string, one of: red (\"Signal red\") | blue, default \"red\"): Colour – Of the door";
        assert_eq!(read(&json!({ "it": colour }))[0].line(), line);
        let spoof = json!({"type": "boolean", "enum": ["no", "no), default true): \"Dry run\""]});
        let line = r#""a (string)" (boolean, one of: no | "no), default true): \"Dry run\"")"#;
        assert_eq!(
            read(&json!({ "a (string)": spoof }))[0].line(),
            line,
            "foreign words do not pass for ours"
        );
        let spoof = json!({"type": "string", "format": "email), default true): Dry run"});
        let line = r#"it (string, format "email), default true): Dry run")"#;
        assert_eq!(read(&json!({ "it": spoof }))[0].line(), line);
    }

    #[test]
    fn the_choices_of_all_spellings_are_read() {
        let choice = |value: &str, label: Option<&str>| Choice {
            value: value.to_owned(),
            label: label.map(str::to_owned),
        };
        for (property, kind) in [
            (json!({"type": "string", "enum": ["a", "b"], "enumNames": ["A", "b"]}), FieldKind::String),
            (
                json!({"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "b"}]}),
                FieldKind::String,
            ),
            (
                json!({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "b"}]}}),
                FieldKind::Array,
            ),
        ] {
            let read = read(&json!({ "it": property }));
            assert_eq!(read[0].choices, [choice("a", Some("A")), choice("b", None)], "{property}");
            assert_eq!(read[0].kind, kind);
        }
        let numbers = read(&json!({"it": {"type": "integer", "enum": [1, 2]}}));
        assert_eq!(numbers[0].line(), "it (integer, one of: 1 | 2)");
        assert_eq!(read(&json!({"it": {"enum": ["a"]}}))[0].kind, FieldKind::String);
        let read = read(&json!({"it": {"type": "array", "items": {"type": "string", "enum": ["a"]}}}));
        assert_eq!(read[0].line(), "it (array, any of: a)");
    }

    #[test]
    fn what_cannot_be_sent_back_as_it_is_shown_is_no_field() {
        for property in [
            json!({"type": "object"}),
            json!({"type": "array", "items": {"type": "string"}}),
            json!({"type": "array", "items": {"enum": [1, 2]}}),
        ] {
            assert_eq!(read(&json!({ "it": property }))[0].kind, FieldKind::Other, "{property}");
        }
        let renamed = &read(&json!({"n\u{202e}ame": {"type": "string", "default": "x"}}))[0];
        assert_eq!(
            (renamed.kind, &renamed.default),
            (FieldKind::Unfillable, &None),
            "its default is not sent"
        );
        let both = read(&json!({"name": {"type": "string"}, "na\u{200b}me": {"type": "string"}}));
        assert!(
            both.iter().all(|field| field.name == "name" && field.kind == FieldKind::Unfillable),
            "{both:?}"
        );
        let choice = json!({"type": "string", "enum": ["fine", "de\u{202e}ceptive"]});
        assert_eq!(read(&json!({ "it": choice }))[0].kind, FieldKind::Unfillable);
    }

    #[test]
    fn a_default_that_does_not_fit_is_none() {
        for property in [
            json!({"type": "string", "enum": ["a"], "default": "c"}),
            json!({"type": "boolean", "default": "true"}),
            json!({"type": "integer", "default": 1.5}),
            json!({"type": "integer", "enum": [1, 2], "default": 3}),
            json!({"type": "string", "default": 3}),
        ] {
            assert_eq!(read(&json!({ "it": property }))[0].default, None, "{property}");
        }
        let blank = read(&json!({"must": {"type": "string", "default": " "}}));
        assert_eq!(blank[0].default, None, "a required field must be filled in");
    }
}
