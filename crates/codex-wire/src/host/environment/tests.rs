//! Tests of `environment`.

use super::*;

fn names(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

fn child(parent: &[(&str, &str)], policy: &EnvPolicy, codex_home: Option<&str>) -> BTreeMap<String, String> {
    let parent = parent.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let config_names = names(&["MY_PROVIDER_KEY"]);
    let codex_home = codex_home.map(Path::new);
    child_env(parent, policy, HostVariables { host_id: "h1", codex_home, config_names: &config_names })
}

fn keys(env: &BTreeMap<String, String>) -> Vec<&str> {
    env.keys().map(String::as_str).collect()
}

// peer: C13, C18
#[test]
fn home_is_kept_as_it_is_even_against_the_operators_own_list() {
    let policy =
        EnvPolicy { set: BTreeMap::from([("HOME".into(), "/elsewhere".into())]), ..EnvPolicy::default() };
    let env =
        child(&[("HOME", "/home/ada"), ("CODEX_HOME", "/from/our/environment")], &policy, Some("/srv/codex"));
    assert_eq!(env["HOME"], "/home/ada");
    assert_eq!(env["CODEX_HOME"], "/srv/codex");
}

// peer: C14
#[test]
fn codex_home_is_set_when_given_and_only_then() {
    let parent = [("HOME", "/home/ada"), ("CODEX_HOME", "/from/our/environment")];
    assert_eq!(child(&parent, &EnvPolicy::default(), Some("/srv/codex"))["CODEX_HOME"], "/srv/codex");
    assert!(!child(&parent, &EnvPolicy::default(), None).contains_key("CODEX_HOME"));
}

// peer: C16
#[test]
fn secrets_of_other_programs_are_not_passed_on() {
    let secrets = [
        "GH_TOKEN",
        "GITHUB_TOKEN",
        "GITHUB_APP_ID",
        "GITHUB_APP_PRIVATE_KEY_PATH",
        "TELEGRAM_BOT_TOKEN",
        "DISCORD_BOT_TOKEN",
        "SLACK_BOT_TOKEN",
        "SLACK_APP_TOKEN",
        "SLACK_SIGNING_SECRET",
        "GATEWAY_ALLOWED_USERS",
        "GATEWAY_RELAY_SECRET",
        "GATEWAY_RELAY_A_TOKEN",
        "HASS_TOKEN",
        "EMAIL_PASSWORD",
        "AUXILIARY_VISION_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "DATABASE_URL",
        "LD_PRELOAD",
        "RUST_BACKTRACE",
        "CODEX_BRIDGE_TOKEN",
    ];
    let mut parent: Vec<(&str, &str)> = secrets.iter().map(|name| (*name, "s3cret")).collect();
    parent.push(("PATH", "/bin"));
    let env = child(&parent, &EnvPolicy::default(), None);
    assert_eq!(keys(&env), ["CODEX_BRIDGE_HOST", "GIT_DIR", "NO_COLOR", "PATH", "RUST_LOG"]);
}

// peer: C17
#[test]
fn provider_credentials_reach_codex() {
    let parent = [("OPENAI_API_KEY", "a"), ("CODEX_API_KEY", "b"), ("MY_PROVIDER_KEY", "c")];
    let env = child(&parent, &EnvPolicy::default(), None);
    for (name, value) in parent {
        assert_eq!(env[name], value);
    }
}

#[test]
fn language_proxy_and_certificates_pass_in_the_spellings_that_programs_read() {
    let parent = [
        ("LC_ALL", "C"),
        ("LC_TIME", "C"),
        ("https_proxy", "x"),
        ("HTTPS_PROXY", "x"),
        ("Https_Proxy", "no"),
        ("SSL_CERT_FILE", "x"),
        ("NODE_EXTRA_CA_CERTS", "x"),
    ];
    let env = child(&parent, &EnvPolicy::default(), None);
    for name in ["LC_ALL", "LC_TIME", "https_proxy", "HTTPS_PROXY", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"] {
        assert!(env.contains_key(name), "{name}");
    }
    assert!(!env.contains_key("Https_Proxy"));
}

#[test]
fn the_operator_can_pass_and_set_more_but_not_forge_the_mark() {
    let policy = EnvPolicy {
        pass: names(&["JAVA_HOME", "CODEX_HOME", MARKER]),
        set: BTreeMap::from([("RUST_LOG".into(), "info".into()), (MARKER.into(), "other".into())]),
    };
    let env = child(&[("JAVA_HOME", "/j"), ("CODEX_HOME", "/x"), (MARKER, "outer")], &policy, None);
    assert_eq!(env["JAVA_HOME"], "/j");
    assert_eq!(env["RUST_LOG"], "info");
    assert_eq!(env[MARKER], "h1");
    assert!(!env.contains_key("CODEX_HOME"));
}

#[test]
fn the_git_of_codex_itself_finds_no_repository_whatever_the_operator_lists() {
    let policy = EnvPolicy {
        pass: names(&["GIT_DIR"]),
        set: BTreeMap::from([("GIT_DIR".into(), "/srv/repo/.git".into())]),
    };
    let env = child(&[("GIT_DIR", "/home/ada/.git")], &policy, None);
    assert_eq!(env["GIT_DIR"], "/nonexistent");
}

#[test]
fn values_are_not_shown_when_a_policy_is_printed() {
    let policy = EnvPolicy { pass: names(&["A"]), set: BTreeMap::from([("B".into(), "s3cret".into())]) };
    assert_eq!(format!("{policy:?}"), r#"EnvPolicy { pass: {"A"}, set: ["B"] }"#);
}

#[test]
fn the_names_that_a_configuration_mentions_are_found() {
    let config = r#"
        model_provider = "a"
        # env_key = "COMMENTED_OUT"
        [model_providers.a]
        env_key = "KEY_A"   # the key
        env_key_instructions = "get one at NOT_A_NAME"
        env_http_headers = { "X-One" = "HEADER_ONE", 'X-Two' = 'HEADER_TWO' }
        [model_providers.a.env_http_headers]
        "X-Three" = "HEADER_THREE"
        [model_providers]
        c.env_http_headers.X-Four = "HEADER_FOUR"
        c.env_key = "KEY_D"
        b = { name = "B", env_key='KEY_B', http_headers = { "X" = "plain value" } }
        my_env_key = "NOT_THIS"
        "env_key" = "KEY_C"
        [mcp_servers.x]
        env = { TOKEN = "not a name" }
        env_key = "not a name"
    "#;
    let expected = names(&[
        "KEY_A",
        "KEY_B",
        "KEY_C",
        "KEY_D",
        "HEADER_ONE",
        "HEADER_TWO",
        "HEADER_THREE",
        "HEADER_FOUR",
    ]);
    assert_eq!(names_in_config(config), expected);
    assert_eq!(names_in_config("\u{0}[[[env_key=\"\nenv_key = \"é"), BTreeSet::new());
}
