//! Files of messages on the real Codex: they reach it once, wait for a turn of their own, and are forgotten with their message.

use std::fs;
use std::sync::Arc;

use codex_bridge_core::chats::WantedFiles;
use codex_bridge_core::inbox::attachment::{Attached, classify};
use codex_bridge_core::inbox::transcriber::{Transcriber, Transcribes};
use codex_bridge_core::inbox::{
    Arrival, Attachment, Content, Message, MessageId, MessageKind, MessageState, Rules, WhileRunning,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use scripted_model::Scenario;
use tokio::sync::Semaphore;

use crate::inbox::{from, messages, receive, rules, said};
use crate::outbox::{Stage, config, until};
use crate::workbench::{Serving, Workbench};

async fn serving(bench: &Workbench, stage: &Arc<Stage>, rules: Rules) -> Serving {
    let bridge = Serving::on(bench.open_with(config(bench, stage)).await);
    bridge.chats.open_channel(rules).await.unwrap();
    bridge
}

fn file(name: &str, bytes: &[u8]) -> Attachment {
    Attachment { kind: "file".into(), name: name.into(), content: classify(bytes.to_vec()) }
}

fn with(arrival: Arrival, attachments: Vec<Attachment>) -> Arrival {
    Arrival { attachments, ..arrival }
}

fn is_over(message: &Message) -> bool {
    matches!(message.state, MessageState::Answered | MessageState::Acknowledged | MessageState::Dead)
}

async fn stored_files(bridge: &Serving, id: &MessageId) -> usize {
    bridge.chats.bridge().store().attachments(id).await.unwrap().len()
}

/// What the model was asked, one text for each turn.
fn prompts(bench: &Workbench) -> Vec<String> {
    bench.model.requests().iter().filter_map(|request| request.prompt()).collect()
}

#[tokio::test]
async fn a_message_with_a_file_is_never_added_to_a_turn_and_its_file_is_forgotten_with_it() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    bench.model.script("first", Scenario::new().stall("gate").say("One."));
    bench.model.script_containing("[file: inbox/", Scenario::new().say("Two."));
    let bridge = serving(&bench, &stage, Rules { while_running: WhileRunning::Steer, ..rules(&bench) }).await;
    receive(&bridge, [from("ada", "m-1", "first")]).await;
    bench.model.wait_for_stall("gate").await;
    receive(&bridge, [with(from("ada", "m-2", "/steer and this"), vec![file("a.txt", b"hello")])]).await;
    let all = messages(&bridge, |all| all.len() == 2).await;
    assert_eq!((all[1].kind, all[1].attached), (MessageKind::Prompt, Attached::Files));
    assert_eq!(stored_files(&bridge, &all[1].id).await, 1);
    bench.model.release("gate");
    until(|| stage.attempts().len() == 2).await;
    assert_eq!(said(&stage), ["One.", "Two."]);
    let name = format!("{}-1-a.txt", all[1].id.as_str().trim_start_matches("in-"));
    assert_eq!(prompts(&bench)[1], format!("and this\n\n[file: inbox/{name}, 5 bytes]"));
    assert_eq!(fs::read_to_string(bench.home.workspace().join("inbox").join(name)).unwrap(), "hello");
    assert_eq!(stored_files(&bridge, &all[1].id).await, 0);
    bench.tidy(bridge.end()).await;
}

/// Says what it was told to once it may.
struct Slow(Semaphore);

impl Transcribes for Slow {
    fn transcribe(&self, recording: Vec<u8>) -> BoxFuture<'_, Result<String, String>> {
        async move {
            self.0.acquire().await.unwrap().forget();
            Ok(String::from_utf8_lossy(&recording[5..]).into_owned())
        }
        .boxed()
    }
}

fn hearing(bench: &Workbench, slow: &Arc<Slow>) -> Rules {
    let transcriber = Some(Transcriber::new("slow".to_owned(), Arc::clone(slow) as Arc<dyn Transcribes>));
    Rules { transcriber, ..rules(bench) }
}

#[tokio::test]
async fn speech_that_a_death_cut_off_is_heard_again_and_holds_up_no_other_conversation() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    bench.model.script_containing("hello", Scenario::new().say("Heard."));
    let slow = Arc::new(Slow(Semaphore::new(0)));
    let bridge = serving(&bench, &stage, hearing(&bench, &slow)).await;
    let spoken = with(from("ada", "m-1", ""), vec![file("", b"OggS hello")]);
    receive(&bridge, [spoken.clone(), from("bob", "m-2", "other [play] say Mine.")]).await;
    until(|| stage.attempts().len() == 1).await;
    assert_eq!(said(&stage), ["Mine."]);
    bridge.abandon().await;
    let stage = Arc::new(Stage::default());
    let bridge = serving(&bench, &stage, hearing(&bench, &slow)).await;
    receive(&bridge, [spoken]).await;
    slow.0.add_permits(1);
    until(|| stage.attempts().len() == 1).await;
    assert_eq!(said(&stage), ["Heard."]);
    assert_eq!(prompts(&bench)[1], "(voice message)\nhello");
    let all = messages(&bridge, |all| all.iter().all(is_over)).await;
    assert_eq!((all.len(), all[0].summary.as_str()), (2, "(voice message)\nhello"));
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn nothing_is_fetched_twice_or_for_a_stranger() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    let bridge = serving(&bench, &stage, rules(&bench)).await;
    let content = Content::AtSource { reference: "f".into(), bytes: Some(3), is_speech: false };
    let far = |who: &str, id: &str, text: &str| {
        let attachment = Attachment { kind: "photo".into(), name: String::new(), content: content.clone() };
        with(from(who, id, text), vec![attachment])
    };
    receive(&bridge, [from("ada", "m-1", "one [play] say One.")]).await;
    let arrivals = [
        far("ada", "m-1", "one"),
        far("eve", "m-2", "two"),
        far("bob", "m-3", ""),
        far("bob", "m-4", "/status"),
    ];
    let wanted = bridge.chats.wanted_files(&"chat".into(), &arrivals).await.unwrap();
    let nothing = WantedFiles::Nothing;
    assert_eq!(wanted, [nothing, nothing, WantedFiles::NoSpeech, nothing]);
    let wanted = bridge.chats.wanted_files(&"closed".into(), &arrivals).await.unwrap();
    assert_eq!(wanted, [nothing; 4]);
    until(|| stage.attempts().len() == 1).await;
    bench.tidy(bridge.end()).await;
}
