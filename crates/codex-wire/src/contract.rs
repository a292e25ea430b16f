//! The names in Codex's protocol that we rely on, and a comparison with the schema of an installed Codex.
//!
//! It has two users. A test fails when the pinned Codex no longer has these names. The handshake refuses a Codex that
//! is newer than tested if its approvals have changed.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::os::process::random_id;
use crate::{call, event, reason};

mod reliance;

use reliance::{APPROVALS, Reliance, THREADS_AND_TURNS};

/// Schema generation takes 0.2 s (codex 0.166).
const GENERATE_LIMIT: Duration = Duration::from_secs(10);

/// Writes the schema of the Codex at `binary` into `folder`.
pub async fn generate_schema(binary: &Path, folder: &Path) -> Result<(), String> {
    let mut command = tokio::process::Command::new(binary);
    command
        .args(["app-server", "generate-json-schema", "--experimental", "--out"])
        .arg(folder)
        // The schema depends on no configuration, and the user's home must not be touched.
        .env("CODEX_HOME", folder)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(GENERATE_LIMIT, command.output())
        .await
        .map_err(|_| "codex did not write its schema in time".to_owned())?
        .map_err(|error| format!("cannot run {}: {}", binary.display(), reason(&error)))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("codex did not write its schema ({})", output.status))
    }
}

/// Compares all names that we rely on with the schema in `folder`. Each entry names what is missing or changed.
pub fn check(folder: &Path) -> Vec<String> {
    let mut broken = Vec::new();
    check_methods(folder, "ClientRequest.json", call::METHODS, &mut broken);
    check_methods(folder, "ServerNotification.json", event::METHODS, &mut broken);
    check_approvals(folder, &mut broken);
    for reliance in THREADS_AND_TURNS {
        check_reliance(folder, reliance, &mut broken);
    }
    broken
}

/// What changed in the approvals of the Codex at `binary`. An error while reading the schema counts as a change.
pub async fn drifted_approvals(binary: &Path) -> Vec<String> {
    let folder = match make_private_folder() {
        Ok(folder) => folder,
        Err(error) => return vec![format!("cannot create a folder for codex's schema: {}", reason(&error))],
    };
    let mut broken = Vec::new();
    match generate_schema(binary, &folder).await {
        Ok(()) => check_approvals(&folder, &mut broken),
        Err(error) => broken.push(error),
    }
    // If this fails, a temporary folder stays, which does no harm.
    std::fs::remove_dir_all(&folder).ok();
    broken
}

/// A new private folder in the temporary directory.
fn make_private_folder() -> std::io::Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("codex-bridge-schema-{}", random_id()?));
    DirBuilder::new().mode(0o700).create(&folder)?;
    Ok(folder)
}

fn check_approvals(folder: &Path, broken: &mut Vec<String>) {
    let methods: Vec<_> = APPROVALS.iter().filter_map(|reliance| reliance.method).collect();
    check_methods(folder, "ServerRequest.json", &methods, broken);
    for reliance in APPROVALS {
        check_reliance(folder, reliance, broken);
    }
}

fn read(folder: &Path, file: &str) -> Result<Value, String> {
    let text = std::fs::read(folder.join(file)).map_err(|error| format!("{file}: {}", reason(&error)))?;
    serde_json::from_slice(&text).map_err(|error| format!("{file}: {error}"))
}

fn check_methods(folder: &Path, file: &str, methods: &[&str], broken: &mut Vec<String>) {
    let schema = match read(folder, file) {
        Ok(schema) => schema,
        Err(error) => return broken.push(error),
    };
    let variants = schema.get("oneOf").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let known = |method: &&&str| {
        variants.iter().any(|variant| variant["properties"]["method"]["enum"][0] == **method)
    };
    broken.extend(
        methods.iter().filter(|method| !known(method)).map(|method| format!("{file}: no method {method}")),
    );
}

fn check_reliance(folder: &Path, reliance: &Reliance, broken: &mut Vec<String>) {
    let Reliance { file, definition, .. } = reliance;
    let schema = match read(folder, file) {
        Ok(schema) => schema,
        Err(error) => return broken.push(error),
    };
    let whole = if definition.is_empty() { Some(&schema) } else { schema["definitions"].get(definition) };
    let Some(whole) = whole else { return broken.push(format!("{file}: no type {definition}")) };
    let name = if definition.is_empty() { file } else { definition };
    let (part, name) = match reliance.variant {
        "" => (Some(whole), (*name).to_owned()),
        tag => (alternatives(whole).find(|it| has_tag(it, tag)), format!("{name} {tag}")),
    };
    let Some(part) = part else { return broken.push(format!("{file}: no {name}")) };
    for field in reliance.fields {
        if !has_field(part, field) {
            broken.push(format!("{name}: no field {field}"));
        }
    }
    for value in reliance.values {
        if !has_value(part, value) {
            broken.push(format!("{name}: no value {value}"));
        }
    }
    // A new required field that we do not send breaks our calls.
    if reliance.sent {
        let required = part.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let missing =
            required.iter().filter_map(Value::as_str).filter(|field| !reliance.fields.contains(field));
        broken.extend(missing.map(|field| format!("{name}: now requires {field}")));
    }
}

/// Whether the type, or one of its alternatives, has this field.
fn has_field(part: &Value, field: &str) -> bool {
    if part["properties"].get(field).is_some() {
        return true;
    }
    alternatives(part).any(|alternative| has_field(alternative, field))
}

/// Whether the type allows this value: in an enum, or as the key of a one-key object.
fn has_value(part: &Value, value: &str) -> bool {
    let in_enum = part["enum"].as_array().is_some_and(|values| values.iter().any(|it| it == value));
    let as_key = part["properties"].get(value).is_some();
    in_enum
        || has_tag(part, value)
        || as_key
        || alternatives(part).any(|alternative| has_value(alternative, value))
}

/// Whether the type is the alternative with this `type`.
fn has_tag(part: &Value, tag: &str) -> bool {
    part["properties"]["type"]["enum"].as_array().is_some_and(|values| values.iter().any(|it| it == tag))
}

fn alternatives(part: &Value) -> impl Iterator<Item = &Value> {
    ["oneOf", "anyOf", "allOf"].into_iter().filter_map(|key| part[key].as_array()).flatten()
}
