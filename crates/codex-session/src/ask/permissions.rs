//! What a permission request would allow, one line each. Unknown entries are shown as JSON.

use codex_wire::request::{FileSystemPermissions, Permissions};
use serde::Deserialize;
use serde_json::Value;

/// The lines for a set of permissions.
pub(super) fn opens(permissions: &Permissions) -> Vec<String> {
    let mut lines = permissions.file_system.as_ref().map(files).unwrap_or_default();
    if permissions.network.as_ref().is_some_and(|network| network.enabled != Some(false)) {
        lines.push("the network".to_owned());
    }
    lines
}

/// What permissions that came as JSON would open.
pub(super) fn opens_raw(raw: &Value) -> Vec<String> {
    Permissions::deserialize(raw).map_or_else(|_| vec![raw.to_string()], |permissions| opens(&permissions))
}

/// The host of a network approval: `https://example.org`.
pub(super) fn host(raw: &Value) -> String {
    let text = |key: &str| raw.get(key).and_then(Value::as_str);
    match (text("protocol"), text("host")) {
        (Some(protocol), Some(host)) => format!("{protocol}://{host}"),
        _ => raw.to_string(),
    }
}

/// codex 0.166 says the same twice, by list and by entry: each line once.
fn files(files: &FileSystemPermissions) -> Vec<String> {
    let listed = |access: &'static str, paths: &Option<Vec<String>>| -> Vec<String> {
        paths.iter().flatten().map(|path| format!("{access} {}", place(path))).collect()
    };
    let mut lines = listed("write", &files.write);
    lines.extend(listed("read", &files.read));
    lines.extend(files.entries.iter().flatten().map(entry));
    let mut seen = std::collections::HashSet::new();
    lines.retain(|line| seen.insert(line.clone()));
    lines
}

fn entry(raw: &Value) -> String {
    let place = raw.get("path").and_then(entry_place);
    match (raw.get("access").and_then(Value::as_str), place) {
        (Some(access), Some(place)) => format!("{access} {place}"),
        _ => raw.to_string(),
    }
}

fn entry_place(path: &Value) -> Option<String> {
    match path.get("type")?.as_str()? {
        "path" => Some(place(path.get("path")?.as_str()?)),
        "glob_pattern" => Some(format!("all that matches {}", path.get("pattern")?.as_str()?)),
        "special" => {
            let special = path.get("value")?;
            let subpath = special.get("subpath").and_then(Value::as_str);
            match special.get("kind")?.as_str()? {
                "root" => Some(place("/")),
                "tmpdir" => Some("$TMPDIR".to_owned()),
                "slash_tmp" => Some("/tmp".to_owned()),
                "project_roots" => {
                    Some(subpath.map_or("the workspace".to_owned(), |it| format!("{it} in the workspace")))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

fn place(path: &str) -> String {
    if !path.is_empty() && path.chars().all(|c| c == '/') {
        "/ (the whole file system)".to_owned()
    } else {
        path.to_owned()
    }
}
