//! Behaviours that users of comparable tools rely on, one group each.

use redact::Redactor;

fn redact(text: &str) -> String {
    Redactor::default().redact(text).into_owned()
}

/// Each text comes out with `[redacted:kind]` in place of what stands between `«` and `»`.
#[track_caller]
fn check(kind: &str, marked: &[&str]) {
    for sample in marked {
        let text = sample.replace(['«', '»'], "");
        let (before, rest) = sample.split_once('«').unwrap();
        let (_, after) = rest.split_once('»').unwrap();
        assert_eq!(redact(&text), format!("{before}[redacted:{kind}]{after}"), "for {text:?}");
    }
}

#[track_caller]
fn check_kept(texts: &[&str]) {
    for text in texts {
        assert_eq!(redact(text), *text);
    }
}

// peer: RD-prefixes
#[test]
fn known_beginnings_are_hidden_and_short_look_alikes_kept() {
    let body = "aB3dE5gH7jK9mN1pQrS2tU4vW6xY8zA0bC2d";
    for start in [
        "sk-",
        "sk-proj-",
        "sk-ant-",
        "sk_live_",
        "rk_live_",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat_",
        "xapp-1-",
        "xoxb-",
        "xoxp-",
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
        "gsk_",
        "syt_",
        "retaindb_",
        "hsk-",
        "mem0_",
        "brv_",
        "ntn_",
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
    ] {
        let shown = redact(&format!("use {start}{body} now"));
        assert!(shown.starts_with("use [redacted:") && shown.ends_with("] now"), "{start}: {shown}");
        assert!(!shown.contains("aB3d"), "{start}: {shown}");
        check_kept(&[&format!("use {start}ab now")]);
    }
    check("aws-key", &["«AKIAIOSFODNN7EXAMPLE»"]);
    check("zhipu-key", &["«0123456789abcdef0123456789abcdef.aB3dE5gH7jK9mN1p»"]);
}

// peer: RD-prefixes
#[test]
fn a_short_token_is_hidden_whole() {
    assert_eq!(redact("ghp_0123456789"), "[redacted:github-token]");
}

// peer: RD-env
#[test]
fn environment_assignments_are_hidden_and_their_surroundings_kept() {
    check(
        "api-key",
        &["export OPENAI_API_KEY=«abc123»", "API_KEY=\"«a b c»\" run", "MY_KEY='«a1b2c3d4e5»'  # why"],
    );
    check("token", &["GITHUB_TOKEN=«x1» make", "github_token=«a1b2c3»"]);
    check("password", &["MYSQL_PWD=«abc»", "DB_PASS=«abc123»", "ADMIN_PW=«abc123»", "db_passwd=«hunter2»"]);
    check("secret", &["  APP_SECRET=«abc»  "]);
    check("credential", &["SERVICE_CREDENTIAL=«a1b2»", "NPM_AUTH=«a1b2»"]);
    check_kept(&[
        "PATH=/usr/local/bin:/usr/bin",
        "EDITOR=vim LANG=C",
        "token = await get_token()",
        "password = input(\"Password: \")",
        "const key = keys[0];",
        "secret   =   compute_secret(a, b)",
    ]);
}

// peer: RD-lookups
#[test]
fn lookups_are_kept_and_real_values_hidden() {
    check_kept(&[
        "API_KEY=os.getenv('API_KEY')",
        "api_key = os.environ[\"API_KEY\"]",
        "api_key=os.environ.get(\"API_KEY\", \"\")",
        "apiKey: process.env.API_KEY,",
        "{\"apiKey\": \"process.env.API_KEY\"}",
        "{\"api_key\": \"os.getenv('API_KEY')\"}",
        "api_key: ${API_KEY}",
        "password: $DB_PASSWORD",
        "token: ${{ secrets.TOKEN }}",
        "set it with OPENAI_API_KEY=$OPENAI_API_KEY, then run",
        "let key = std::env::var(\"API_KEY\")?;",
        "password = ENV[\"DB_PASSWORD\"]",
        "token: \"{{ vault_token }}\"",
        "secret = System.getenv(\"SECRET\")",
        "%API_KEY%",
    ]);
    check("api-key", &["{\"apiKey\": \"«abc»\"}", "API_KEY=«abc123def456»", "api_key: «abc»"]);
}

// peer: RD-json
#[test]
fn json_fields_are_hidden_plain_escaped_and_as_repr() {
    for (name, kind) in [
        ("apiKey", "api-key"),
        ("api_key", "api-key"),
        ("token", "token"),
        ("secret", "secret"),
        ("password", "password"),
        ("access_token", "token"),
        ("refreshToken", "token"),
        ("auth_token", "token"),
        ("bearer", "token"),
        ("secret_value", "secret"),
        ("raw_secret", "secret"),
        ("secret_input", "secret"),
    ] {
        check(
            kind,
            &[
                &format!("{{\"{name}\": \"«a b c»\", \"n\": 1}}"),
                &format!("{{\\\"{name}\\\":\\\"«a b c»\\\",\\\"n\\\":1}}"),
                &format!("{{'{name}': '«a b c»', 'n': 1}}"),
            ],
        );
        let mut value = serde_json::json!({name: "a b c", "n": 1});
        assert_eq!(Redactor::default().redact_json(&mut value), 1);
        assert_eq!(value, serde_json::json!({name: format!("[redacted:{kind}]"), "n": 1}));
    }
    check("api-key", &["{\"key_material\": \"«a1b2c3»\"}"]);
}

// peer: RD-headers
#[test]
fn authorization_headers_keep_their_scheme_and_their_quotes() {
    check(
        "authorization",
        &[
            "Authorization: Bearer «abc123»",
            "authorization: bearer «abc123»",
            "Proxy-Authorization: Basic «dXNlcjpwYXNz»",
            "Authorization: Token «abc123»",
            "Authorization: Custom «abc123def456»",
            "curl -H \"Authorization: Bearer «abc123»\" https://host",
            "curl -H 'Authorization: Bearer «abc123»' https://host",
            "{\"Authorization\": \"Bearer «abc»\"}",
        ],
    );
    check_kept(&[
        "authorization is required",
        "The Authorization: header carries it",
        "Authorization: required for all endpoints",
    ]);
}

// peer: RD-api-key-headers
#[test]
fn headers_with_keys_are_hidden() {
    for name in ["x-api-key", "x-goog-api-key", "api-key", "apikey", "X-Api-Key"] {
        check(
            "api-key",
            &[&format!("{name}: «abc»"), &format!("-H '{name}: «abc»'"), &format!("\"{name}\": \"«abc»\"")],
        );
    }
    for name in ["x-api-token", "x-auth-token", "x-access-token"] {
        check("token", &[&format!("{name}: «abc»"), &format!("-H \"{name}: «abc»\" url")]);
    }
}

// peer: RD-telegram
#[test]
fn telegram_tokens_are_hidden_with_and_without_bot() {
    check(
        "telegram-token",
        &[
            "«123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw4»",
            "https://api.telegram.org/bot«123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw4»/getMe",
        ],
    );
}

// peer: RD-jwt
#[test]
fn json_web_tokens_are_hidden_and_short_look_alikes_kept() {
    check(
        "jwt",
        &[
            "«eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c»",
            "token in prose: see «eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0», thanks",
            "a\\n«eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc»\\nb",
        ],
    );
    check_kept(&["eyJhbGci", "eyJ.eyJ.", "eyJmb28iOiJiYXIifQ"]);
}

// peer: RD-db-urls
#[test]
fn database_urls_lose_their_password_only() {
    for scheme in
        ["postgres", "postgresql", "mysql", "mongodb", "mongodb+srv", "redis", "amqp", "postgresql+asyncpg"]
    {
        check("url-password", &[&format!("{scheme}://user:«p@ss/w#rd»@host:5432/db")]);
    }
    check_kept(&[
        "f\"postgresql://{user}:{password}@{host}/{db}\"",
        "postgres://${USER}:${PASS}@host/db",
        "postgres://localhost:5432/db",
        "postgres://host:5432/db\nmail bob@example.com",
    ]);
}

// peer: RD-pass-through
#[test]
fn text_without_secrets_passes_through() {
    check_kept(&[
        "",
        " \n\t",
        "Hello, world.",
        "fn add(a: i32, b: i32) -> i32 { a + b }",
        "https://example.com/path?page=2&sort=asc#top",
        "{\"n\": 1, \"ok\": true, \"none\": null}",
    ]);
    let mut value = serde_json::json!([1, 2.5, true, null, "text", {"a": []}]);
    assert_eq!(Redactor::default().redact_json(&mut value), 0);
}

// peer: RD-mentions
#[test]
fn mentions_are_kept() {
    check_kept(&[
        "<@123456789012345678>",
        "<@!123456789012345678> hi",
        "<@&123456789012345678>",
        "<#123456789012345678>",
        "<@U024BE7LH> and <#C024BE91L|general>",
        "<:name:123456789012345678>",
    ]);
}

// peer: RD-web-urls
#[test]
fn web_urls_are_strict_everywhere() {
    check(
        "token",
        &["https://host/cb?access_token=«abc»&state=x", "https://host/?a=1&refresh_token=«abc»#top"],
    );
    check("api-key", &["https://host/v1?api_key=«abc»"]);
    check(
        "signature",
        &[
            "https://bucket/x?X-Amz-Signature=«abcdef»&X-Amz-Date=20261115",
            "https://host/x?x-goog-signature=«abc»",
            "https://host/x?sig=«abc»",
            "https://host/x?signature=«abc»",
        ],
    );
    check("url-password", &["https://user:«pass»@host/path"]);
    check("github-token", &["https://host/?q=«ghp_0123456789abcdef»"]);
    check_kept(&[
        "https://host/search?q=tokens&page=2",
        "https://host/#section",
        "https://host/path/to/secret",
    ]);
}

// peer: RD-userinfo
#[test]
fn a_token_before_the_host_is_hidden_from_eight_characters_on() {
    check(
        "url-credential",
        &["https://«abcd1234»@github.com/owner/repo.git", "git clone https://«0123456789abcdef»@host/x"],
    );
    check_kept(&[
        "https://git@github.com/owner/repo.git",
        "ssh://root@host",
        "https://host/users/someone@example.com",
        "https://host?mail=someone@example.com",
        "someone@example.com",
        "https://host/",
    ]);
}

// peer: RD-forms
#[test]
fn form_bodies_lose_their_secrets() {
    assert_eq!(
        redact("grant_type=password&username=bob&password=hunter2&client_secret=abc&scope=all"),
        "grant_type=password&username=bob&password=[redacted:password]&client_secret=[redacted:secret]&scope=all",
    );
    check("token", &["token=«abc»&x=1", "x=1&token=«abc»"]);
    check_kept(&["a=1&b=2", "the token=abc in a sentence"]);
}

// peer: RD-config
#[test]
fn configuration_keys_are_hidden_at_the_start_of_a_line() {
    check(
        "password",
        &[
            "spring.datasource.password=«hunter2»",
            "db.password: «correct»",
            "password: «correct»",
            "  password: «correct»  # comment",
            "   7| password: «correct»",
            "42: password: «correct»",
            "- password: «correct»",
            "[mysql]\npassword = «correct»\n",
            "password: >-\n    «correct»\n",
        ],
    );
    check("token", &["api:\n  token: «a1b2c3d4»"]);
    check_kept(&[
        "remember the password: it matters",
        "Password: must be at least 8 characters",
        "key: value",
        "token: identifier",
        "password:\n  type: string",
    ]);
}

// peer: RD-vendors
#[test]
fn vendor_keys_have_their_length_floors() {
    let body = "aB3dE5gH7jK9mN1pQrS2tU4vW6xY8zA0bC2d";
    check("xai-key", &[&format!("«xai-{body}»")]);
    check("fireworks-key", &[&format!("«fw_{body}»"), &format!("«fw-{body}»"), &format!("«fpk_{body}»")]);
    check("elevenlabs-key", &["«sk_0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a6978»"]);
    check("tavily-key", &["«tvly-dev-aB3dE5gH7jK9»"]);
    check("exa-key", &["«exa_aB3dE5gH7jK9mN1p»"]);
    check_kept(&["xai-grok-2-vision-1212", "fw_update_1", "fpk_short1", "sk_1234", "tvly-1", "exa_1"]);
}

// peer: RD-env-dump
#[test]
fn a_dump_of_the_environment_is_hidden_harder() {
    let dump = "HOME=/root\nTOKEN=plainword\nMY_AUTH=word\nSESSION_KEY=a1b2c3\nDB_PASS=word\nMAX_TOKENS=4096\nSHLVL=1\n";
    assert_eq!(
        redact(dump),
        "HOME=/root\nTOKEN=[redacted:token]\nMY_AUTH=[redacted:credential]\nSESSION_KEY=[redacted:api-key]\n\
         DB_PASS=[redacted:password]\nMAX_TOKENS=4096\nSHLVL=1\n",
    );
    let zeroed = "HOME=/root\0DB_PASSWORD=hunter2\0LANG=C\0";
    assert!(!redact(zeroed).contains("hunter2"));
}

// peer: RD-file-read
#[test]
fn nothing_of_a_secret_is_left_to_write_back() {
    let body = "aB3dE5gH7jK9mN1pQrS2tU4vW6xY8zA0bC2d";
    let file = format!("[default]\ntoken = ghp_{body}\nkey = sk-proj-{body}\n");
    let shown = redact(&file);
    assert_eq!(shown, "[default]\ntoken = [redacted:token]\nkey = [redacted:api-key]\n");
    for length in 4..body.len() {
        assert!(!shown.contains(&body[..length]) && !shown.contains(&body[body.len() - length..]));
    }
    assert_eq!(redact(&shown), shown);
}

// peer: RD-word-boundary
#[test]
fn a_name_announces_a_secret_only_as_a_word() {
    check_kept(&[
        "secretary=a1b2c3d4e5f6",
        "tokenizer: a1b2c3d4e5f6",
        "tokenize=a1b2c3d4e5f6",
        "author=a1b2c3d4e5f6",
        "authority: a1b2c3d4e5f6",
        "credentialing=a1b2c3d4e5f6",
        "monkey=a1b2c3d4e5f6",
        "passenger=a1b2c3d4e5f6",
        "compass: a1b2c3d4e5f6",
        "keyboard=a1b2c3d4e5f6",
        "SECRETARY=a1b2c3d4e5f6",
    ]);
    check(
        "password",
        &["userPassword=«a1»", "user_password2: «a1»", "PGPASSWORD=«a1»", "passwords=«a1b2c3»"],
    );
    check("token", &["authToken=«a1»", "TOKENS=«a1b2c3»", "mytoken=«a1b2c3d»", "token2=«a1b2c3d»"]);
    check("api-key", &["apiKeys=«a1b2c3d4e5»", "APIKey=«a1»", "apikey=«a1»"]);
    check("secret", &["clientSecret=«a1»"]);
}

// peer: RD-cdp-url
#[test]
fn addresses_of_remote_browsers_lose_query_and_user_information() {
    check("token", &["wss://browser.host/devtools?token=«abc»&x=1"]);
    check("api-key", &["wss://host/?apiKey=«abc»"]);
    check("url-password", &["wss://user:«pass»@host:9222/devtools/browser/0f1e"]);
    check("url-credential", &["wss://«abcd1234»@host:9222/"]);
    check_kept(&["ws://127.0.0.1:9222/devtools/browser/550e8400-e29b-41d4-a716-446655440000"]);
}
