//! Private keys in every writing.

use crate::Redactor;

const LINE: &str = "MIIEpAIBAAKCAQEA1234567890abcdefghijKLMNOPQRSTUVWXYZ+/1234567890";

#[track_caller]
fn check(text: &str, shown: &str) {
    assert_eq!(Redactor::default().redact(text), shown, "for {text:?}");
}

#[test]
fn a_key_is_hidden_however_its_lines_are_written() {
    for line_break in
        ["\n", "\r\n", "\\n", "\\\\n", "\n  ", " ", "\n+", "\n> ", "\n 12| ", "\\n\" +\n    \"", "\n\n"]
    {
        let lines =
            ["-----BEGIN RSA PRIVATE KEY-----", LINE, LINE, "abcd==", "-----END RSA PRIVATE KEY-----"];
        check(&format!("a {}, b", lines.join(line_break)), "a [redacted:private-key], b");
    }
}

#[test]
fn a_key_with_headers_is_hidden() {
    check(
        &format!(
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0F1E\n\n{LINE}\n-----END RSA PRIVATE KEY-----"
        ),
        "[redacted:private-key]",
    );
    check(
        &format!(
            "-----BEGIN PGP PRIVATE KEY BLOCK-----\nComment: \"me-2\"\n\n{LINE}\n=aB3d\n-----END PGP PRIVATE KEY BLOCK-----\nx"
        ),
        "[redacted:private-key]\nx",
    );
}

#[test]
fn a_key_that_was_cut_off_is_hidden_up_to_what_is_foreign() {
    check(&format!("-----BEGIN PRIVATE KEY-----\n{LINE}\n{LINE}"), "[redacted:private-key]");
    check(
        &format!("-----BEGIN PRIVATE KEY-----\n{LINE}\n{LINE}\nThis is the rest of it."),
        "[redacted:private-key]\nThis is the rest of it.",
    );
}

#[test]
fn two_keys_are_two_secrets() {
    let key = format!("-----BEGIN PRIVATE KEY-----\n{LINE}\n-----END PRIVATE KEY-----\n");
    let (_, hidden) = Redactor::default().count_and_redact(&key.repeat(2));
    assert_eq!(hidden, 2);
}

#[test]
fn mentions_and_public_parts_are_kept() {
    for text in [
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\n",
        "it starts with -----BEGIN RSA PRIVATE KEY----- and goes on",
        "if text.contains(\"-----BEGIN PRIVATE KEY-----\") { return true; }",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQGEwJJ\n",
        "-----BEGIN SSH2 PUBLIC KEY-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQGEwJJ\n",
    ] {
        check(text, text);
    }
}
