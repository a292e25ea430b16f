use std::collections::BTreeMap;

use codex_bridge_core::outbox::Occasion;
use redact::Redactor;
use serde_json::json;
use toml::de::DeTable;

use super::*;
use crate::channel::notify_section;
use crate::channel::settings::{self, Context, Settings};

type All = BTreeMap<String, Settings>;

/// The channels of a file, and those of its old section.
fn read(file: &str) -> (All, All) {
    let mut table = DeTable::parse(file).unwrap();
    let [channels, notify] = ["channels", "notify"].map(|key| table.get_mut().remove(key));
    let channels = channels.map(|all| settings::read(all).unwrap()).unwrap_or_default();
    (channels, notify.map(|all| notify_section::read(all).unwrap()).unwrap_or_default())
}

fn env(name: &str) -> Option<String> {
    (name == "SET").then(|| "1:abc".to_owned())
}

fn registry(file: &str) -> Registry {
    let (channels, notify) = read(file);
    let (workspaces, profiles) = ([("main".to_owned(), "/".into())].into(), BTreeMap::new());
    let redactor = Redactor::default();
    let context =
        Context { workspaces: &workspaces, profiles: &profiles, env: &env, cwd: None, redactor: &redactor };
    Registry::new(&channels, &notify, context)
}

fn why(registry: &Registry, target: &str) -> String {
    registry.check(target).unwrap_err().why
}

#[test]
fn a_secret_comes_from_the_file_or_the_environment_and_its_lack_is_told() {
    for head in ["[notify.telegram]", "[channels.telegram]\ntype = \"telegram\""] {
        let telegram = |token: &str| registry(&format!("{head}\n{token}\nchat = \"@ops\"\n"));
        assert_eq!(telegram("token_env = \"SET\"").check("telegram"), Ok(()));
        assert_eq!(telegram("token = \"1:abc\"").check("telegram:@ops"), Ok(()));
        let unset = why(&telegram("token_env = \"UNSET\""), "telegram");
        assert!(unset.contains("the variable UNSET is not set"), "{unset}");
        let none = why(&telegram(""), "telegram");
        let expected = if head == "[notify.telegram]" {
            "the token is missing"
        } else {
            "TELEGRAM_BOT_TOKEN is not set"
        };
        assert!(none.contains(expected), "{none}");
    }
    assert_eq!(why(&registry(""), "telegram"), "the channel is not configured");
    assert_eq!(why(&registry(""), "pigeon:roof"), "no channel has this name");
}

#[test]
fn only_the_operators_chats_are_known() {
    let telegram = "token = \"1:abc\"\nchats = [-5]\n";
    let feishu = "app_id = \"a\"\napp_secret = \"b\"\nchats = [\"oc_1\", \"ou_2\"]\n";
    for file in [
        format!("[notify.telegram]\n{telegram}[notify.feishu]\n{feishu}"),
        format!(
            "[channels.telegram]\n{telegram}type = \"telegram\"\n[channels.feishu]\ntype = \"feishu\"\n{feishu}"
        ),
    ] {
        let registry = registry(&file);
        assert_eq!(registry.check("telegram:-5:17"), Ok(()));
        assert_eq!(registry.check("feishu:oc_1:om_9"), Ok(()));
        assert_eq!(why(&registry, "telegram:-6"), "that chat is not in `chat` or `chats` of the channel");
        assert_eq!(why(&registry, "telegram"), "the channel has no default chat: name one, or set `chat`");
        assert_eq!(why(&registry, "telegram:-5:x"), "a thread is a number");
        assert_eq!(why(&registry, "feishu:oc_2"), "that chat is not in `chat` or `chats` of the channel");
        assert_eq!(
            why(&registry, "feishu:oc_1:../x"),
            "a thread is named by the id of one of its messages, om_…"
        );
        let known = registry.check("pigeon").unwrap_err().known;
        assert_eq!(known, ["feishu:oc_1", "feishu:ou_2", "telegram:-5"]);
    }
}

#[test]
fn what_cannot_be_used_is_not_among_what_is_known() {
    let registry = registry(
        "[notify.webhook.good]\nurl = \"http://127.0.0.1:1/x\"\n[notify.webhook.bad]\nurl = \"ftp://x\"\n\
         [notify.webhook.weak]\nurl = \"http://x\"\nsecret = \"short\"\n[notify.exec.none]\nargv = []\n\
         [notify.exec.slow]\nargv = [\"x\"]\ntimeout_s = 600\n\
         [channels.lazy]\ntype = \"webhook\"\nurl = \"http://x\"\ntimeout_s = 600\n\
         [channels.mail]\ntype = \"exec\"\nargv = [\"mail\"]\n",
    );
    assert_eq!(registry.check("exec:none").unwrap_err().known, ["mail", "webhook:good"]);
    assert!(why(&registry, "webhook:bad").contains("http://"));
    assert!(why(&registry, "webhook:weak").contains("24 to 64 bytes"));
    assert!(why(&registry, "exec:slow").contains("at most 50"));
    assert!(why(&registry, "webhook:lazy").contains("1 to 50"));
}

#[test]
fn a_channel_is_named_with_its_type_or_without_and_an_old_target_as_ever() {
    let registry = registry(
        "[notify.webhook.old]\nurl = \"http://x/\"\n[channels.new]\ntype = \"webhook\"\nurl = \"http://x/\"\n\
         [channels.webhook]\ntype = \"webhook\"\nurl = \"http://x/\"\n",
    );
    for target in ["webhook:old", "new", "webhook:new", "webhook", "webhook:webhook"] {
        assert_eq!(registry.check(target), Ok(()), "{target}");
    }
    for target in ["old", "new:place", "new:", "exec:new", "webhook:other"] {
        assert!(registry.check(target).is_err(), "{target}");
    }
}

fn notice(occasion: Occasion) -> Notice {
    let fields = json!({
        "event": occasion, "task_id": "codex-0123456789ab", "status": "working", "prompt": "", "cwd": "/", "at": 0,
    });
    serde_json::from_value(fields).unwrap()
}

#[test]
fn what_a_repetition_does_depends_on_the_receiver() {
    let registry = registry(
        "[channels.own]\ntype = \"webhook\"\nurl = \"http://x/\"\n\
         [channels.slack]\ntype = \"webhook\"\nurl = \"http://x/\"\nbody = { text = \"{text}\" }\n\
         [channels.mail]\ntype = \"exec\"\nargv = [\"mail\"]\n\
         [channels.feishu]\ntype = \"feishu\"\napp_id = \"a\"\napp_secret = \"b\"\nchat = \"oc_1\"\n",
    );
    let repeats =
        |target: &str| registry.repeats(&Attempt::first("dlv-1".into(), target, notice(Occasion::Test)));
    assert_eq!(repeats("own"), Repeats::Idempotent { within: None });
    assert!(matches!(repeats("feishu"), Repeats::Idempotent { within: Some(_) }));
    for target in ["slack", "exec:mail"] {
        assert_eq!(repeats(target), Repeats::MayDouble, "{target}");
    }
}

#[test]
fn all_secrets_are_known_and_addresses_that_are_none_are_not() {
    let file = "[channels.a]\ntype = \"webhook\"\nurl = \"https://hooks.example/services/T000/B000/XXXX\"\n\
        secret = \"s-1\"\n\
        body = { topic = \"my-topic\", auth = { password = \"p-1\" }, title = \"{title}\", tags = [\"robot\"] }\n\
        [notify.webhook.d]\nurl = \"https://me:pa%20ss@hooks.example?key=0123456789abcdef\"\n\
        [notify.webhook.b]\nurl = \"http://localhost:3000/hook\"\ntoken_env = \"SET\"\n\
        [channels.telegram]\ntoken = \"t-1\"\n[notify.feishu]\napp_id = \"id\"\napp_secret = \"f-1\"\n\
        [notify.feishu-bot.c]\nurl_env = \"UNSET\"\nsecret = \"b-1\"\n";
    let (channels, notify) = read(file);
    let all = || channels.values().chain(notify.values());
    let mut secrets = settings::secrets(all(), &env);
    secrets.sort();
    let expected = [
        "1:abc",
        "b-1",
        "f-1",
        "key=0123456789abcdef",
        "my-topic",
        "p-1",
        "pa%20ss",
        "s-1",
        "services/T000/B000/XXXX",
        "t-1",
    ];
    assert_eq!(secrets, expected);
    let shown = format!("{:?}", all().collect::<Vec<_>>());
    assert!(!["s-1", "t-1", "f-1", "b-1"].iter().any(|secret| shown.contains(secret)), "{shown}");
}

/// A bot that rests, and targets of another one.
fn two_bots() -> Registry {
    registry(
        "[channels.telegram]\nallow = [\"42\"]\n[channels.telegram.telegram]\ntoken = \"4711:token\"\n\
         [notify.telegram]\ntoken = \"4712:token\"\nchats = [\"@ops\", -5]\n[notify.exec.mail]\nargv = [\"mail\"]\n",
    )
}

#[test]
fn what_is_accepted_goes_out_the_way_for_which_it_was_accepted() {
    let registry = two_bots();
    let check = |target: &str, occasion: Occasion, is_of_channel: bool| {
        assert_eq!(registry.check(target), Ok(()), "{target}");
        let route = registry.route(target, &notice(occasion));
        assert_eq!(matches!(route, Route::NotServed), is_of_channel, "{target} {occasion:?}");
        assert_eq!(matches!(route, Route::Channel(..)), !is_of_channel, "{target} {occasion:?}");
    };
    check("telegram:42", Occasion::Completed, true);
    check("telegram:42", Occasion::Approval, true);
    // No bot can be asked by this name, so it is none of the channel's.
    check("telegram:@ops", Occasion::Completed, false);
    check("telegram:@ops", Occasion::Approval, false);
    check("telegram:@ops", Occasion::Reply, false);
    check("telegram:-5", Occasion::Completed, false);
    check("telegram:-5", Occasion::Approval, false);
    check("exec:mail", Occasion::Completed, false);
}

#[test]
fn whoever_wrote_is_answered_by_the_channel_wherever_they_wrote() {
    let registry = two_bots();
    let mut asked = notice(Occasion::Question);
    let Content::Asks(asks) = &mut asked.content else { panic!("{asked:?}") };
    asks.in_conversation = true;
    for (target, notice) in [("telegram:-5", notice(Occasion::Reply)), ("telegram:-1001", asked)] {
        assert!(matches!(registry.route(target, &notice), Route::NotServed), "{target}");
    }
    assert!(registry.check("telegram:-1001").is_err(), "and nobody else may name that place");
}

#[test]
fn one_bot_sends_and_receives_and_one_that_nobody_writes_to_only_sends() {
    let head = "[channels.ops]\ntype = \"telegram\"\ntoken = \"4711:token\"\nchat = \"@ops\"\nchats = [-5]\n";
    let sends = registry(head);
    let both = registry(&format!("{head}allow = [\"42\"]\n"));
    for target in ["ops", "ops:@ops", "ops:-5:7", "telegram:ops:-5"] {
        for (registry, rests) in [(&sends, false), (&both, true)] {
            assert_eq!(registry.check(target), Ok(()), "{target}");
            let route = registry.route(target, &notice(Occasion::Completed));
            assert_eq!(matches!(route, Route::NotServed), rests, "{target}");
        }
    }
    assert!(sends.only_sends("ops") && !both.only_sends("ops"));
    assert!(sends.check("ops:42").is_err() && both.check("ops:42").is_ok());
}

#[test]
fn the_words_of_a_conversation_wait_for_a_channel_that_only_sends_by_the_file() {
    let registry = registry(
        "[channels.telegram]\nmanual = true\n[channels.telegram.telegram]\ntoken = \"4711:token\"\nchats = [-5]\n\
         [channels.ci]\ntype = \"webhook\"\nurl = \"http://x/\"\n",
    );
    let rests = |target: &str, occasion: Occasion| {
        let route = registry.route(target, &notice(occasion));
        assert!(!matches!(route, Route::None(_)), "{target} {occasion:?}");
        matches!(route, Route::NotServed)
    };
    assert!(rests("telegram:42", Occasion::Reply), "somebody who was named with --allow wrote there");
    assert!(!rests("telegram:-5", Occasion::Reply), "nobody wrote there: a hook's reply");
    registry.mark_served("telegram");
    for target in ["telegram:42", "telegram:-5"] {
        assert!(rests(target, Occasion::Reply), "{target}");
    }
    assert!(rests("telegram:42", Occasion::Completed), "it was accepted while the channel was served");
    assert!(!rests("telegram:-5", Occasion::Completed));
    registry.mark_served("ci");
    assert!(!rests("ci", Occasion::Reply), "a hook's reply, though the name was another kind's once");
}

#[test]
fn in_the_old_spelling_names_and_chats_keep_the_bot_that_told_them() {
    let notify = "[notify.telegram]\ntoken = \"4712:token\"\nchats = [\"@ops\", -5]\n";
    let old = |allow: &str| {
        format!(
            "[channels.telegram]\n{allow}[channels.telegram.telegram]\ntoken = \"4711:token\"\n\
             chats = [\"@ops\", -5]\n{notify}"
        )
    };
    let receiving = registry(&old("allow = [\"42\"]\n"));
    let rests =
        |target: &str, occasion| matches!(receiving.route(target, &notice(occasion)), Route::NotServed);
    assert!(!rests("telegram:@ops", Occasion::Completed) && !rests("telegram:@ops", Occasion::Reply));
    assert!(rests("telegram:-5", Occasion::Completed) && rests("telegram:-5", Occasion::Reply));
    let sending = registry(&old(""));
    for target in ["telegram:@ops", "telegram:-5"] {
        let Route::Channel(chosen, _) = sending.route(target, &notice(Occasion::Completed)) else {
            panic!("{target}")
        };
        let of_notify = sending.candidates(target).into_iter().find(|one| !one.can_receive).unwrap();
        assert!(Arc::ptr_eq(&chosen, &of_notify.channel.unwrap()), "{target}");
    }
}

#[test]
fn of_two_old_tables_the_first_counts_and_the_other_is_told() {
    let (channels, notify) = read(
        "[channels.x]\nallow = [\"42\"]\n[channels.x.webhook]\nsecret = \"left over\"\n\
         [channels.x.telegram]\ntoken = \"4711:token\"\n",
    );
    assert_eq!(channels["x"].kind(), Some("telegram"));
    let hints = notify_section::hints(&notify, &channels);
    assert!(hints.iter().any(|hint| hint.starts_with("[channels.x.webhook] is not used")), "{hints:?}");
}

#[test]
fn a_channel_that_was_served_is_waited_for_by_whatever_type_it_is_named() {
    let registry = two_bots();
    assert!(matches!(registry.route("plugin:echo:room", &notice(Occasion::Completed)), Route::None(_)));
    registry.mark_served("echo");
    for target in ["plugin:echo:room", "molecule:echo:room", "echo:room", "plugin:telegram:42"] {
        assert!(matches!(registry.route(target, &notice(Occasion::Completed)), Route::NotServed), "{target}");
    }
    assert!(registry.check("plugin:telegram:42").is_ok() && registry.check("exec:telegram:42").is_err());
}

#[test]
fn what_a_kind_cannot_do_is_not_waited_for() {
    let registry = registry(
        "[channels.ci]\ntype = \"webhook\"\nurl_env = \"UNSET\"\n\
         [channels.bot]\ntype = \"telegram\"\ntoken_env = \"UNSET\"\nallow = [\"42\"]\n",
    );
    let Route::None(why) = registry.route("ci", &notice(Occasion::Completed)) else {
        panic!("it only sends")
    };
    assert!(why.contains("the variable UNSET is not set"), "{why}");
    assert!(registry.only_sends("ci") && !registry.only_sends("bot"));
    assert!(matches!(registry.route("bot:42", &notice(Occasion::Completed)), Route::NotServed));
}
