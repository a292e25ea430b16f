//! A planted secret of any kind, in any form, inside any prose, never comes out: whole, as JSON, or in pieces.

use proptest::prelude::*;
use redact::Redactor;
use serde_json::{Value, json};

use crate::agreement::{cuts, streamed};
use crate::unchanged::prose;

const KNOWN: &str = "tr0ub4dor & \"three\"/é";

/// Kinds that are known by their own look, wherever they stand.
fn telling() -> impl Strategy<Value = String> {
    const STARTS: &[&str] = &[
        "sk-",
        "sk-proj-",
        "sk-ant-",
        "sk_live_",
        "sk_test_",
        "rk_live_",
        "sk_",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat_",
        "xoxb-",
        "xoxp-",
        "xapp-1-",
        "AIza",
        "pplx-",
        "fal_",
        "fc-",
        "bb_live_",
        "gAAAA",
        "SG.",
        "hf_",
        "r8_",
        "npm_",
        "pypi-",
        "dop_v1_",
        "doo_v1_",
        "am_",
        "am_org_",
        "tvly-",
        "exa_",
        "gsk_",
        "syt_",
        "retaindb_",
        "hsk-",
        "mem0_",
        "brv_",
        "xai-",
        "ntn_",
        "fw-",
        "fw_",
        "fpk_",
        "pk-lf-",
        "glpat-",
        "gloas-",
        "gldt-",
        "glrt-",
        "glrtr-",
        "glcbt-",
        "glptt-",
        "glft-",
        "glimt-",
        "glagent-",
        "glsoat-",
        "glffct-",
        "glwt-",
        "GR1348941",
    ];
    // real keys are drawn from letters and digits; the digit in front spares us the few draws without one
    let keys = (prop::sample::select(STARTS), "[0-9][A-Za-z0-9]{40,48}")
        .prop_map(|(start, body)| start.to_owned() + &body);
    prop_oneof![
        10 => keys,
        1 => "AKIA[A-Z0-9]{16}",
        1 => "[0-9]{8,10}:AA[A-Za-z0-9_-]{33}",
        1 => "eyJ[A-Za-z0-9_-]{15,40}\\.eyJ[A-Za-z0-9_-]{15,40}\\.[A-Za-z0-9_-]{20,43}",
        1 => "[0-9a-f]{32}\\.[A-Za-z0-9]{16}",
        1 => "\\+[1-9][0-9]{9,13}",
    ]
}

/// A form around a secret, `§` marking its place. Any telling secret must be found in each.
const FORMS: &[&str] = &[
    "§",
    "(§)",
    "\"§\"",
    "'§'",
    "`§`",
    "key §.",
    "value=§",
    "value: §",
    "X-Custom: §",
    "{\"value\":\"§\",\"n\":1}",
    "{\\\"value\\\":\\\"§\\\",\\\"n\\\":1}",
    "\"{\\\\\\\"value\\\\\\\":\\\\\\\"§\\\\\\\"}\"",
    "https://host/?value=§&page=2",
    "https://host/§/x",
    "https://user:§@host/x",
    "export VALUE=§",
    "export VALUE='§'",
    "curl -H 'X-Custom: §' url",
    "first\n§\nlast",
    "first\\n§\\nlast",
    "\\u001b[31m§\\u001b[0m",
    "\u{1b}[1;31m§\u{1b}[0m",
    "<b>§</b>",
    "| a | § |",
    "value%3D§%26",
    "- §",
    "# §",
    "f(\"§\")",
    "let value = \"§\";",
    "[\"a\", \"§\"]",
    "a,§,b",
    "a;§;b",
    "\u{200b}§\u{200b}",
    "\0§\0",
];

/// Forms that name the secret, so that any value must be found.
const NAMED_FORMS: &[&str] = &[
    "DB_PASSWORD=§",
    "export DB_PASSWORD=§",
    "DB_PASSWORD=\"§\"",
    "password=§",
    "password='§'",
    "\"password\": \"§\"",
    "{\"password\":\"§\",\"n\":1}",
    "{\\\"password\\\":\\\"§\\\",\\\"n\\\":1}",
    "{\\\\\\\"password\\\\\\\": \\\\\\\"§\\\\\\\"}",
    "{'password': '§'}",
    "{\"apiKey\":\"§\"}",
    "access_token=§&state=x",
    "https://host/cb?access_token=§&state=x",
    "https://host/?x-amz-signature=§",
    "Authorization: Bearer §",
    "curl -H \"Authorization: Bearer §\" url",
    "{\"Authorization\": \"Basic §\"}",
    "x-api-key: §",
    "curl -H 'x-api-key: §' url",
    "postgres://app:§@db:5432/main",
    "https://app:§@host/path",
    "first\npassword: §\nlast",
    "first\\npassword: §\\nlast",
    "  password: §",
    "12| password: §",
    "password:\n  §\nnext: x",
    "mysql --password §",
    "--api-key=§",
    "spring.datasource.password=§",
    "const password = \"§\";",
    "Server=db;Password=§;Database=x",
    "let secret: &str = \"§\";",
    "client_secret=§&grant_type=x",
];

/// What a password or an opaque value may look like. Quotes, blanks and what ends a bare value are tried elsewhere.
fn password() -> impl Strategy<Value = String> {
    prop_oneof![
        "[A-Za-z][A-Za-z0-9_!*+~^-]{5,20}[0-9]",
        "[A-Za-z0-9]{20,60}1a",
        "[a-f0-9]{31}a",
        "[A-Za-z][A-Za-z0-9+/]{37}7b"
    ]
}

fn private_key() -> impl Strategy<Value = (String, String)> {
    let label = prop::sample::select(&["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "]);
    let line_break = prop::sample::select(&["\n", "\\n", "\\\\n", "\r\n", "\n    ", "\" +\n\""]);
    let lines = prop::collection::vec("[A-Za-z0-9+/]{64}", 1..30);
    (label, line_break, lines, "[A-Za-z0-9+/]{20,60}==", any::<bool>()).prop_map(
        |(label, line_break, lines, last, is_cut)| {
            let end =
                if is_cut { String::new() } else { format!("{line_break}-----END {label}PRIVATE KEY-----") };
            let body = lines.join(line_break);
            let key = format!("-----BEGIN {label}PRIVATE KEY-----{line_break}{body}{line_break}{last}{end}");
            (key, lines[lines.len() / 2].clone())
        },
    )
}

fn check(text: &str, secret: &str, cuts: &[prop::sample::Index]) -> Result<(), TestCaseError> {
    let redactor = Redactor::knowing([KNOWN]);
    let whole = redactor.redact(text);
    prop_assert!(!whole.contains(secret), "redact lets {:?} out of {:?}: {:?}", secret, text, whole);
    let pieces = streamed(&redactor, text, cuts);
    prop_assert!(!pieces.contains(secret), "the stream lets {:?} out of {:?}: {:?}", secret, text, pieces);
    for mut value in [
        json!({"text": text}),
        json!([["a", {"b": text}]]),
        json!({"arguments": json!({"text": text}).to_string()}),
        json!(json!(text).to_string()),
    ] {
        redactor.redact_json(&mut value);
        prop_assert!(!holds(&value, secret), "redact_json lets {:?} out of {:?}: {}", secret, text, value);
    }
    Ok(())
}

/// Whether any string inside `value`, as it is or unescaped once more, holds the secret.
fn holds(value: &Value, secret: &str) -> bool {
    match value {
        Value::String(text) => {
            text.contains(secret)
                || serde_json::from_str::<Value>(text).is_ok_and(|inner| holds(&inner, secret))
        }
        Value::Array(items) => items.iter().any(|item| holds(item, secret)),
        Value::Object(fields) => {
            fields.iter().any(|(name, field)| name.contains(secret) || holds(field, secret))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn plant(form: &str, secret: &str, (before, after): &(String, String)) -> String {
    format!("{before}\n{}\n{after}", form.replace('§', secret))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_key_with_a_look_of_its_own_never_comes_out(
        secret in telling(),
        form in prop::sample::select(FORMS),
        around in (prose(), prose()),
        cuts in cuts(),
    ) {
        check(&plant(form, &secret, &around), &secret, &cuts)?;
    }

    #[test]
    fn a_secret_under_its_name_never_comes_out(
        secret in password(),
        form in prop::sample::select(NAMED_FORMS),
        around in (prose(), prose()),
        cuts in cuts(),
    ) {
        check(&plant(form, &secret, &around), &secret, &cuts)?;
    }

    #[test]
    fn a_quoted_secret_with_any_characters_never_comes_out(
        secret in "[ -~]{8,40}".prop_filter("lookups are kept", |secret| {
            !secret.starts_with(['$', '{', '<', '%', '#', '@', '[']) && secret.trim().len() > 4
        }),
        cuts in cuts(),
    ) {
        let once = json!({"user": "bob", "password": secret, "n": 1}).to_string();
        let twice = json!({"arguments": once}).to_string();
        for (text, written) in [(&once, json!(secret).to_string()), (&twice, json!(json!(secret).to_string()).to_string())] {
            let written = written.trim_start_matches(['"', '\\']).trim_end_matches(['"', '\\']);
            let redactor = Redactor::default();
            prop_assert!(!redactor.redact(text).contains(written), "{}", redactor.redact(text));
            prop_assert!(!streamed(&redactor, text, &cuts).contains(written));
        }
        let mut value: Value = serde_json::from_str(&once).unwrap();
        Redactor::default().redact_json(&mut value);
        prop_assert_eq!(value, json!({"user": "bob", "password": "[redacted:password]", "n": 1}));
    }

    #[test]
    fn a_private_key_never_comes_out((key, line) in private_key(), around in (prose(), prose()), cuts in cuts()) {
        for form in ["§", "\"§\"", "key: §", "PRIVATE_KEY=\"§\""] {
            check(&plant(form, &key, &around), &line, &cuts)?;
        }
    }

    #[test]
    fn a_known_value_never_comes_out_in_any_writing(around in (prose(), prose()), cuts in cuts()) {
        let escaped = json!(KNOWN).to_string();
        let forms = [
            KNOWN.to_owned(),
            escaped.trim_matches('"').to_owned(),
            json!(escaped).to_string(),
            "tr0ub4dor%20%26%20%22three%22%2F%C3%A9".to_owned(),
            "tr0ub4dor+%26+%22three%22%2f%c3%a9".to_owned(),
        ];
        for form in forms {
            let text = plant(&form, "", &around);
            check(&text, "tr0ub4dor", &cuts)?;
            check(&text, "three", &cuts)?;
        }
    }

    #[test]
    fn a_key_split_by_invisible_characters_never_comes_out(
        secret in telling(),
        invisible in prop::sample::select(&["\u{200b}", "\u{ad}", "\u{2060}", "\u{feff}", "\u{e0041}", "\0", "\u{8}", "\u{1b}[0m", "\u{1b}[1;31m"]),
        at in any::<prop::sample::Index>(),
        cuts in cuts(),
    ) {
        let at = at.index(secret.len());
        let text = format!("it is {}{invisible}{} here", &secret[..at], &secret[at..]);
        let redactor = Redactor::default();
        for shown in [redactor.redact(&text).into_owned(), streamed(&redactor, &text, &cuts)] {
            let seen = redact::plain::plain(&shown);
            prop_assert!(!seen.contains(&secret), "{:?} is seen in {:?}", secret, seen);
        }
    }
}
