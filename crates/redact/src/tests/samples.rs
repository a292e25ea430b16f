//! The rules that go by name, place or structure: for each, what it must hide and what it must keep.

use crate::Redactor;

/// One rule. In `hides` the secret stands between `«` and `»`.
struct Sample {
    kind: &'static str,
    hides: &'static [&'static str],
    keeps: &'static [&'static str],
}

#[rustfmt::skip]
const SAMPLES: &[Sample] = &[
    Sample { kind: "password",
        hides: &["DB_PASSWORD=«hunter2»", "PGPASSWORD=«correcthorse» psql", "password: «hunter2»", "  12| password: «hunter2»",
            "- password: «hunter2» # old", "{\"password\":\"«p q»\"}", "{\\\"password\\\": \\\"«p\\\\\\\"q»\\\"}", "{'password': '«it''s»'}",
            "userPassword = \"«abc»\"", "config[\"password\"] = '«abc»'", "mysql --password «hunter2» -u root", "--password=«hunter2»",
            "Server=x;Password=«abc»;User=bob", "smtp_password: «correct horse battery»", "password:\n  «hunter2»\nnext: x",
            "password: |\n  «hunter2»\n", "password:\\n  «hunter2»\\nnext", "passwd='«x y»'", "\\npassword: «hunter2»\\n", "let password: &str = \"«abc def»\";",
            "password = b\"«abc»\"", "password: String::from(\"«abc»\")", "PASSWORD=«$ecret1»", "\"password\":\n    \"«abc»\"",
            "password => '«abc»'", "password := \"«abc»\"", "the password: «Hunter2!»", "dbPassword2: «abc»", "**password:** «hunter2»",
            "x=1&password=«abc»&y=2", "<password>«abc»</password>", "curl -u bob:«hunter2» url", "sshpass -p «hunter2» ssh h", "sshpass -p'«s3 cret»' scp x h:", "machine h login bob password «hunter2»", "login bob\n  password «s3cret!»\n", "curl --user 'bob:«s3cret!»' url", "password=«\u{e4}bc»", "password%3D«hunter2»%26x"],
        keeps: &["password", "password:", "password=", "password=\"\"", "password=None", "password: string;", "password = get_password()",
            "password=password", "password = user.password", "self.password = password", "Password: must be at least 8 characters",
            "please set the password: it must be long", "password=$DB_PASSWORD", "password: ${DB_PASSWORD}", "password = ****",
            "if password == \"abc\" {", "password_field: name", "PASSWORD_FILE=/run/secrets/db", "use --password to log in",
            "passwordless: yes", "password=<your password>", "password={password}", "def f(password=None, user=None):", "<password></password>", "Vec<Password>", "docker run -u 1000:1000", "chown -u bob:users", "sshpass -f file ssh h", "login and password are asked for", "login name\npassword field"] },
    Sample { kind: "secret",
        hides: &["CLIENT_SECRET=«abc»", "\"secret_value\": \"«a»\"", "raw_secret: «abc»", "clientSecret: '«a b»'"],
        keeps: &["secretary: bob", "secrets: inherit", "the secret: practice", "secret = secrets.token_hex()", "Secret<String>"] },
    Sample { kind: "api-key",
        hides: &["OPENAI_API_KEY=«abc»", "apiKey: \"«abc»\"", "x-api-key: «abc»", "-H 'X-Goog-Api-Key: «abc»'", "api-key: «abc»",
            "AWS_SECRET_ACCESS_KEY=«wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY»", "\"key_material\": \"«a1b2c3d4e5»\"", "key: «a1b2c3d4e5f6»",
            "apikey=«abc»", "API_KEY_OPENAI=«a1b2c3d4e5f6»"],
        keeps: &["key: value", "monkey=banana", "public_key: a1b2c3d4e5f6", "key = \"name\"", "primary_key=id", "keyboard: us",
            "apiKey: process.env.API_KEY,", "api_key=os.environ[\"API_KEY\"]", "\"key\": \"users/2024/summary-v2\"", "cache_key: a1b2c3d4e5f6"] },
    Sample { kind: "token",
        hides: &["GITHUB_TOKEN=«abc»", "\"token\": \"«abc»\"", "access_token: «abc»", "refreshToken='«x»'", "token = \"«a1b2c3»\"",
            "X-Auth-Token: «abc»", "?access_token=«abc»&x=1", "%3Faccess_token=«abc»", "\\u0026token=«abc»", "vault login --token «a1b2c3d4»",
            "&amp;token=«abc»"],
        keeps: &["tokenizer=bpe", "max_tokens=4096", "MAX_TOKENS=4096", "\"total_tokens\": 512", "token = await fetch()", "token: Token,",
            "token: ${{ secrets.GITHUB_TOKEN }}", "let token = lexer.next();", "token_type=bearer", "tokens: 512", "token=/run/token"] },
    Sample { kind: "credential",
        hides: &["AUTH=«a1b2c3d4»", "db_credentials: «user/p4ss»"],
        keeps: &["author: Jane", "credentialing: x", "credentials: \"same-origin\"", "auth: oauth2", "auth=basic"] },
    Sample { kind: "authorization",
        hides: &["Authorization: Bearer «abc»", "-H \"Authorization: Basic «dXNlcjpwYXNz»\" url", "'Authorization': 'Token «ab»'",
            "{\\\"Authorization\\\": \\\"Bearer «abc»\\\"}", "Proxy-Authorization: Basic «dXNlcjpwYXNz»", "authorization: Foo «a1b2c3d4e5»",
            "Authorization: «a1b2c3d4e5f6»", "Authorization: Digest «username=\"M\", response=\"6629fae4\"»\nHost: x",
            "Authorization: AWS4-HMAC-SHA256 «Credential=AKIA/x, Signature=ab»"],
        keeps: &["authorization is required", "Authorization: required for all endpoints", "Authorization: Bearer $TOKEN",
            "Authorization: Bearer ${TOKEN}", "headers[\"Authorization\"] = f\"Bearer {token}\"", "Authorization: bearer tokens are used"] },
    Sample { kind: "bearer-token",
        hides: &["sent Bearer «aB3dE5gH7jK9mN1pQrS2t» to", "bearer «aB3dE5gH7jK9/N1pQ+S2t==»"],
        keeps: &["a bearer token", "Bearer short1", "bearer authentication-mechanisms"] },
    Sample { kind: "cookie",
        hides: &["Cookie: session=«abc; theme=dark»\nHost: x", "set-cookie: id=«a1; Path=/»"],
        keeps: &["cookie: a small file", "cookie=none", "cookie: true"] },
    Sample { kind: "signature",
        hides: &["https://h/p?X-Amz-Signature=«abcd»&x=1", "https://h/?a=b&sig=«abc»"],
        keeps: &["signature=abc", "https://h/?page=2"] },
    Sample { kind: "url-password",
        hides: &["postgres://user:«pass»@host/db", "https://user:«p,a;s»@host", "mysql://u:«p/a@s»@host/db", "redis://:«abc»@h:6379",
            "amqp://u:«p»@h\nnext@line"],
        keeps: &["postgres://localhost:5432/db", "https://host:8080/a@b", "postgres://{user}:{password}@{host}", "https://user:$PASS@host",
            "https://u:***@host", "redis://h:6379/0?x=a@b"] },
    Sample { kind: "url-credential",
        hides: &["https://«abcdefgh12»@github.com/x.git"],
        keeps: &["https://git@github.com/x.git", "ssh://deploy@host", "https://host/users/bob@example.com", "bob.builder@example.com",
            "https://${TOKEN}@github.com"] },
    Sample { kind: "telegram-token",
        hides: &["«123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw4»", "/bot«123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw4»/getMe"],
        keeps: &["123456789:short", "1700000000:e3b0c44298fc1c149afbf4c8996fb92427ae41e4", "12:34:56"] },
    Sample { kind: "jwt",
        hides: &["«eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-def_ghi»", "x=«eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0»."],
        keeps: &["eyJhbGci", "eyJmb28iOiJiYXIiLCJiYXoiOjF9", "eyJ.eyJ.x", "keyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx"] },
    Sample { kind: "zhipu-key",
        hides: &["«0123456789abcdef0123456789abcdef.aB3dE5gH7jK9mN1p»"],
        keeps: &["0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef.js"] },
    Sample { kind: "phone-number",
        hides: &["call «+14155552671».", "tel:«+491701234567»", "(«+14155552671»)", "https://h/numbers/«+14155552671»/calls"],
        keeps: &["1+12345678", "+1234567", "+1234567890123456", "+0123456789", "+12345678.5", "x+12345678y"] },
    Sample { kind: "private-key",
        hides: &["«-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA1234567890abcdefghij\nabcd==\n-----END RSA PRIVATE KEY-----»\nrest",
            "\"«-----BEGIN PRIVATE KEY-----\\nMIIEpAIBAAKCAQEA1234567890abcdefghij\\nab==\\n-----END PRIVATE KEY-----»\\n\"",
            "«-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ\nAAAA»"],
        keeps: &["the marker -----BEGIN PRIVATE KEY----- begins it", "-----BEGIN PUBLIC KEY-----\nMIIEpAIBAAKCAQEA1234567890abcdefghij\n",
            "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----", "[\"-----BEGIN RSA PRIVATE KEY-----\", \"x\"]"] },
];

/// What is wrong with the sample, if anything.
fn fault_of_hidden(kind: &str, sample: &str) -> Option<String> {
    let (before, rest) = sample.split_once('«').unwrap();
    let (secret, after) = rest.split_once('»').unwrap();
    let text = format!("{before}{secret}{after}");
    let (shown, hidden) = Redactor::default().count_and_redact(&text);
    let is_right = shown == format!("{before}[redacted:{kind}]{after}") && hidden == 1;
    let streamed = by_characters(&text);
    (!is_right || streamed != shown)
        .then(|| format!("{kind}: {text:?}\n  shows {shown:?}\n  streams {streamed:?}\n  hidden {hidden}"))
}

fn fault_of_kept(kind: &str, text: &str) -> Option<String> {
    let shown = Redactor::default().redact(text);
    let is_right = shown == text && by_characters(text) == text;
    (!is_right).then(|| format!("{kind}: {text:?}\n  shows {shown:?}"))
}

fn by_characters(text: &str) -> String {
    let mut stream = Redactor::default().stream();
    let shown: String = text.chars().map(|char| stream.push(char.encode_utf8(&mut [0; 4]))).collect();
    shown + &stream.finish()
}

#[test]
fn every_rule_hides_its_samples_and_nothing_around_them() {
    let faults: Vec<String> = SAMPLES
        .iter()
        .flat_map(|rule| rule.hides.iter().filter_map(|sample| fault_of_hidden(rule.kind, sample)))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_rule_keeps_what_only_looks_alike() {
    let faults: Vec<String> = SAMPLES
        .iter()
        .flat_map(|rule| rule.keeps.iter().filter_map(|kept| fault_of_kept(rule.kind, kept)))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_number_of_several_secrets_is_counted() {
    let (shown, hidden) =
        Redactor::default().count_and_redact("A_TOKEN=a1b2c3 and https://u:pw@h and +14155552671");
    assert_eq!(
        shown,
        "A_TOKEN=[redacted:token] and https://u:[redacted:url-password]@h and [redacted:phone-number]"
    );
    assert_eq!(hidden, 3);
}
