//! Prose, code, hashes and the like come out exactly as they went in.

use std::borrow::Cow;

use proptest::prelude::*;
use redact::Redactor;

use crate::agreement::{cuts, streamed};

const WORDS: &[&str] = &[
    "the",
    "parser",
    "drops",
    "last",
    "line",
    "when",
    "a",
    "file",
    "does",
    "not",
    "end",
    "with",
    "newline",
    "token",
    "tokens",
    "password",
    "secretary",
    "key",
    "keys",
    "author",
    "authority",
    "authorization",
    "cookie",
    "credentials",
    "tokenizer",
    "monkey",
    "pass",
    "passes",
    "test",
    "über",
    "日本語",
    "naïve",
    "e.g.",
    "foo-bar",
    "snake_case_name",
    "CamelCaseName",
    "12",
    "3.14",
    "2026-11-15",
    "10:30:00",
    "v1.2.3",
    "utf-8",
    "x86_64",
    "I'll",
    "don't",
    "--verbose",
    "-p",
    "https://example.com/a/b?page=2&sort=asc#top",
    "http://localhost:8080/health",
    "git@github.com:owner/repo.git",
    "bob@example.com",
    "src/parser.rs:42:7",
    "/usr/local/bin",
    "C:\\Users\\new\\file.txt",
    "<@123456789012345678>",
    "<#C024BE91L>",
    "@bob",
    "#1234",
    "50%",
    "100,000",
    "a+b",
    "c++",
    "f(x)",
    "`code`",
    "**bold**",
    "\"quoted\"",
    "(aside)",
    "[link](target)",
];

/// Lines as programs, shells, tools and configurations have them.
const LINES: &[&str] = &[
    "fn main() { println!(\"{}\", token.len()); }",
    "let token = lexer.next_token()?;",
    "pub fn parse(tokens: &mut TokenStream, key: &str) -> Result<Key, Error> {",
    "struct Login { user: String, password: String, token: Option<Token> }",
    "if password == confirm { return Err(Error::Same); }",
    "password = getpass.getpass()",
    "api_key = os.environ[\"OPENAI_API_KEY\"]",
    "const apiKey = process.env.API_KEY ?? config.apiKey;",
    "def login(self, user, password=None, *, token: str | None = None) -> None:",
    "self.token = token",
    "max_tokens: 4096, temperature: 0.7",
    "for key, value in mapping.items():",
    "cache_key = f\"{user}:{page}\"",
    "assert_eq!(author, \"Jane Doe\");",
    "SELECT key, value FROM settings WHERE key = 'theme';",
    "PATH=/usr/bin:/bin HOME=/home/user LANG=C.UTF-8",
    "export TOKEN=$GITHUB_TOKEN PASSWORD=${DB_PASSWORD}",
    "curl -H \"Authorization: Bearer $TOKEN\" https://api.example.com/v1/items",
    "docker run -e POSTGRES_PASSWORD -p 5432:5432 postgres:16",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8 (HEAD -> main)",
    "index 83db48f..bf269f4 100644",
    "@@ -12,7 +12,9 @@ fn main() {",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  empty.txt",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "\"integrity\": \"sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==\"",
    "checksum = \"9fceb02d0ae598e95dc970b74767f19372d61af8e3b0c44298fc1c149afbf4c8\"",
    "id: 550e8400-e29b-41d4-a716-446655440000",
    "data = \"SGVsbG8sIHdvcmxkISBUaGlzIGlzIG9yZGluYXJ5IGNvbnRlbnQu\"",
    "src=\"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==\"",
    "eyJmb28iOiJiYXIiLCJiYXoiOjEyMzQ1Njc4OTB9",
    "test result: ok. 12 passed; 0 failed; 0 ignored; finished in 0.03s",
    "pass: 12 fail: 0 skip: 3",
    "total_tokens: 512, prompt_tokens: 480",
    "permissions:\n  id-token: write\n  contents: read",
    "with:\n  token: ${{ secrets.GITHUB_TOKEN }}",
    "secrets: inherit",
    "credentials: \"same-origin\",",
    "Content-Type: application/json",
    "Host: localhost:8080",
    "drwxr-xr-x 2 root root 4096 Nov 15 21:57 secrets",
    "  --password <PASSWORD>  The password to use",
    "{\"type\":\"object\",\"properties\":{\"password\":{\"type\":\"string\"}},\"required\":[\"password\"]}",
    "{\"usage\":{\"input_tokens\":12,\"output_tokens\":34},\"key\":\"value\"}",
    "npm_config_registry=https://registry.npmjs.org/",
    "sk_buff_head_init(&queue); risk-assessment-for-2026",
    "redis://localhost:6379/0 postgres://localhost:5432/main",
    "f\"postgresql://{user}:{password}@{host}:{port}/{name}\"",
    "-----BEGIN PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQGEwJJ\n-----END CERTIFICATE-----",
    "\u{1b}[32m+ added line\u{1b}[0m",
    "+    let count = 12345678;",
    "offset +1234567 at 0xdeadbeef",
    "rgb(12, 34, 56) #d8dee9 &amp; &lt;",
];

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        20 => prop::sample::select(WORDS).prop_map(str::to_owned),
        1 => "[0-9a-f]{40}",
        1 => "[0-9a-f]{64}",
        1 => "[0-9a-f]{7,12}",
        1 => "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}",
        1 => "[a-z]{1,12}",
        1 => "[0-9]{1,12}",
    ]
}

fn sentence() -> impl Strategy<Value = String> {
    let end = prop::sample::select(&[".", "?", "!", ";", "...", ""]);
    (prop::collection::vec(word(), 1..12), end).prop_map(|(words, end)| words.join(" ") + end)
}

/// Some lines without any secret.
pub(crate) fn prose() -> impl Strategy<Value = String> {
    let line = prop_oneof![sentence(), prop::sample::select(LINES).prop_map(str::to_owned)];
    prop::collection::vec(line, 0..6).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn text_without_secrets_is_not_even_copied(text in prose()) {
        let (shown, hidden) = Redactor::default().count_and_redact(&text);
        prop_assert_eq!(&shown, &text);
        prop_assert!(matches!(shown, Cow::Borrowed(_)));
        prop_assert_eq!(hidden, 0);
    }

    #[test]
    fn text_without_secrets_streams_unchanged(text in prose(), cuts in cuts()) {
        prop_assert_eq!(streamed(&Redactor::default(), &text, &cuts), text);
    }

    #[test]
    fn json_without_secrets_stays_as_it_is(text in prose(), other in prose()) {
        let value = serde_json::json!({"text": text, "items": [other, 1, null, true, {"nested": text}]});
        let mut shown = value.clone();
        prop_assert_eq!(Redactor::default().redact_json(&mut shown), 0);
        prop_assert_eq!(shown, value);
    }

    #[test]
    fn escaped_text_without_secrets_is_unchanged(text in prose()) {
        let once = serde_json::json!({"text": text}).to_string();
        let twice = serde_json::json!({"text": once}).to_string();
        prop_assert_eq!(Redactor::default().redact(&once), once.as_str());
        prop_assert_eq!(Redactor::default().redact(&twice), twice.as_str());
    }
}

#[test]
fn every_line_is_unchanged_on_its_own() {
    let redactor = Redactor::default();
    let changed: Vec<_> = LINES
        .iter()
        .filter(|line| redactor.redact(line) != **line)
        .map(|line| redactor.redact(line))
        .collect();
    assert!(changed.is_empty(), "{changed:#?}");
}
