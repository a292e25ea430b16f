//! Random commands: secrets of every kind, in every quoting and nesting, beside everything that a shell acts on.
//!
//! They are run by one of the properties. So they name no program by its path, and only those that stand for others.

use proptest::prelude::*;

/// Values that the program knows to be secret.
pub const KNOWN: [&str; 2] = ["known-Value-77", "known $(beta k); 'x' \"y\""];

/// A line of the private key.
pub const KEY_MATERIAL: &str = "MIIEpAIBAAKCAQEA1234567890abcdefghij";

/// Programs that record that they ran.
pub const PROGRAMS: [&str; 6] = ["alpha", "beta", "gamma", "curl", "psql", "npm"];

fn of(texts: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(texts).prop_map(str::to_owned)
}

fn secret() -> impl Strategy<Value = String> {
    let generated = of(&[
        concat!("ghp", "_aB3dE5gH7jK9mN1pQrS2tU4vW6xY8zA0bC2d"),
        concat!("npm", "_aB3dE5gH7jK9mN1pQrS2tU4vW6xY8zA0bC2d"),
        concat!("sk", "-proj-aB3dE5gH7jK9mN1pQrS2tU4vW6xY8z"),
        concat!("sk", "-alpha.beta1.gamma"),
        concat!("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0", ".aB3dE5gH7jK9mN1pQrS2tU4vW6xY8zA0bC2d4f6h8j0"),
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw4",
        "AKIAIOSFODNN7EXAMPLE",
        "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
    ]);
    let readable =
        of(&["hunter2", "beta", "alpha", "rm", "s3cret!", "p@ss:w0rd", "+14155552671", "dXNlcjpwYXNz"]);
    let known = prop::sample::select(&KNOWN[..]).prop_map(str::to_owned);
    let key =
        Just(format!("-----BEGIN PRIVATE KEY-----\n{KEY_MATERIAL}\nbeta in-key\n-----END PRIVATE KEY-----"));
    prop_oneof![6 => generated, 4 => readable, 1 => known, 1 => key]
}

/// What a shell acts on, to stand in or beside a secret.
fn active() -> impl Strategy<Value = String> {
    of(&[
        "$(beta in)",
        "`beta in`",
        "${X:-$(beta in)}",
        "$((1 + $(beta in)))",
        "<(beta in)",
        ";beta in;",
        "|beta in",
        "&beta in",
        "&&beta${IFS}in",
        "\nbeta in\n",
        " ",
        "\\\n",
        "$X",
        "${X}",
        "~",
        "*",
        "{a,b}",
        "\\",
        "$'\\x24(beta)'",
        "#",
        "'",
        "\"",
    ])
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => secret(),
        2 => (secret(), active()).prop_map(|(secret, active)| secret + &active),
        2 => (active(), secret()).prop_map(|(active, secret)| active + &secret),
        1 => (secret(), active(), secret()).prop_map(|(a, b, c)| a + &b + &c),
        1 => active(),
    ]
}

fn quoted() -> impl Strategy<Value = String> {
    (value(), 0..4).prop_map(|(value, quoting)| match quoting {
        0 => value,
        1 => format!("\"{value}\""),
        2 => format!("'{value}'"),
        _ => format!("$'{value}'"),
    })
}

/// An argument, or an assignment before a program.
fn carrier() -> impl Strategy<Value = String> {
    (quoted(), value(), 0..16).prop_map(|(quoted, value, form)| match form {
        0 => format!("--password={quoted}"),
        1 => format!("--password {quoted}"),
        2 => format!("--token={quoted}"),
        3 => format!("-H \"Authorization: Bearer {value}\""),
        4 => format!("-H 'X-Api-Key: {value}'"),
        5 => format!("https://user:{value}@host"),
        6 => format!("\"postgres://app:{value}@db\""),
        7 => format!("-d '{{\"password\": \"{value}\", \"n\": 1}}'"),
        8 => format!("-u bob:{quoted}"),
        9 => format!("\"https://h?a=b&access_token={value}\""),
        10 => format!("-H \"Cookie: id={value}\""),
        11 => format!("> out-{quoted}"),
        12 => format!("<<< {quoted}"),
        13 => format!("-e TOKEN={quoted}"),
        _ => quoted,
    })
}

fn assignment() -> impl Strategy<Value = String> {
    (of(&["DB_PASSWORD", "PWD", "TOKEN", "API_KEY", "CLIENT_SECRET", "PLAIN"]), quoted())
        .prop_map(|(name, quoted)| format!("{name}={quoted}"))
}

fn program() -> impl Strategy<Value = String> {
    prop_oneof![
        10 => prop::sample::select(&PROGRAMS[..]).prop_map(str::to_owned),
        1 => of(&["$TOKEN", "\"$API_KEY\"", "${DB_PASSWORD%%_*}", "eval $TOKEN", "sh -c \"$TOKEN\"", "export", "alias", "~+", "~+/x"]),
        1 => secret(),
    ]
}

fn simple() -> impl Strategy<Value = String> {
    let words =
        prop::collection::vec(prop_oneof![2 => carrier(), 1 => of(&["x", "-v", "$TOKEN", "\"$X\""])], 0..3);
    let before = prop::collection::vec(assignment(), 0..2);
    prop_oneof![
        8 => (before, program(), words).prop_map(|(before, program, words)| {
            let words = before.into_iter().chain([program]).chain(words);
            words.collect::<Vec<_>>().join(" ")
        }),
        2 => assignment(),
    ]
}

fn single_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Commands, also one within another, and as Codex hands them over.
pub fn any_command() -> impl Strategy<Value = String> {
    let nested = simple().prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            4 => (inner.clone(), of(&["; ", " && ", " | ", " || ", "\n", " & "]), inner.clone())
                .prop_map(|(a, between, b)| a + &between + &b),
            1 => inner.clone().prop_map(|inner| format!("sh -c {}", single_quoted(&inner))),
            1 => inner.clone().prop_map(|inner| format!("eval \"{inner}\"")),
            1 => inner.clone().prop_map(|inner| format!("alpha $({inner})")),
            1 => inner.clone().prop_map(|inner| format!("alpha \"$({inner})\"")),
            1 => inner.clone().prop_map(|inner| format!("( {inner} )")),
            1 => inner.clone().prop_map(|inner| format!("{{ {inner}; }}")),
            1 => inner.clone().prop_map(|inner| format!("if alpha; then {inner}; fi")),
            1 => inner.clone().prop_map(|inner| format!("for TOKEN in beta; do {inner}; done")),
            1 => inner.clone().prop_map(|inner| format!("sh <<E\n{inner}\nE")),
            1 => inner.prop_map(|inner| format!("alpha <({inner})")),
        ]
    });
    (nested, prop::bool::ANY).prop_map(|(command, is_wrapped)| {
        if is_wrapped { format!("bash -lc {}", single_quoted(&command)) } else { command }
    })
}
