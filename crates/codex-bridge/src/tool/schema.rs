//! The tool's description for agents. The schema is generated from the types that read the calls.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::call::Call;

const DESCRIPTION: &str = "Hand work to OpenAI Codex and control it: tasks run in the background under a durable bridge, survive restarts, and wait for approvals. Begin with `start`, check with `status` or `wait`, answer requests with `respond`.";

/// The tool as a function: name, description, and the JSON schema of the parameters.
pub fn schema() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut parameters = settings.into_generator().into_root_schema_for::<Call>().to_value();
    simplify(&mut parameters);
    if let Some(parameters) = parameters.as_object_mut() {
        parameters.remove("title");
        parameters.remove("description");
    }
    json!({ "name": "codex_bridge", "description": DESCRIPTION, "parameters": parameters })
}

/// Rewrites the schema so that every model provider understands it: a choice becomes an `enum`, and null defaults are
/// removed.
fn simplify(schema: &mut Value) {
    if let Some(fields) = schema.as_object_mut() {
        fields.retain(|name, value| name != "default" || !value.is_null());
        if let Some(choices) = fields.get("oneOf").and_then(choices) {
            fields.remove("oneOf");
            fields.insert("type".to_owned(), "string".into());
            fields.insert("enum".to_owned(), choices);
        }
        fields.values_mut().for_each(simplify);
    }
}

/// The values of a `oneOf` with one `const` per alternative.
fn choices(alternatives: &Value) -> Option<Value> {
    alternatives.as_array()?.iter().map(|alternative| alternative.get("const").cloned()).collect()
}
