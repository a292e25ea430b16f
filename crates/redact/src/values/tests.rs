//! What values look like, one table per question.

use super::*;

#[track_caller]
fn check(name: &str, predicate: impl Fn(&[u8]) -> bool, holds: &[&str], fails: &[&str]) {
    for value in holds {
        assert!(predicate(value.as_bytes()), "{value:?} should be {name}");
    }
    for value in fails {
        assert!(!predicate(value.as_bytes()), "{value:?} should not be {name}");
    }
}

#[test]
fn harmless_values_hold_no_secret() {
    check(
        "harmless",
        is_harmless,
        &[
            "",
            "***",
            "xxxxxxxx",
            "••••",
            "[redacted:token]",
            "[redacted:a][redacted:b]",
            "[REDACTED]",
            "<redacted>",
            "REDACTED",
            "$VAR",
            "${var}",
            "$(cat file)",
            "$password",
            "$config->x",
            "$1",
            "{{ x }}",
            "{name}",
            "<your key>",
            "%VAR%",
            "%s",
            "os.getenv('X')",
            "process.env.X",
            "std::env::var(\"X\")",
            "null",
            "None",
            "TRUE",
            "[key]",
            "op://vault/item",
        ],
        &[
            "hunter2",
            "[redacted:token]x",
            "x[redacted:token]",
            "$ecret1",
            "x",
            "**",
            "truely",
            "redactedx!",
            "A***0a0",
            "[k3y]",
        ],
    );
}

#[test]
fn expressions_are_code() {
    check(
        "an expression",
        is_expression,
        &[
            "get_token()",
            "user.password",
            "self.x",
            "Token::new(",
            "args[0]",
            "a->b",
            "a?.b",
            "Vec<u8>",
            "quote!{",
            "Token![;]",
            "&mut",
            "*const",
            "&[u8",
            "*anchor",
            "::core::ptr",
            "(0..9",
            "password",
            "new_token",
            "value,",
            "await",
            "String",
            "u32",
            "__u64",
            "size_t",
            "c_char",
            "DEFAULT_VALUE",
            "win32api.RegOpenKeyEx",
            "[redacted:jwt](x)",
            "<T>::default()",
            ":symbol",
        ],
        &[
            "hunter2",
            "correcthorse",
            "a1b2c3d4e5f6",
            "x.1",
            "aA0AAaA0aaa0aa0pwAAA1a",
            "5ecret",
            "Tr0ub4(dor",
            "",
            "abc.a1b2c3d4",
        ],
    );
}

#[test]
fn opaque_values_look_generated() {
    check(
        "opaque",
        is_opaque,
        &["a1b2c3d4", "0123456789abcdef", "user-a1b2c3d4e5", "wJalrXUtnFEMI/K7MDENG/bPxRfi1CYEXAMPLE"],
        &[
            "value",
            "v1.2.3",
            "python3.11-slim",
            "users/2024/summary",
            "hunter2",
            "",
            "12345678901234567890",
            "[redacted:a1b2c3d4e5]",
        ],
    );
}

#[test]
fn plain_values_are_words_and_numbers() {
    check(
        "plain",
        |value| is_plain(value, false),
        &[
            "",
            "word",
            "two words",
            "kebab-case",
            "snake_case",
            "a/b/c",
            "oauth2",
            "sha256",
            "4096",
            "0x1f_u32",
            "16384i32",
            "tuple.0",
            "quote!",
            "#d8dee9",
            "^3.1.0",
            "v1.2.3",
            r"\w+",
            "日本",
            "!",
            "users/2024/summary-v2",
        ],
        &["a1b2c3", "s3cret", "word!1", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "ab12-cd34", "p@ss"],
    );
    check("plain as a password", |value| is_plain(value, true), &["word", "4096"], &["hunter2", "word!"]);
}

#[test]
fn numbers_are_no_keys_unless_they_are_long() {
    check("a number", is_number, &["0", "4096", "1_000", "0xff", "5u8", "99%"], &["a", "0xzz", "u8", "1a"]);
    let key = format!("0x{}", "4c".repeat(32));
    assert!(!is_number(key.as_bytes()));
    check("a pin", is_pin, &["1234", "123456"], &["123", "12a4"]);
}

#[test]
fn locations_say_where() {
    check(
        "a location",
        is_location,
        &["/run/secrets/db", "./x", "../x", "~/x", "C:\\x", "https://host/x"],
        &["x", "password=://", "/a1b2c3d4e5f6a1b2c3d4", "x/y"],
    );
}
