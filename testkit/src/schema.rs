//! The installed Codex's own JSON schema, and whether a message fits it.
//!
//! Knows just the part of draft-07 that Codex's schema uses. A name that is not in the schema does not fit.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::rig::codex_path;

/// The schema files that the installed Codex wrote.
#[derive(Debug)]
pub struct Schema {
    dir: TempDir,
}

impl Schema {
    /// Lets the installed Codex write its schema, experimental methods and fields included.
    pub fn of_installed_codex() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let output = Command::new(codex_path())
            .args(["app-server", "generate-json-schema", "--experimental", "--out"])
            .arg(dir.path())
            .env("CODEX_HOME", dir.path())
            .output()
            .expect("codex can be run");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "codex wrote no schema: {said}");
        Self { dir }
    }

    /// Whether a whole notification fits.
    pub fn check_notification(&self, message: &Value) -> Result<(), String> {
        self.check_by_method("ServerNotification", message)
    }

    /// Whether a whole server request fits.
    pub fn check_server_request(&self, message: &Value) -> Result<(), String> {
        self.check_by_method("ServerRequest", message)
    }

    /// Whether a whole client request fits.
    pub fn check_client_request(&self, message: &Value) -> Result<(), String> {
        self.check_by_method("ClientRequest", message)
    }

    /// Whether a result or the like fits the type of this name, such as `ThreadStartResponse`.
    pub fn check(&self, name: &str, value: &Value) -> Result<(), String> {
        let root = self.read(name);
        fit(&root, &root, value, name)
    }

    /// Looks at the one alternative with the message's method, so that the complaint names the field.
    fn check_by_method(&self, name: &str, message: &Value) -> Result<(), String> {
        let root = self.read(name);
        let alternatives = root["oneOf"].as_array().map(Vec::as_slice).unwrap_or_default();
        let method = &message["method"];
        let is_it = |schema: &&Value| &schema["properties"]["method"]["enum"][0] == method;
        match alternatives.iter().find(is_it) {
            Some(schema) => fit(&root, schema, message, method.as_str().unwrap_or(name)),
            None => Err(format!("{name} knows no method {method}")),
        }
    }

    fn read(&self, name: &str) -> Value {
        let places = ["", "v2", "v1"].map(|part| self.dir.path().join(part).join(format!("{name}.json")));
        let file = places.iter().find(|path| path.is_file());
        let file: &Path = file.unwrap_or_else(|| panic!("the schema of codex has no {name}"));
        let text = fs::read_to_string(file).expect("a schema file can be read");
        serde_json::from_str(&text).expect("a schema file is JSON")
    }
}

/// `at` is where in the message we are, for the complaint.
fn fit(root: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return match target {
            Some(target) => fit(root, target, value, at),
            None => Err(format!("{at}: the schema lacks {reference}")),
        };
    }
    if schema == &Value::Bool(false) {
        return Err(format!("{at}: nothing is allowed here"));
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        return Err(format!("{at}: {value} is none of {}", schema["enum"]));
    }
    fit_type(&schema["type"], value, at)?;
    fit_alternatives(root, schema, value, at)?;
    fit_fields(root, schema, value, at)?;
    for (index, element) in value.as_array().into_iter().flatten().enumerate() {
        if schema["items"].is_object() {
            fit(root, &schema["items"], element, &format!("{at}[{index}]"))?;
        }
    }
    Ok(())
}

fn fit_type(wanted: &Value, value: &Value, at: &str) -> Result<(), String> {
    let fits = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    };
    let fits = match wanted {
        Value::String(name) => fits(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(fits),
        _ => true,
    };
    if fits { Ok(()) } else { Err(format!("{at}: {value} is not of type {wanted}")) }
}

fn fit_alternatives(root: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    for part in schema["allOf"].as_array().into_iter().flatten() {
        fit(root, part, value, at)?;
    }
    for keyword in ["anyOf", "oneOf"] {
        let Some(alternatives) = schema[keyword].as_array() else { continue };
        let complaints: Vec<String> =
            alternatives.iter().filter_map(|one| fit(root, one, value, at).err()).collect();
        if complaints.len() == alternatives.len() {
            return Err(format!("{at}: none of its forms fits: {}", complaints.join("; ")));
        }
    }
    Ok(())
}

fn fit_fields(root: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let Some(fields) = value.as_object() else { return Ok(()) };
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !fields.contains_key(name) {
            return Err(format!("{at}: {name} is missing"));
        }
    }
    for (name, field) in fields {
        let below = format!("{at}.{name}");
        match (schema["properties"].get(name), schema.get("additionalProperties")) {
            (Some(known), _) => fit(root, known, field, &below)?,
            (None, Some(others)) => fit(root, others, field, &below)?,
            (None, None) => {}
        }
    }
    Ok(())
}
