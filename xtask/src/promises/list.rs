//! The ids in `docs/promises.md`: the first cell of each row of its tables.

/// All ids in their order, each once.
pub fn ids(text: &str) -> Result<Vec<String>, String> {
    let mut ids: Vec<String> = Vec::new();
    for id in text.lines().filter_map(row_id) {
        if ids.iter().any(|known| known == id) {
            return Err(format!("docs/promises.md lists {id} twice"));
        }
        ids.push(id.to_owned());
    }
    if ids.is_empty() {
        return Err("docs/promises.md lists no promise".to_owned());
    }
    Ok(ids)
}

fn row_id(line: &str) -> Option<&str> {
    let cell = line.trim_start().strip_prefix('|')?.split('|').next()?.trim();
    is_id(cell).then_some(cell)
}

/// A capital letter first (no header, no ruler), then letters, digits and hyphens.
pub fn is_id(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}
