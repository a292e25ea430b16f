//! The stream agrees with the whole, redacting twice changes nothing, and JSON stays JSON: on any text at all.

use proptest::prelude::*;
use redact::Redactor;

/// Pieces that matter to some rule, so that random texts reach every corner of the scanner.
const PIECES: &[&str] = &[
    " ",
    " ",
    "  ",
    "\n",
    "\t",
    "\r\n",
    "\"",
    "\"",
    "'",
    "`",
    "\\",
    "\\\"",
    "\\\\\"",
    "\\n",
    "\\t",
    "\\u0026",
    "\\u001b[31m",
    "=",
    "=",
    ":",
    ": ",
    " = ",
    "==",
    "=>",
    ":=",
    "://",
    "//",
    "/",
    "@",
    "?",
    "&",
    "&amp;",
    "%3D",
    "%26",
    "%0A",
    "%",
    "+",
    "-",
    "--",
    "_",
    ".",
    ",",
    ";",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    "</",
    "|",
    "*",
    "**",
    "#",
    "$",
    "${X}",
    "\u{200b}",
    "\u{1b}[31m",
    "\u{1b}[",
    "\u{1b}",
    "\0",
    "\u{ad}",
    "é",
    "日本",
    "password",
    "PASSWORD",
    "token",
    "TOKEN",
    "api_key",
    "apiKey",
    "key",
    "secret",
    "Authorization",
    "Bearer",
    "Basic",
    "Digest",
    "Cookie",
    "author",
    "sig",
    "--password",
    "--token",
    "hunter2",
    "correct",
    "a1b2c3d4e5f6",
    "0123456789abcdef",
    "os.getenv(",
    "none",
    "ghp_",
    "ghp_0123456789abcdef",
    "sk-",
    "fc-",
    "aB3dE5gH7jK9",
    "eyJ",
    "eyJhbGciOiJIUzI1NiJ9",
    ".eyJzdWIi",
    "123456789",
    "AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw4",
    "+14155552671",
    "https",
    "postgres",
    "user",
    "host",
    "-----BEGIN",
    "-----BEGIN RSA PRIVATE KEY-----",
    "-----END RSA PRIVATE KEY-----",
    "PRIVATE KEY",
    "MIIEpAIBAAKCAQEA1234567890abcdefghij",
    "[redacted:",
    "[redacted:token]",
    "[redac",
    "[password, 24 characters]",
    "[token, 1 character]",
    "[token, 12 cha",
    "Proc-Type: 4,ENCRYPTED",
    "word",
    "known secret",
    "known",
    "AKIAIOSFODNN7EXAMPLE",
];

fn soup() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 0..24).prop_map(|pieces| pieces.concat())
}

pub(crate) fn streamed(redactor: &Redactor, text: &str, cuts: &[prop::sample::Index]) -> String {
    let mut borders: Vec<usize> =
        cuts.iter().map(|cut| text.floor_char_boundary(cut.index(text.len() + 1))).collect();
    borders.push(text.len());
    borders.sort_unstable();
    let mut stream = redactor.stream();
    let mut shown = String::new();
    let mut at = 0;
    for border in borders {
        shown += &stream.push(&text[at..border]);
        at = border;
    }
    shown + &stream.finish()
}

pub(crate) fn cuts() -> impl Strategy<Value = Vec<prop::sample::Index>> {
    prop::collection::vec(any::<prop::sample::Index>(), 0..12)
}

fn redactor() -> Redactor {
    Redactor::knowing(["known secret", "known secret longer", "correct\"quote"])
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_stream_shows_what_one_pass_would_show(text in soup(), cuts in cuts()) {
        let redactor = redactor();
        let shown = streamed(&redactor, &text, &cuts);
        prop_assert_eq!(&shown, &streamed(&redactor, &text, &[]), "the borders matter");
        prop_assert_eq!(redactor.redact(&shown), redactor.redact(&text), "the stream shows something else");
    }

    #[test]
    fn the_stream_by_single_characters_shows_what_one_pass_would_show(text in soup()) {
        let redactor = redactor();
        let mut stream = redactor.stream();
        let mut shown: String = text.chars().map(|char| stream.push(char.encode_utf8(&mut [0; 4]))).collect();
        shown += &stream.finish();
        prop_assert_eq!(&shown, &streamed(&redactor, &text, &[]), "the borders matter");
    }

    #[test]
    fn redacting_twice_changes_nothing(text in soup()) {
        let redactor = redactor();
        let once = redactor.redact(&text).into_owned();
        let (twice, hidden) = redactor.count_and_redact(&once);
        prop_assert_eq!(hidden, 0, "{:?} became {:?}", &once, &twice);
    }

    #[test]
    fn redacting_json_twice_changes_nothing(name in soup(), text in soup(), other in soup()) {
        let redactor = redactor();
        let mut once = serde_json::json!({name: [text.clone(), other], "password": text});
        redactor.redact_json(&mut once);
        let mut twice = once.clone();
        prop_assert_eq!(redactor.redact_json(&mut twice), 0);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn a_stream_is_as_new_after_its_end(first in soup(), second in soup()) {
        let redactor = redactor();
        let mut stream = redactor.stream();
        stream.push(&first);
        stream.finish();
        let shown = stream.push(&second) + &stream.finish();
        prop_assert_eq!(shown, streamed(&redactor, &second, &[]));
    }

    #[test]
    fn plain_text_has_nothing_invisible_left(text in soup()) {
        let shown = redact::plain::plain(&text);
        let is_left = |char: char| (char.is_control() && !"\n\t".contains(char)) || "\u{200b}\u{ad}".contains(char);
        prop_assert!(!shown.chars().any(is_left), "left in {:?}", &shown);
        let again = redact::plain::plain(&shown);
        prop_assert_eq!(&again, &shown);
    }
}
