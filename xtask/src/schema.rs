//! `schema`: the snapshot of Codex's own schema that the wire types are compared with, taken anew from the pinned codex.
//! There is no JSON parser here: codex prints its schema indented and in a stable order, so lines are enough.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use codex_binary::Codex;

use crate::setup;
use crate::steps::Steps;
use crate::workspace;

const ALONE: &str = "cargo xtask schema";
/// Everything of the current protocol in one file.
const BUNDLE: &str = "codex_app_server_protocol.v2.schemas.json";
/// What only one side may send.
const DIRECTIONS: [&str; 3] = ["ClientRequest.json", "ServerNotification.json", SERVER_REQUEST];
const SERVER_REQUEST: &str = "ServerRequest.json";

/// Runs the command.
pub fn run() -> Result<(), String> {
    let mut steps = Steps::default();
    let codex = steps.step("setup", setup::ALONE, setup::codex)?;
    steps.step("schema", ALONE, || regenerate(&codex, &workspace::root().join("crates/codex-wire/schema")))
}

fn regenerate(codex: &Codex, into: &Path) -> Result<(), String> {
    let aside = workspace::root().join(".tools/schema");
    let generated = generate(codex, &aside)?;
    let fresh =
        selected(&generated).map_err(|error| format!("the new schema could not be read ({error})"))?;
    let old = json_files(into).map_err(|error| format!("{} could not be read ({error})", into.display()))?;
    print!("{}", difference(&old, &fresh));
    replace(into, &old, &fresh)
        .map_err(|error| format!("{} could not be written ({error})", into.display()))?;
    fs::remove_dir_all(&aside).map_err(|error| format!("{} could not be removed ({error})", aside.display()))
}

/// Lets codex write its schema, in a home of its own: it must not see or change the user's.
fn generate(codex: &Codex, aside: &Path) -> Result<PathBuf, String> {
    let (home, out) = (aside.join("home"), aside.join("out"));
    for folder in [&home, &out] {
        fs::create_dir_all(folder)
            .map_err(|error| format!("{} could not be made ({error})", folder.display()))?;
    }
    let output = Command::new(&codex.executable)
        .args(["app-server", "generate-json-schema", "--experimental", "--out"])
        .arg(&out)
        .env("HOME", &home)
        .env("CODEX_HOME", &home)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("codex could not be started ({error})"))?;
    if output.status.success() {
        return Ok(out);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "codex could not write its schema ({}: {})",
        output.status,
        stderr.lines().last().unwrap_or_default()
    ))
}

/// The files that we keep: the bundle, the directions, and the answers to what the server asks. Those are not in any
/// of the former, because no message names them.
fn selected(generated: &Path) -> io::Result<BTreeMap<String, String>> {
    let files = json_files(generated)?;
    let requests = files.get(SERVER_REQUEST).cloned().unwrap_or_default();
    let is_answer = |name: &str| {
        let asked = name.strip_suffix("Response.json").map(|stem| format!("\"{stem}Params\""));
        asked.is_some_and(|asked| requests.contains(&asked))
    };
    let is_kept = |name: &str| name == BUNDLE || DIRECTIONS.contains(&name) || is_answer(name);
    Ok(files.into_iter().filter(|(name, _)| is_kept(name)).collect())
}

/// The JSON files right in a folder, by name; none if there is no such folder.
fn json_files(folder: &Path) -> io::Result<BTreeMap<String, String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        entries => entries?,
    };
    let mut files = BTreeMap::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.insert(name, fs::read_to_string(&path)?);
        }
    }
    Ok(files)
}

fn replace(into: &Path, old: &BTreeMap<String, String>, fresh: &BTreeMap<String, String>) -> io::Result<()> {
    fs::create_dir_all(into)?;
    for name in old.keys().filter(|name| !fresh.contains_key(*name)) {
        fs::remove_file(into.join(name))?;
    }
    fresh.iter().try_for_each(|(name, text)| fs::write(into.join(name), text))
}

/// Files and definitions that came, went or changed, a line for each kind.
fn difference(old: &BTreeMap<String, String>, fresh: &BTreeMap<String, String>) -> String {
    let mut text = changes("files", old, fresh);
    if let (Some(before), Some(after)) = (old.get(BUNDLE), fresh.get(BUNDLE)) {
        text += &changes("definitions", &definitions(before), &definitions(after));
    }
    if text.is_empty() { "the schema is unchanged\n".to_owned() } else { text }
}

fn changes(what: &str, old: &BTreeMap<String, String>, fresh: &BTreeMap<String, String>) -> String {
    let added = fresh.keys().filter(|name| !old.contains_key(*name)).collect();
    let removed = old.keys().filter(|name| !fresh.contains_key(*name)).collect();
    let is_changed = |name: &&String| fresh.get(*name).is_some_and(|text| *text != old[*name]);
    let changed = old.keys().filter(is_changed).collect();
    line(what, "added", &added) + &line(what, "removed", &removed) + &line(what, "changed", &changed)
}

fn line(what: &str, how: &str, names: &Vec<&String>) -> String {
    let list = names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
    if names.is_empty() { list } else { format!("{what} {how} ({}): {list}\n", names.len()) }
}

/// The definitions of a schema by name. In codex's print they begin four blanks deep.
fn definitions(schema: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut current: Option<&mut String> = None;
    let inside = schema.lines().skip_while(|line| *line != "  \"definitions\": {").skip(1);
    for line in inside.take_while(|line| line.starts_with("    ")) {
        if let Some(name) = line.strip_prefix("    \"").and_then(|rest| rest.split('"').next()) {
            current = Some(found.entry(name.to_owned()).or_default());
        }
        if let Some(text) = current.as_mut() {
            // The comma after a definition only says that another one follows.
            text.push_str(if line == "    }," { "    }" } else { line });
            text.push('\n');
        }
    }
    found
}

#[cfg(test)]
mod tests;
