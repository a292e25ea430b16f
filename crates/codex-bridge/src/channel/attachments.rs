//! Attachments of a message. The bridge cannot read them; Codex gets their names, in the same words for every platform. Pure.

/// The line that names one attachment. An attachment without a kind is a file.
pub fn line(kind: Option<&str>, name: Option<&str>) -> String {
    let kind = kind.unwrap_or("file");
    let name = name.map(|name| format!(": {name}")).unwrap_or_default();
    format!("[{kind} attached{name}; it cannot be read here]")
}

/// The text of a message with the lines of its attachments below it.
pub fn append(text: &str, lines: impl IntoIterator<Item = String>) -> String {
    let lines = lines.into_iter().collect::<Vec<_>>().join("\n");
    match (text.trim().is_empty(), lines.is_empty()) {
        (_, true) => text.to_owned(),
        (true, false) => lines,
        (false, false) => format!("{text}\n\n{lines}"),
    }
}
