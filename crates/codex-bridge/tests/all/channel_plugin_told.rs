//! What is said between a plugin and us beside messages: what it lets slip, what it is told while a turn works, and what it
//! asks us to wait for.

use std::fs;
use std::time::Instant;

use scripted_model::Scenario;
use serde_json::Value;
use testkit::platform::telegram::server::Server;

use crate::channel_plugin::{Lab, example, misbehaving_with};
use crate::shell::{PATIENCE, until};

/// Repeats the secrets that it finds in a file, in every way that it has.
const REPEATS: &str = "import json, os, sys, time\nsaid = sys.argv[1] + '/said'\n\
    first = json.loads(sys.stdin.readline())\n\
    if os.path.exists(said):\n  error = {'code': 'auth', 'message': 'refused: ' + open(said).read()}\n  \
    print(json.dumps({'id': first['id'], 'error': error}), flush=True)\n  sys.exit(0)\n\
    print(json.dumps({'id': first['id'], 'result': {'name': 'x', 'capabilities': {}}}), flush=True)\n\
    while not os.path.exists(said): time.sleep(0.02)\n\
    text = open(said).read()\nprint('it said ' + text, file=sys.stderr, flush=True)\n\
    for method, params in (('log', {'msg': text}), ('health', {'of': text}), ('nonsense/' + text, {})):\n  \
    print(json.dumps({'method': method, 'params': params}), flush=True)\n\
    print(json.dumps({'method': 'log', 'params': {'msg': 'all is said'}}), flush=True)\nsys.stdin.read()\n";

#[tokio::test]
async fn no_secret_that_a_plugin_repeats_is_in_the_log_or_in_what_is_told_of_it() {
    const TOKEN: &str = "4711:planted-bot-token";
    let (lab, _) = misbehaving_with(
        REPEATS,
        "env = { OWN = \"planted-in-its-env\" }\n[channels.echo.config]\napi_key = \"planted-in-config\"\n",
    )
    .await;
    lab.shell.log_with("is served by").await;
    // The token of another channel, which the daemon did not know when the plugin was begun.
    let server = Server::open(TOKEN).await;
    let mut run = lab.shell.command(&["channel", "run", "telegram", "--allow", "42"]);
    let mut run =
        run.env("TELEGRAM_BOT_TOKEN", TOKEN).env("TELEGRAM_API_BASE", server.base()).spawn().unwrap();
    server.until("the bot to be served", |server| (!server.calls().is_empty()).then_some(())).await;
    let said = lab.shell.home.dir().join("said");
    fs::write(said.with_extension("part"), format!("planted-in-its-env, planted-in-config, {TOKEN}"))
        .unwrap();
    fs::rename(said.with_extension("part"), &said).unwrap();
    let log = lab.shell.log_with("all is said").await;
    assert!(log.contains("it said [redacted") && !log.contains("planted"), "{log}");
    lab.shell.run(&["channel", "pause", "echo"]).await.ok();
    let tested = lab.shell.run(&["channel", "test", "echo"]).await;
    assert!(tested.err.contains("refused: [redacted") && !tested.err.contains("planted"), "{}", tested.err);
    lab.shell.run(&["stop", "--hosts"]).await.ok();
    run.wait().unwrap();
    lab.shell.home.assert_no_processes().await;
}

/// Brings one message with a picture, keeps what it is told, and has the first thing that is said wait.
const ASKS_TO_WAIT: &str = "import json, os, sys, time\nwaits = True\ndef tell(**what): print(json.dumps(what), flush=True)\n\
    for line in sys.stdin:\n  call = json.loads(line)\n  method = call.get('method')\n  \
    open(sys.argv[1] + '/told', 'a').write(line)\n  \
    if method == 'initialize':\n    tell(id=call['id'], result={'capabilities': {'send': True, 'typing': True}})\n    \
    said = {'id': 'm1', 'conversation': 'c', 'sender': {'id': 'ada'}, 'text': 'look',\n      \
    'attachments': [{'kind': 'image', 'name': 'a.png', 'data': 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=='}]}\n    while not os.path.exists(sys.argv[1] + '/go'): time.sleep(0.02)\n    tell(id='m1', method='inbound', params=said)\n  \
    elif method == 'send' and waits:\n    waits = False\n    \
    tell(id=call['id'], error={'code': 'transient', 'message': 'later', 'data': {'retry_after': 1}})\n  \
    elif method == 'send':\n    tell(id=call['id'], result={'message_id': 'x'})\n";

fn told(lab: &Lab, method: &str) -> Vec<Value> {
    let text = fs::read_to_string(lab.shell.home.dir().join("told")).unwrap_or_default();
    let all = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    all.filter(|call| call["method"] == method).map(|call| call["params"].clone()).collect()
}

#[tokio::test]
async fn a_plugin_hears_where_a_turn_works_and_is_left_alone_for_as_long_as_it_asks() {
    let (lab, _) = misbehaving_with(ASKS_TO_WAIT, "").await;
    lab.shell.model.script_containing("[image: a.png, 70 bytes]", Scenario::new().stall("gate").say("Done."));
    fs::write(lab.shell.home.dir().join("go"), "").unwrap();
    until("it to hear twice that the turn works", || (told(&lab, "typing").len() > 1).then_some(())).await;
    assert_eq!(told(&lab, "typing")[0], serde_json::json!({"target": "c"}));
    lab.shell.model.release("gate");
    until("the reply to be said again", || (told(&lab, "send").len() > 1).then_some(())).await;
    let said = told(&lab, "send");
    assert_eq!(said[0]["text"], "Done.", "the picture is given to Codex");
    let attempts: Vec<_> = said.iter().map(|one| (&one["kind"], &one["attempt"])).collect();
    assert_eq!(attempts, [(&"reply".into(), &1.into()); 2], "a wait that is asked for costs no attempt");
    let all = lab.shell.deliveries(|all| all[0]["state"] == "delivered").await;
    assert_eq!(all.len(), 1, "{all:#?}");
    lab.end().await;
}

#[tokio::test]
async fn what_finds_no_room_is_offered_again_and_keeps_its_place() {
    let lab = Lab::new().await;
    lab.say("lab", "ada", "0 [play] stall gate => say Zero.");
    // Two hundred may wait.
    (1..=203).for_each(|number| lab.say("lab", "ada", &format!("{number} [play] say No {number}.")));
    let began = Instant::now();
    while lab.start().await[0]["open_messages"] != 201 {
        assert!(began.elapsed() < PATIENCE, "they do not come in");
    }
    let newest = async || lab.inbox().await[0]["summary"].as_str().unwrap().to_owned();
    assert!(newest().await.starts_with("200 "), "the others wait where they are: {}", newest().await);
    lab.shell.model.release("gate");
    let began = Instant::now();
    while !newest().await.starts_with("203 ") {
        assert!(began.elapsed() < PATIENCE, "they do not come in: {}", newest().await);
    }
    let inbox = lab.inbox().await;
    assert!(inbox.iter().all(|one| one["state"] != "dead"), "{inbox:#?}");
    let last: Vec<&str> = inbox.iter().take(3).map(|one| &one["summary"].as_str().unwrap()[..3]).collect();
    assert_eq!(last, ["203", "202", "201"]);
    lab.end().await;
}

#[test]
fn the_example_is_short() {
    let lines = fs::read_to_string(example()).unwrap().lines().count();
    assert!(lines <= 40, "{lines} lines");
}
