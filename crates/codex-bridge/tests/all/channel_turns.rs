//! What a chat shows of its turns: the steps of a running one, and `/status`.

use std::fs;

use serde_json::Value;

use crate::channel_plugin::{Lab, misbehaving_with};
use crate::shell::until;

/// Brings two messages at once and keeps what it is told. It answers an edit only when the file `go` exists.
const SLOW_TO_EDIT: &str = "import json, os, sys, threading, time\n\
    def tell(**what): print(json.dumps(what) + '\\n', end='', flush=True)\n\
    def edited(name):\n  while not os.path.exists(sys.argv[1] + '/go'): time.sleep(0.02)\n  tell(id=name, result={})\n\
    def write(name, text):\n  said = {'id': name, 'conversation': 'c', 'sender': {'id': 'ada'}, 'text': text}\n  \
    tell(id=name, method='inbound', params=said)\n\
    for line in sys.stdin:\n  call = json.loads(line)\n  method = call.get('method')\n  \
    if method == 'initialize':\n    can = {'send': True, 'edit': True, 'progress': True}\n    \
    tell(id=call['id'], result={'capabilities': can})\n    \
    write('m1', 'one [play] exec echo step-1 => stall gate-1 => exec echo step-2 => stall gate-2 => say One.')\n    \
    write('m2', 'two [play] exec echo step-3 => stall gate-3 => say Two.')\n  \
    elif method:\n    open(sys.argv[1] + '/told', 'a').write(line)\n    \
    if method == 'edit': threading.Thread(target=edited, args=(call['id'],), daemon=True).start()\n    \
    elif method == 'send': tell(id=call['id'], result={'message_id': call['params']['outbox_id']})\n";

/// The texts of each progress message, the first message first.
fn shown(lab: &Lab) -> Vec<Vec<String>> {
    let told = fs::read_to_string(lab.shell.home.dir().join("told")).unwrap_or_default();
    let told: Vec<Value> = told.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let text = |call: &Value| call["params"]["text"].as_str().unwrap_or_default().to_owned();
    let mut shown: Vec<(Value, Vec<String>)> = Vec::new();
    for call in &told {
        let params = &call["params"];
        if params["kind"] == "progress" {
            shown.push((params["outbox_id"].clone(), vec![text(call)]));
        } else if let Some((_, texts)) = shown.iter_mut().find(|(id, _)| *id == params["message_id"]) {
            texts.push(text(call));
        }
    }
    shown.into_iter().map(|(_, texts)| texts).collect()
}

/// Waits until the progress message of this number has a text with these words.
async fn until_shown(lab: &Lab, number: usize, words: &str) {
    let is_shown = || shown(lab).get(number)?.iter().any(|text| text.contains(words)).then_some(());
    until(&format!("{words:?} in progress message {number}"), is_shown).await;
}

#[tokio::test]
async fn the_progress_of_a_turn_shows_no_step_of_the_turn_after_it() {
    let (lab, _) = misbehaving_with(SLOW_TO_EDIT, "").await;
    until_shown(&lab, 0, "step-1").await;
    lab.shell.model.release("gate-1");
    // While this edit is not answered, the first turn ends and the second one works.
    until_shown(&lab, 0, "step-2").await;
    lab.shell.model.release("gate-2");
    lab.shell.model.wait_for_stall("gate-3").await;
    fs::write(lab.shell.home.dir().join("go"), "").unwrap();
    until_shown(&lab, 0, "Done in ").await;
    until_shown(&lab, 1, "step-3").await;
    lab.shell.model.release("gate-3");
    until_shown(&lab, 1, "Done in ").await;
    let all = shown(&lab);
    let [first, second] = all.as_slice() else { panic!("one message for each turn: {all:#?}") };
    let last = first.last().unwrap();
    assert!(last.starts_with("Done in ") && last.ends_with(" · 2 commands"), "{all:#?}");
    assert!(!first.concat().contains("step-3"), "{all:#?}");
    assert!(!second.concat().contains("step-1") && !second.concat().contains("step-2"), "{all:#?}");
    lab.end().await;
}

#[tokio::test]
async fn the_status_names_what_was_asked_last() {
    let lab = Lab::new().await;
    lab.say("lab", "ada", "paint the shed [play] say Painted.");
    lab.say("lab", "ada", "mow the lawn [play] say Mown.");
    lab.start().await;
    lab.until_said("Mown.").await;
    lab.say("lab", "ada", "/status");
    let said = lab.until_said("Last asked: ").await;
    assert!(said["text"].as_str().unwrap().contains("Last asked: mow the lawn"), "{said}");
    lab.end().await;
}
