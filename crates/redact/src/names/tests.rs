//! Which names announce a secret, and which do not.

use super::*;

#[track_caller]
fn check(kind: &str, need: Need, names: &[&str]) {
    for name in names {
        let found = classify(name.as_bytes()).map(|name| (name.kind, name.need));
        assert_eq!(found, Some((kind, need)), "for {name}");
    }
}

#[test]
fn names_that_say_it_all() {
    check(
        PASSWORD,
        Need::AnyValue,
        &["password", "userPassword", "PGPASSWORD", "db.passwd", "pwd", "ssh-passphrase", "Password2"],
    );
    check(
        SECRET,
        Need::AnyValue,
        &["secret", "clientSecret", "secret_value", "raw_secret", "SECRET_INPUT", "mysecret"],
    );
    check(
        API_KEY,
        Need::AnyValue,
        &["apiKey", "API_KEY", "x-api-key", "APIKey", "apikey", "openai_api_key", "private_key", "myapikey"],
    );
    check(
        TOKEN,
        Need::AnyValue,
        &["access_token", "refreshToken", "authtoken", "x-auth-token", "TOKEN", "GITHUB_TOKEN"],
    );
}

#[test]
fn names_that_are_mostly_secrets() {
    check(TOKEN, Need::NotPlain, &["token", "githubToken", "next_token", "tokens", "bearer", "jwt"]);
    check(PASSWORD, Need::NotPlain, &["pass", "pw", "passwords"]);
    check(CREDENTIAL, Need::NotPlain, &["credential", "credentials", "auth", "creds"]);
    check(API_KEY, Need::NotPlain, &["KEY", "MY_KEY"]);
}

#[test]
fn names_that_need_an_opaque_value() {
    check(API_KEY, Need::Opaque, &["key", "keys", "sessionKey", "API_KEY_OPENAI"]);
    check(SECRET, Need::Opaque, &["SECRET_FOR_DEPLOY"]);
    check(PASSWORD, Need::Opaque, &["passwordStyle"]);
}

#[test]
fn names_that_announce_nothing() {
    for name in [
        "",
        "a",
        "name",
        "secretary",
        "tokenizer",
        "tokenization",
        "author",
        "authority",
        "monkey",
        "keyboard",
        "compass",
        "passenger",
        "credentialing",
        "token_count",
        "key_id",
        "password_field",
        "public_key",
        "primary_key",
        "cache_key",
        "PASSWORD_FILE",
        "secret_name",
        "keys.json",
        "max",
        "x",
        "oauth",
        "passport",
    ] {
        assert_eq!(classify(name.as_bytes()), None, "for {name}");
    }
}

#[test]
fn a_very_long_name_is_judged_by_its_end() {
    let name = format!("{}_password", "a".repeat(10_000));
    assert!(classify(name.as_bytes()).is_some());
    let name = format!("{}_password", "a_".repeat(10_000));
    assert!(classify(name.as_bytes()).is_some());
}

#[test]
fn a_likelier_place_asks_for_less() {
    let key = classify(b"key").unwrap();
    assert_eq!(key.likelier().need, Need::NotPlain);
    assert_eq!(key.likelier().likelier().need, Need::AnyValue);
    assert_eq!(key.likelier().likelier().likelier().need, Need::AnyValue);
}
