use serde_json::json;

use super::*;

fn deliver(config: &str) -> Deliver {
    let env = |name: &str| (name == "SET").then(|| "1:abc".to_owned());
    Deliver::new(&toml::from_str(config).unwrap(), &env)
}

fn why(deliver: &Deliver, target: &str) -> String {
    deliver.check(target).unwrap_err().why
}

#[test]
fn a_secret_comes_from_the_file_or_the_environment_and_its_lack_is_told() {
    let telegram = |token: &str| deliver(&format!("[telegram]\n{token}\nchat = \"@ops\"\n"));
    assert_eq!(telegram("token_env = \"SET\"").check("telegram"), Ok(()));
    assert_eq!(telegram("token = \"1:abc\"").check("telegram:@ops"), Ok(()));
    assert_eq!(why(&telegram("token_env = \"UNSET\""), "telegram"), "the variable UNSET is not set");
    assert_eq!(why(&telegram(""), "telegram"), "it has no token");
    assert_eq!(why(&deliver(""), "telegram"), "it is not configured");
}

#[test]
fn only_the_operators_chats_are_known() {
    let deliver = deliver(
        "[telegram]\ntoken = \"1:abc\"\nchats = [-5]\n\
         [feishu]\napp_id = \"a\"\napp_secret = \"b\"\nchats = [\"oc_1\", \"ou_2\"]\n",
    );
    assert_eq!(deliver.check("telegram:-5:17"), Ok(()));
    assert_eq!(deliver.check("feishu:oc_1:om_9"), Ok(()));
    assert_eq!(why(&deliver, "telegram:-6"), "that chat is not one of the operator's");
    assert_eq!(why(&deliver, "telegram"), "no chat is set for it; name one");
    assert_eq!(why(&deliver, "telegram:-5:x"), "a thread is a number");
    assert_eq!(why(&deliver, "feishu:oc_2"), "that chat is not one of the operator's");
    assert_eq!(why(&deliver, "feishu:oc_1:../x"), "a thread is named by a message of it, om_…");
    let known = deliver.check("pigeon").unwrap_err().known;
    assert_eq!(known, ["telegram:-5", "feishu:oc_1", "feishu:ou_2"]);
}

#[test]
fn what_cannot_be_used_is_not_among_what_is_known() {
    let deliver = deliver(
        "[webhook.good]\nurl = \"http://127.0.0.1:1/x\"\n[webhook.bad]\nurl = \"ftp://x\"\n\
         [webhook.weak]\nurl = \"http://x\"\nsecret = \"short\"\n[exec.none]\nargv = []\n\
         [exec.slow]\nargv = [\"x\"]\ntimeout_s = 600\n[webhook.slow]\nurl = \"http://x\"\ntimeout_s = 600\n",
    );
    assert_eq!(deliver.check("exec:none").unwrap_err().known, ["webhook:good"]);
    assert!(why(&deliver, "webhook:bad").contains("http://"));
    assert!(why(&deliver, "webhook:weak").contains("24 to 64 bytes"));
    assert!(why(&deliver, "exec:slow").contains("at most 50"));
    assert!(why(&deliver, "webhook:slow").contains("1 to 50"));
}

fn attempt(target: &str) -> Attempt {
    let notice = json!({
        "event": "test", "task_id": "codex-0123456789ab", "status": "completed", "prompt": "", "cwd": "", "at": 0,
    });
    Attempt {
        key: "dlv-1".into(),
        target: target.to_owned(),
        notice: serde_json::from_value(notice).unwrap(),
        number: 1,
        twins: 0,
        may_be_duplicate: false,
    }
}

#[test]
fn what_a_repetition_does_depends_on_the_receiver() {
    let deliver = deliver(
        "[webhook.own]\nurl = \"http://x/\"\n[webhook.slack]\nurl = \"http://x/\"\nbody = { text = \"{text}\" }\n\
         [exec.mail]\nargv = [\"mail\"]\n[feishu]\napp_id = \"a\"\napp_secret = \"b\"\nchat = \"oc_1\"\n",
    );
    let repeats = |target: &str| deliver.repeats(&attempt(target));
    assert_eq!(repeats("webhook:own"), Repeats::Idempotent { within: None });
    assert!(matches!(repeats("feishu"), Repeats::Idempotent { within: Some(_) }));
    for target in ["webhook:slack", "exec:mail"] {
        assert_eq!(repeats(target), Repeats::MayDouble, "{target}");
    }
}

#[test]
fn all_secrets_are_known_and_addresses_that_are_none_are_not() {
    let config = "[webhook.a]\nurl = \"https://hooks.example/services/T000/B000/XXXX\"\nsecret = \"s-1\"\n\
        body = { topic = \"my-topic\", auth = { password = \"p-1\" }, title = \"{title}\", tags = [\"robot\"] }\n\
        [webhook.d]\nurl = \"https://me:pa%20ss@hooks.example?key=0123456789abcdef\"\n\
        [webhook.b]\nurl = \"http://localhost:3000/hook\"\ntoken_env = \"SET\"\n\
        [telegram]\ntoken = \"t-1\"\n[feishu]\napp_id = \"id\"\napp_secret = \"f-1\"\n\
        [feishu-bot.c]\nurl_env = \"UNSET\"\nsecret = \"b-1\"\n";
    let notify: Notify = toml::from_str(config).unwrap();
    let mut secrets = secrets(&notify, &|name| (name == "SET").then(|| "from-env".to_owned()));
    secrets.sort();
    assert_eq!(
        secrets,
        [
            "b-1",
            "f-1",
            "from-env",
            "key=0123456789abcdef",
            "my-topic",
            "p-1",
            "pa%20ss",
            "s-1",
            "services/T000/B000/XXXX",
            "t-1",
        ]
    );
}
