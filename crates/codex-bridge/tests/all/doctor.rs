//! The doctor: looks at everything, and says what to do.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::shell::{Said, Shell};

fn finding(said: &Said, name: &str) -> Value {
    let findings = said.json();
    let found = findings.as_array().unwrap().iter().find(|finding| finding["name"] == name).cloned();
    found.unwrap_or_else(|| panic!("nothing about {name} in {findings:#}"))
}

#[tokio::test]
async fn a_machine_that_is_well_gets_a_line_for_each_thing() {
    let shell = Shell::new().await;
    fs::set_permissions(shell.home.dir().join("st"), fs::Permissions::from_mode(0o700)).unwrap();
    let before = shell.run(&["--json", "doctor"]).await.ok();
    let names = [
        "config", "codex", "login", "sandbox", "home", "users", "targets", "channels", "state", "tools",
        "daemon", "log", "hosts",
    ];
    for name in names {
        assert_eq!(finding(&before, name)["verdict"], "ok", "{name}: {}", before.out);
    }
    // How much space is free is up to the machine that the test runs on.
    let disk = finding(&before, "disk");
    assert!(disk["message"].as_str().unwrap().contains(" free"), "{disk}");
    assert!(finding(&before, "codex")["message"].as_str().unwrap().starts_with("0.166.0 at /"));
    shell.home.assert_no_processes().await;

    let id = shell.start("hello [play] say Hello.").await;
    shell.run(&["wait", &id, "--timeout", "120"]).await.ok();
    let after = shell.run(&["doctor"]).await.ok().out;
    assert!(after.contains("running as pid") && after.contains("hosts     1 running"), "{after}");
    shell.end().await;
}

#[tokio::test]
async fn every_problem_comes_with_what_to_do() {
    let shell = Shell::new().await;
    // A Codex of its own provider needs a login, and this home has none.
    shell.home.write_config("");
    let login = shell.run(&["--json", "doctor"]).await;
    assert_eq!(login.code, 1);
    assert_eq!(finding(&login, "login")["verdict"], "problem");
    assert_eq!(finding(&login, "login")["fix"], "run `codex login`");

    let config = shell.home.dir().join("config.toml");
    fs::write(&config, "codex_bin = \"/no/such/codex\"\n").unwrap();
    let missing = shell.run(&["--json", "doctor"]).await;
    let found = finding(&missing, "codex");
    assert_eq!(found["verdict"], "problem");
    assert!(found["message"].as_str().unwrap().contains("npm i -g @openai/codex"), "{found}");

    fs::write(&config, "max_runing = 1\n").unwrap();
    fs::set_permissions(shell.home.dir().join("st"), fs::Permissions::from_mode(0o755)).unwrap();
    let wrong = shell.run(&["--json", "doctor"]).await;
    assert!(finding(&wrong, "config")["message"].as_str().unwrap().contains("line 1"), "{}", wrong.out);
    assert_eq!(finding(&wrong, "state")["verdict"], "warning");
    let findings = wrong.json();
    for finding in findings.as_array().unwrap() {
        assert_eq!(finding["fix"].is_string(), finding["verdict"] != "ok", "{finding}");
    }
    shell.home.assert_no_processes().await;
}

#[tokio::test]
async fn targets_and_channels_that_lack_something_are_named_with_what_they_lack() {
    let shell = Shell::new().await;
    shell.configure(
        "[notify.webhook.ci]\nurl = \"http://127.0.0.1:1/in\"\n[channels.hook.webhook]\nsecret_env = \"UNSET_SECRET\"\n",
    );
    let said = shell.run(&["--json", "doctor"]).await.ok();
    let config = finding(&said, "config");
    assert_eq!(config["verdict"], "warning", "old spellings: {config}");
    let new = "[notify.webhook.ci] is an old spelling: write [channels.ci] with type = \"webhook\"";
    assert!(config["fix"].as_str().unwrap().contains(new), "{config}");
    let targets = finding(&said, "targets");
    assert_eq!((&targets["verdict"], targets["fix"].is_null()), (&"ok".into(), true), "{targets}");
    assert!(targets["message"].as_str().unwrap().starts_with("webhook:ci; "), "{targets}");
    let channels = finding(&said, "channels");
    assert_eq!(channels["verdict"], "warning", "{channels}");
    let message = channels["message"].as_str().unwrap();
    assert!(message.contains("hook: ") && message.contains("UNSET_SECRET is not set"), "{message}");

    shell.configure("[notify.telegram]\ntoken_env = \"UNSET_TOKEN\"\nchat = -1\n");
    let targets = finding(&shell.run(&["--json", "doctor"]).await.ok(), "targets");
    assert_eq!(targets["verdict"], "warning", "{targets}");
    assert_eq!(targets["message"], "telegram: the variable UNSET_TOKEN is not set");
    shell.home.assert_no_processes().await;
}

#[tokio::test]
async fn a_channel_that_the_daemon_cannot_serve_is_said_to_be_one_with_the_reason() {
    let shell = Shell::new().await;
    shell.configure(
        "[channels.ci]\nmanual = false\n[channels.ci.webhook]\nsecret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\n",
    );
    let channels = finding(&shell.run(&["--json", "doctor"]).await.ok(), "channels");
    assert_eq!(channels["verdict"], "warning", "{channels}");
    assert!(channels["message"].as_str().unwrap().contains("no workspace is registered"), "{channels}");
    let listed = shell.run(&["--json", "channel", "list"]).await.ok().json();
    shell.log_with("config.toml: [channels.ci.webhook] is an old spelling").await;
    assert_eq!(listed[0]["standing"], "idle", "{listed}");
    assert!(listed[0]["about"].as_str().unwrap().contains("no workspace is registered"), "{listed}");

    let file = shell.home.dir().join("config.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, config.replace("manual = false", "manual = true")).unwrap();
    let channels = finding(&shell.run(&["--json", "doctor"]).await.ok(), "channels");
    assert_eq!(channels["verdict"], "ok", "it works where it is run: {channels}");
    shell.end().await;
}
