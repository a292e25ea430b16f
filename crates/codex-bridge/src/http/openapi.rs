//! The OpenAPI 3.1 document, generated from the list of routes and the types of their bodies and replies.

use std::sync::LazyLock;

use axum::Json;
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::problem::PROBLEM_JSON;
use super::route::{ReplyKind, Route};
use super::routes;
use crate::calls::SEQ_MAX;
use crate::failure::Problem;
use codex_bridge_core::desk::{Requirement, Verb};

const DESCRIPTION: &str = "Durable Codex tasks. The same routes are available on the daemon's unix socket, without a \
    token, and on its TCP port, with a token in every call. Roles: a viewer reads; an operator also starts, steers and \
    stops tasks; an approver also decides Codex's requests. The owner's routes are available on the socket only.";

static DOCUMENT: LazyLock<Value> = LazyLock::new(document);

/// `GET /v1/openapi.json`.
pub async fn show() -> Json<Value> {
    Json(DOCUMENT.clone())
}

fn document() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    settings.meta_schema = None;
    let mut generator = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for route in routes::all() {
        let operation = operation(&route, &mut generator);
        let path_item = paths.entry(route.path).or_insert_with(|| json!({}));
        path_item[route.method] = operation;
    }
    generator.subschema_for::<Problem>();
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "codex-bridge",
            "version": env!("CARGO_PKG_VERSION"),
            "description": DESCRIPTION,
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "http://localhost:7777" }],
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "description": "`codex-bridge token create NAME --role ROLE`" },
            },
        },
    });
    set_bounds(&mut document);
    document
}

/// Adds the maximum that the format of a number implies.
fn set_bounds(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let largest = match fields.get("format").and_then(Value::as_str) {
                Some("uint32") => Some(i64::from(u32::MAX)),
                Some("uint64" | "int64" | "uint") => Some(SEQ_MAX),
                _ => None,
            };
            if let Some(largest) = largest {
                fields.entry("maximum").or_insert_with(|| largest.into());
            }
            fields.values_mut().for_each(set_bounds);
        }
        Value::Array(items) => items.iter_mut().for_each(set_bounds),
        _ => {}
    }
}

fn operation(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let access = match route.verb.map(Verb::requirement) {
        None => "Needs no token.".to_owned(),
        Some(Requirement::Role(role)) => format!("Needs the role {role}."),
        Some(Requirement::Owner) => "For the owner only, on the socket.".to_owned(),
    };
    let mut operation = json!({
        "operationId": operation_id(route),
        "summary": route.summary,
        "description": access,
        "responses": responses(route, generator),
    });
    let parameters = parameters(route, generator);
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let Some(body) = route.body {
        let schema = body(generator);
        operation["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    }
    if route.verb.is_none() {
        operation["security"] = json!([]);
    }
    operation
}

/// `get /v1/tasks/{id}/turns` gets the id `get_tasks_id_turns`.
fn operation_id(route: &Route) -> String {
    let words = route.path.split(['/', '{', '}', '.']).filter(|word| !word.is_empty() && *word != "v1");
    std::iter::once(route.method).chain(words).collect::<Vec<_>>().join("_")
}

fn parameters(route: &Route, generator: &mut SchemaGenerator) -> Vec<Value> {
    let names = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = names.map(|name| {
        json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string", "minLength": 1 } })
    });
    let mut parameters: Vec<Value> = in_path.collect();
    if let Some(query) = route.query {
        parameters.extend(in_query(&query(generator)));
    }
    if let Some((name, meaning)) = route.header {
        let schema = match name {
            "Last-Event-ID" => json!({ "type": "integer", "minimum": 0, "maximum": SEQ_MAX }),
            _ => json!({ "type": "string", "pattern": "^[!-~]{1,255}$" }),
        };
        parameters.push(json!({ "name": name, "in": "header", "description": meaning, "schema": schema }));
    }
    parameters
}

/// The schema of one server-sent event. OpenAPI 3.1 cannot describe a whole stream; tools apply the schema to each event.
fn event(content: Option<&Schema>) -> Value {
    let mut data = json!({ "type": "string", "contentMediaType": "application/json" });
    if let Some(content) = content {
        data["contentSchema"] = content.clone().into();
    }
    let (id, event) = (json!({ "type": "string" }), json!({ "type": "string" }));
    json!({
        "description": "One event of the stream.",
        "type": "object",
        "properties": { "id": id, "event": event, "data": data },
        "required": ["event", "data"],
    })
}

/// The fields of a type, each as a parameter.
fn in_query(schema: &Schema) -> Vec<Value> {
    let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let parameter = |(name, schema): (&String, &Value)| {
        let mut schema = schema.clone();
        let description = schema.as_object_mut().and_then(|fields| fields.remove("description"));
        without_null(&mut schema);
        json!({ "name": name, "in": "query", "description": description, "schema": schema })
    };
    fields.map(parameter).collect()
}

/// Removes null: a query cannot express it.
fn without_null(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    fields.retain(|name, value| name != "default" || !value.is_null());
    if let Some(types) = fields.get_mut("type").and_then(Value::as_array_mut) {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            fields["type"] = only.clone();
        }
    }
}

fn responses(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let content = match route.reply {
        ReplyKind::Json(make) => json!({ "application/json": { "schema": make(generator) } }),
        ReplyKind::JsonOrText(make, media_type) => {
            json!({ "application/json": { "schema": make(generator) }, media_type: { "schema": { "type": "string" } } })
        }
        ReplyKind::Stream(make) => {
            // One value a line. No schema of the whole text can say that.
            let item = make(generator);
            let lines = json!({ "schema": { "type": "string" }, "x-line-schema": item });
            json!({ "application/x-ndjson": lines, "text/event-stream": { "schema": event(Some(&item)) } })
        }
        ReplyKind::Events => json!({ "text/event-stream": { "schema": event(None) } }),
        ReplyKind::Text(media_type) => json!({ media_type: { "schema": { "type": "string" } } }),
    };
    let problem = |description: &str| {
        let schema = json!({ "$ref": "#/components/schemas/Problem" });
        json!({ "description": description, "content": { PROBLEM_JSON: { "schema": schema } } })
    };
    json!({
        "200": { "description": "Success.", "content": content },
        "4XX": problem("The call is wrong or not allowed. `code` says why."),
        "5XX": problem("The daemon could not carry out the call."),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Set this variable to write `docs/openapi.json`.
    const WRITE: &str = "CODEX_BRIDGE_TEST_WRITE_OPENAPI";

    #[test]
    fn the_document_in_docs_is_the_one_that_is_served() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
        let served = serde_json::to_string_pretty(&document()).unwrap() + "\n";
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(&file, &served).unwrap();
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            kept == served,
            "docs/openapi.json differs from the served document: set {WRITE}=1 and run this test again"
        );
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn check(value: &Value, document: &Value) {
            match value {
                Value::Object(fields) => {
                    if let Some(path) = fields.get("$ref").and_then(Value::as_str) {
                        let found = document.pointer(path.trim_start_matches('#'));
                        assert!(found.is_some(), "{path}");
                    }
                    fields.values().for_each(|value| check(value, document));
                }
                Value::Array(items) => items.iter().for_each(|value| check(value, document)),
                _ => {}
            }
        }
        let document = document();
        check(&document, &document);
    }

    #[test]
    fn every_operation_has_a_name_of_its_own() {
        let mut names: Vec<String> = routes::all().iter().map(operation_id).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
