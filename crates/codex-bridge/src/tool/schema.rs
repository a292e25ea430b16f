//! What the tool tells agents about itself, made from the types that read its calls.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::call::Call;

const DESCRIPTION: &str = "Hand work to OpenAI Codex and control it: tasks run in the background under a durable bridge, survive restarts, and wait for approvals. Start with `start`, look with `status` or `wait`, answer with `respond`.";

/// The tool as a function: its name, what it is for, and the JSON schema of its parameters.
pub fn schema() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut parameters = settings.into_generator().into_root_schema_for::<Call>().to_value();
    plain(&mut parameters);
    if let Some(parameters) = parameters.as_object_mut() {
        parameters.remove("title");
        parameters.remove("description");
    }
    json!({ "name": "codex_bridge", "description": DESCRIPTION, "parameters": parameters })
}

/// In the words that every provider of models understands: a choice is a list of values, and what is absent needs no
/// value of its own.
fn plain(schema: &mut Value) {
    if let Some(fields) = schema.as_object_mut() {
        fields.retain(|name, value| name != "default" || !value.is_null());
        if let Some(choices) = fields.get("oneOf").and_then(choices) {
            fields.remove("oneOf");
            fields.insert("type".to_owned(), "string".into());
            fields.insert("enum".to_owned(), choices);
        }
        fields.values_mut().for_each(plain);
    }
}

/// The values of a choice that is spelt as one alternative each.
fn choices(alternatives: &Value) -> Option<Value> {
    alternatives.as_array()?.iter().map(|alternative| alternative.get("const").cloned()).collect()
}
