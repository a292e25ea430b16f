//! Messages of parsers in words that callers know: no names of Rust types.

/// The message of serde, TOML or axum about a value that does not fit.
pub fn parser_message(message: &str) -> String {
    // The place in a body says little to the caller of an API.
    let is_place = |place: &str| place.chars().all(|char| char.is_ascii_digit() || " column".contains(char));
    let placed = message.rsplit_once(" at line ").filter(|(_, place)| is_place(place));
    let message = placed.map_or(message, |(message, _)| message);
    let message = ["Failed to deserialize query string: ", "Invalid URL: "]
        .into_iter()
        .fold(message, |message, prefix| message.strip_prefix(prefix).unwrap_or(message));
    let message = message
        .replace("invalid float literal", "expected a number")
        .replace("invalid digit found in string", "expected a whole number")
        .replace("cannot parse integer from empty string", "expected a whole number")
        .replace("number too large to fit in target type", "the number is too large")
        .replace("number too small to fit in target type", "the number is too small");
    let Some((found, expected)) = message.rsplit_once("expected ").or(message.rsplit_once(" to a ")) else {
        return message;
    };
    let words = match expected.trim_matches('`') {
        "usize" | "u64" | "u32" | "u16" | "u8" | "i64" | "i32" | "i16" | "i8" => "a whole number",
        "f64" | "f32" => "a number",
        "a boolean" => "true or false",
        "a string" | "path string" => "text in quotes",
        "a sequence" => "a list",
        "a map" => "an object or a table",
        other if other.starts_with("struct ") => "an object or a table",
        _ => return message,
    };
    format!("{found}expected {words}").replace("`expected", "`, expected")
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only its errors matter")]
    struct Call {
        count: u32,
        seconds: f64,
        names: Vec<String>,
    }

    fn shown(json: &str) -> String {
        parser_message(&serde_json::from_str::<Call>(json).unwrap_err().to_string())
    }

    #[test]
    fn no_type_of_rust_is_named() {
        assert_eq!(shown(r#"{"count":"many"}"#), "invalid type: string \"many\", expected a whole number");
        assert_eq!(shown(r#"{"count":1,"seconds":"x"}"#), "invalid type: string \"x\", expected a number");
        assert_eq!(shown(r#"{"names":1}"#), "invalid type: integer `1`, expected a list");
        assert_eq!(shown("7"), "invalid type: integer `7`, expected an object or a table");
        let query = "Failed to deserialize query string: timeout_s: invalid float literal";
        assert_eq!(parser_message(query), "timeout_s: expected a number");
        assert_eq!(parser_message("limit: invalid digit found in string"), "limit: expected a whole number");
        assert_eq!(
            parser_message("Invalid URL: Cannot parse `x` to a `i64`"),
            "Cannot parse `x`, expected a whole number"
        );
        assert_eq!(parser_message("missing field `prompt` at line 1 column 2"), "missing field `prompt`");
        assert_eq!(
            shown("{\n  \"count\":\n    true\n}"),
            "invalid type: boolean `true`, expected a whole number"
        );
        assert_eq!(
            parser_message("limit: number too large to fit in target type"),
            "limit: the number is too large"
        );
    }
}
