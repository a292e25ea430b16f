//! Those who use the bridge in a simulated run: callers, approvers, a chat, and whoever is told.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use codex_bridge_core::bridge::{DecisionOutcome, Error};
use codex_bridge_core::desk::Caller;
use codex_bridge_core::desk::calls::{Decide, Prompt, Start};
use codex_bridge_core::inbox::attachment::classify;
use codex_bridge_core::inbox::{
    About, Allowed, Arrival, Attachment, Context, Party, Received, Room, Rules, Sender as ChatSender,
    WhileRunning,
};
use codex_bridge_core::outbox::sender::{Refusal, Unknown};
use codex_bridge_core::outbox::{Attempt, Outcome, Repeats, Sender};
use codex_bridge_core::request::RequestName;
use codex_bridge_core::task::TaskId;
use codex_bridge_core::token::{NewQuota, Role};
use codex_bridge_core::{Desk, TaskView};
use codex_session::{Ask, Decision};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::world::{Life, World};

/// How long a caller waits before it tries again.
const AGAIN_MS: u64 = 3_000;
/// How long a caller waits for the end of a turn before it looks again.
const PATIENCE: Duration = Duration::from_mins(5);

/// Calls until the bridge lives through it and does not fail; then says what it refused, if anything.
async fn insist<T>(world: &World, call: impl AsyncFn(Desk) -> Result<T, Error>) -> Result<T, Error> {
    loop {
        match world.call(async |chats| call(chats.desk().clone()).await).await {
            Some(Err(Error::Store(_) | Error::CutOff | Error::Closing)) | None => {
                world.pause(AGAIN_MS).await;
            }
            Some(answer) => return answer,
        }
    }
}

/// A caller with a token of its own, which is made for it if there is none.
async fn with_token(world: &World, name: &str, role: Role) -> Caller {
    let owner = Caller::owner();
    loop {
        let tokens = insist(world, async |desk| desk.tokens(&owner).await).await.unwrap();
        if let Some((token, _)) = tokens.iter().find(|(token, _)| token.name == name) {
            return Caller::with_token(token);
        }
        let made = async |desk: Desk| desk.create_token(&owner, name, role, NewQuota::default()).await;
        drop(insist(world, made).await);
    }
}

/// Hands over work, and stays with it for a few turns.
pub async fn caller(world: Arc<World>, number: u64, cwd: PathBuf) {
    let caller = match number {
        0 => Caller::owner(),
        _ => with_token(&world, &format!("caller-{number}"), Role::Operator).await,
    };
    for job in 0..=world.below(3) {
        world.pause(10_000).await;
        let name = format!("caller-{number}-{job}");
        let prompt = format!("start {name}");
        let new = Start {
            prompt: prompt.clone(),
            cwd: Some(cwd.clone()),
            client_request_id: Some(name.clone()),
            notify_target: world.happens(80).then(|| format!("stage:caller-{number}?on=all")),
            ..Start::default()
        };
        let started = insist(&world, async |desk| desk.start(&caller, new.clone()).await).await.unwrap();
        let id = started.task.id;
        world.note(format!("{name} is {id}"));
        world.ledger().started.insert(id.clone(), prompt);
        for turn in 0..world.below(3) {
            meddle(&world, &caller, &id).await;
            wait(&world, &caller, &id).await;
            let text = format!("continue {name}-{turn}");
            let prompt = Prompt { prompt: text.clone(), client_request_id: Some(format!("{name}-{turn}")) };
            let next =
                insist(&world, async |desk| desk.continue_task(&caller, id.as_str(), prompt.clone()).await);
            match next.await {
                Ok(continued) => world.ledger().continued.push((id.clone(), continued.turn, text)),
                Err(Error::WrongState { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        wait(&world, &caller, &id).await;
    }
}

/// Adds to the turn, or stops it, or lets it be.
async fn meddle(world: &World, caller: &Caller, id: &TaskId) {
    world.pause(4_000).await;
    match world.below(4) {
        0 => {
            let text = format!("add to {id}");
            world.call(async |chats| drop(chats.desk().steer(caller, id.as_str(), &text).await)).await;
        }
        1 => {
            world.call(async |chats| drop(chats.desk().interrupt(caller, id.as_str(), None).await)).await;
        }
        _ => {}
    }
}

async fn wait(world: &World, caller: &Caller, id: &TaskId) {
    loop {
        let view = insist(world, async |desk| {
            let is_finished = |view: &TaskView| view.task.status.is_finished();
            desk.wait_until(caller, id.as_str(), PATIENCE, is_finished).await
        });
        if view.await.is_ok_and(|view| view.task.status.is_finished()) {
            return;
        }
    }
}

/// What everybody decides about a request: it is written in it, so that an answer to another one shows.
fn decision(ask: &Ask) -> (String, Decision, bool) {
    if let Some(question) = ask.questions.first() {
        let answers = [(question.id.clone(), vec![format!("re {}", question.id)])].into();
        return (question.id.clone(), Decision::Answers(answers), true);
    }
    let shown = serde_json::to_string(ask).unwrap();
    let from = shown.find("make ").unwrap_or_else(|| panic!("no command is shown: {shown}"));
    let is_of_name = |char: char| char.is_ascii_alphanumeric() || char == '-' || char == ' ';
    let asked = shown[from..].split(|char| !is_of_name(char)).next().unwrap_or_default().to_owned();
    let is_yes = asked.ends_with('0');
    (asked, if is_yes { Decision::Accept } else { Decision::Decline }, is_yes)
}

/// Looks at what is open, and decides after a while, whatever has become of it.
pub async fn approver(world: Arc<World>, name: String) {
    let caller = with_token(&world, &name, Role::Approver).await;
    loop {
        world.pause(3_000).await;
        let open = insist(&world, async |desk| desk.requests(&caller, None).await).await.unwrap();
        world.pause(if world.happens(10) { 60_000 } else { 500 }).await;
        for request in open {
            let (asked, decision, is_yes) = decision(&request.ask.ask);
            let decide = Decide::new(&decision, Some(&request.digest), false);
            let (task, id) = (request.task_id.as_str(), request.request_id.as_str());
            let report =
                world.call(async |chats| chats.desk().decide(&caller, task, id, &decide).await).await;
            world.note(format!("{name} on {asked:?}: {report:?}"));
            let Some(Ok(report)) = report else { continue };
            if matches!(report.outcome, DecisionOutcome::Resolved | DecisionOutcome::Sent) {
                world.ledger().deciders.insert(request.request_id.clone(), caller.name.clone());
            }
            if report.outcome == DecisionOutcome::Resolved {
                world.ledger().decided.insert(asked, is_yes);
            }
        }
    }
}

/// The channels: in the second one a message is added to the turn that runs, in the third one people decide.
pub fn channels(cwd: &Path) -> [Rules; 3] {
    let all = [
        ("ada", "ada", WhileRunning::Queue),
        ("bob", "bob", WhileRunning::Steer),
        ("cat", "cat:approver", WhileRunning::Queue),
    ];
    all.map(|(name, who, while_running)| {
        let allow = vec![Allowed::parse(who).unwrap()];
        let rules = Rules::new(name, allow, [("home".to_owned(), cwd.to_owned())].into());
        Rules { turn_limit: None, while_running, ..rules }
    })
}

/// Somebody who writes, and a platform that offers what they wrote until it is taken, and sometimes once more.
pub async fn writer(world: Arc<World>, who: &'static str) {
    for number in 0..world.below(5) {
        world.pause(15_000).await;
        let text = match world.below(8) {
            0 => "/status".to_owned(),
            1 => "/stop".to_owned(),
            // A prompt, unless something is asked.
            2 => "yes".to_owned(),
            _ => format!("write {who}-{number}"),
        };
        let name = format!("{who}-{number}");
        send(&world, who, &name, text, Context::default()).await;
        if world.below(4) == 0 {
            world.pause(5_000).await;
            let edits = Context { edits: Some(name.clone()), ..Context::default() };
            send(&world, who, &format!("{name}#1"), format!("write {name} anew"), edits).await;
        }
    }
}

/// Decides in the chat on what was shown there.
pub async fn chat_approver(world: Arc<World>, who: &'static str) {
    for number in 0.. {
        world.pause(2_000).await;
        let shown = world.ledger().shown.pop();
        let Some((_, request, ask)) = shown.filter(|(target, ..)| *target == format!("stage:{who}")) else {
            continue;
        };
        let (_, decision, is_yes) = decision(&ask);
        // As they read it.
        let (name, request) = (request.clone(), request.short());
        let about = |about: fn(RequestName) -> About| Context {
            about: Some(about(name.clone())),
            ..Context::default()
        };
        let in_words = world.below(2) == 0;
        let (text, context) = match decision {
            Decision::Answers(answers) => {
                let answer = answers.values().next().unwrap()[0].clone();
                if in_words {
                    (format!("/answer {request} {answer}"), Context::default())
                } else {
                    (answer, about(About::Reply))
                }
            }
            _ if is_yes => (format!("/approve {request}"), Context::default()),
            _ if in_words => (format!("/deny {request}"), Context::default()),
            _ => (format!("rather not {who}-{number}"), about(About::Comment)),
        };
        send(&world, who, &format!("{who}-decides-{number}"), text, context).await;
    }
}

/// A photo.
fn photo() -> Attachment {
    let bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    Attachment { kind: "photo".into(), name: String::new(), content: classify(bytes) }
}

/// Offers a message until it is taken, and sometimes once more.
async fn send(world: &World, who: &'static str, name: &str, text: String, context: Context) {
    // A photo stays with its message, whatever happens.
    let is_photo = text.starts_with("write ") && context.edits.is_none() && world.below(4) == 0;
    let arrival = Arrival {
        external_id: name.to_owned(),
        conversation: who.into(),
        sender: ChatSender { id: who.to_owned(), name: who.to_owned(), party: Party::Person },
        room: Room::Direct,
        text,
        reply_to: format!("stage:{who}"),
        context,
        attachments: if is_photo { vec![photo()] } else { Vec::new() },
        position: None,
        sent_at: world.now(),
    };
    for _ in 0..=world.below(2) {
        let taken = loop {
            let offered =
                world.call(async |chats| chats.receive(&who.into(), vec![arrival.clone()], None).await);
            match offered.await {
                Some(Ok(receipts)) => break receipts,
                // Not served yet by a bridge that has just come up, or not taken.
                Some(Err(_)) | None => world.pause(AGAIN_MS).await,
            }
        };
        assert!(matches!(taken[0].receipt, Received::Taken { .. } | Received::Known { .. }), "{taken:?}");
        world.ledger().taken.insert(arrival.external_id.clone());
    }
}

/// Whether a target knows a key that it has seen. Bob's platform does not.
fn knows_keys(target: &str) -> bool {
    target != "stage:bob"
}

/// Whoever is told.
pub struct Stage {
    pub world: Arc<World>,
    pub life: Arc<Life>,
}

impl Sender for Stage {
    fn check(&self, _target: &str) -> Result<(), Unknown> {
        Ok(())
    }

    fn repeats(&self, attempt: &Attempt) -> Repeats {
        if knows_keys(&attempt.target) { Repeats::Idempotent { within: None } } else { Repeats::MayDouble }
    }

    fn send(&self, attempt: Attempt) -> BoxFuture<'_, Outcome> {
        async move {
            self.world.effect(&self.life, &format!("{} on its way", attempt.key)).await;
            self.world.pause(2_000).await;
            if self.life.is_dead() {
                std::future::pending::<()>().await;
            }
            if self.world.fails(15) {
                return Outcome::failed(Refusal::Later, "not now");
            }
            let text = format!("{:?}", attempt.notice.content);
            let known = self.world.ledger().received.insert(attempt.key.to_string(), text.clone());
            self.world.note(format!("{} arrives", attempt.key));
            if let Some(known) = known {
                let (key, mut ledger) = (&attempt.key, self.world.ledger());
                if known != text {
                    ledger.broken.push(format!("{key} is said again in other words"));
                }
                if !attempt.may_be_duplicate && !knows_keys(&attempt.target) {
                    ledger.broken.push(format!("{key} is said twice, and nobody is told"));
                }
            }
            self.world.effect(&self.life, &format!("{}, which arrived", attempt.key)).await;
            if self.world.fails(10) {
                return Outcome::in_doubt("the answer was lost");
            }
            let asked = attempt.notice.requests();
            let told = asked
                .iter()
                .map(|asked| (attempt.target.clone(), asked.request_id.clone(), asked.ask.clone()));
            self.world.ledger().shown.extend(told);
            let shown = asked.iter().map(|asked| asked.request_id.clone()).collect();
            Outcome::Delivered { message_id: None, shown }
        }
        .boxed()
    }
}
