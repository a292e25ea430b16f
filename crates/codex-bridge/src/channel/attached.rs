//! What came with a message and cannot be read here: it is named to Codex, in the same words whatever platform it came by.
//! Pure.

/// One of them. What has no kind is a file.
pub fn line(kind: Option<&str>, name: Option<&str>) -> String {
    let kind = kind.unwrap_or("file");
    let name = name.map(|name| format!(": {name}")).unwrap_or_default();
    format!("[{kind} attached{name}; it cannot be read here]")
}

/// What was said, with these below it.
pub fn below(said: &str, lines: impl IntoIterator<Item = String>) -> String {
    let lines = lines.into_iter().collect::<Vec<_>>().join("\n");
    match (said.trim().is_empty(), lines.is_empty()) {
        (_, true) => said.to_owned(),
        (true, false) => lines,
        (false, false) => format!("{said}\n\n{lines}"),
    }
}
