//! Connections to a living host of the real Codex that break: the session comes back by itself and misses nothing.

use std::sync::Arc;
use std::time::Duration;

use codex_session::link::{Backend, Error, Link};
use codex_session::turn::Closing;
use codex_session::{Decision, Dial, Session, SessionEvent, TurnOptions};
use codex_wire::connection::{Connection, Handshake};
use codex_wire::host::{Host, Launch};
use codex_wire::transport::{DEFAULT_MESSAGE_LIMIT, unix};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use scripted_model::Scenario;
use tokio::net::UnixStream;
use tokio::sync::watch;

use crate::real_parts::{Person, answer_to, completed, count_prompts, thread_of};
use crate::workbench::{RealCodex, soon, until, whole_turn};

/// A wire to the host that can be cut.
#[derive(Clone)]
struct Wire {
    launch: Launch,
    /// How often it was cut, and whether the host can be reached.
    state: watch::Sender<(usize, bool)>,
    dialled: watch::Sender<usize>,
}

impl Wire {
    fn to(codex: &RealCodex) -> Self {
        Self { launch: codex.launch(), state: watch::Sender::new((0, true)), dialled: watch::Sender::new(0) }
    }

    /// Cuts what stands; the next dial gets through at once.
    fn cut(&self) {
        self.state.send_modify(|(cuts, _)| *cuts += 1);
    }

    /// Cuts what stands; nothing gets through until it is mended.
    fn cut_for_now(&self) {
        self.state.send_modify(|(cuts, open)| (*cuts, *open) = (*cuts + 1, false));
    }

    fn mend(&self) {
        self.state.send_modify(|(_, open)| *open = true);
    }

    /// Waits until the session has connected this often.
    async fn connected(&self, times: usize) {
        soon(self.dialled.subscribe().wait_for(|count| *count >= times)).await.unwrap();
    }

    /// A stream to the host that ends when the wire is cut.
    async fn stream(&self, host: &Host) -> UnixStream {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut real = host.connect_stream().await.unwrap();
        let mut state = self.state.subscribe();
        let cuts = state.borrow_and_update().0;
        tokio::spawn(async move {
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut theirs, &mut real) => {}
                _ = state.wait_for(|(now, _)| *now > cuts) => {}
            }
        });
        ours
    }
}

impl Dial for Wire {
    fn dial(&self, limit: Duration) -> BoxFuture<'_, Result<Link, Error>> {
        async move {
            soon(self.state.subscribe().wait_for(|(_, open)| *open)).await.unwrap();
            let host = match codex_wire::host::find(&self.launch.dir)? {
                Some(codex_wire::host::Found::Alive(host)) => host,
                _ => Host::launch(&self.launch).await?,
            };
            let transport = unix::connect(self.stream(&host).await, DEFAULT_MESSAGE_LIMIT).await?;
            let backing = Some(Arc::new(host.clone()) as Arc<_>);
            let handshake = Handshake { limit, backing, ..Handshake::new(host.epoch().clone()) };
            let connection = Connection::open(transport, handshake).await;
            let connection =
                connection.map_err(|error| Error::Handshake { error, stderr_tail: Vec::new() })?;
            self.dialled.send_modify(|count| *count += 1);
            Ok(Link { connection, backend: Backend::Host(host) })
        }
        .boxed()
    }
}

async fn start(codex: &RealCodex, wire: &Wire, person: Option<&Person>) -> Session {
    let mut config = codex.writing();
    config.approvals.accept_commands = person.is_none();
    Session::start(config, wire.clone(), person.and_then(Person::approver)).await.unwrap()
}

#[tokio::test]
async fn a_session_comes_back_to_its_turn_and_misses_nothing() {
    let codex = RealCodex::new().await;
    let scenario = Scenario::new()
        .say("I begin.")
        .exec("echo one")
        .then()
        .delta("Half of ")
        .stall("first")
        .delta("it.")
        .exec("echo two")
        .then()
        .stall("second")
        .say("All done.");
    codex.model.script("work", scenario);
    let wire = Wire::to(&codex);
    let session = start(&codex, &wire, None).await;
    let mut events = session.events();
    let cutting = async {
        codex.model.wait_for_stall("first").await;
        wire.cut();
        wire.connected(2).await;
        codex.model.release("first");
        codex.model.wait_for_stall("second").await;
        wire.cut_for_now();
        codex.model.release("second");
        codex.until_idle(&thread_of(&session).await).await;
        wire.mend();
    };
    let (result, ()) = tokio::join!(soon(session.run_turn("work", TurnOptions::default())), soon(cutting));
    let result = completed(result);
    assert_eq!((result.final_text.as_str(), result.tool_iterations), ("All done.", 2));
    let said = serde_json::to_string(&result.projected_messages).unwrap();
    for part in ["I begin.", "Half of it.", "All done.", "echo one", "echo two"] {
        assert_eq!(said.matches(part).count(), 1, "{part:?} in {said}");
    }
    let told = whole_turn(&mut events).await;
    let is_start = |event: &&SessionEvent| matches!(event, SessionEvent::TurnStarted { .. });
    assert_eq!(told.iter().filter(is_start).count(), 1);
    assert_eq!(answer_to(&session, "hello").await, "You said: hello");
    session.close().await;
    codex.end_host().await;
}

#[tokio::test]
async fn a_question_survives_the_cut_and_is_asked_and_answered_once() {
    let codex = RealCodex::new().await;
    codex.model.script("work", Scenario::new().exec("echo ran >> runs.txt").then_say("done"));
    let wire = Wire::to(&codex);
    let person = Person::silent();
    let session = start(&codex, &wire, Some(&person)).await;
    let answering = async {
        person.asked(1).await;
        wire.cut();
        wire.connected(2).await;
        person.say(Decision::Accept);
    };
    let (result, ()) = tokio::join!(soon(session.run_turn("work", TurnOptions::default())), answering);
    assert_eq!(completed(result).final_text, "done");
    let told = codex.tool_output("work");
    assert_eq!((codex.lines_of("runs.txt").len(), person.texts().len()), (1, 1), "{told}");
    session.close().await;
    codex.end_host().await;
}

#[tokio::test]
async fn an_answer_given_while_the_wire_is_cut_is_taken_when_it_is_back() {
    let codex = RealCodex::new().await;
    codex.model.script("work", Scenario::new().exec("echo ran >> runs.txt").then_say("done"));
    let wire = Wire::to(&codex);
    let person = Person::silent();
    let session = start(&codex, &wire, Some(&person)).await;
    let mut events = session.events();
    let answering = async {
        person.asked(1).await;
        wire.cut_for_now();
        person.say(Decision::Accept);
        wire.mend();
    };
    let (result, ()) = tokio::join!(soon(session.run_turn("work", TurnOptions::default())), answering);
    assert_eq!(completed(result).final_text, "done");
    let told = codex.tool_output("work");
    assert_eq!((codex.lines_of("runs.txt").len(), person.texts().len()), (1, 1), "{told}");
    let told = until(&mut events, |event| matches!(event, SessionEvent::RequestClosed { .. })).await;
    let Some(SessionEvent::RequestClosed { closing, .. }) = told.last() else { panic!("{told:?}") };
    assert!(matches!(closing, Closing::Taken { decision: Decision::Accept, .. }), "{closing:?}");
    session.close().await;
    codex.end_host().await;
}

#[tokio::test]
async fn a_wire_cut_between_turns_costs_nothing() {
    let codex = RealCodex::new().await;
    let wire = Wire::to(&codex);
    let session = start(&codex, &wire, None).await;
    answer_to(&session, "my name is Ada").await;
    let thread = thread_of(&session).await;
    for times in 1..3 {
        wire.cut();
        assert_eq!(answer_to(&session, "what is my name?").await, "You said: what is my name?");
        assert!(codex.last_input().contains("my name is Ada"));
        assert_eq!(codex.turns(&thread).await.len(), times + 1);
    }
    assert_eq!(thread_of(&session).await, thread);
    session.close().await;
    codex.end_host().await;
}

/// The wire is cut as the prompt goes out, at ever later moments: each prompt is one turn, whether it got through or not.
#[tokio::test]
async fn a_prompt_on_a_wire_that_is_cut_is_sent_once() {
    let codex = RealCodex::new().await;
    let wire = Wire::to(&codex);
    let session = start(&codex, &wire, None).await;
    answer_to(&session, "hello").await;
    let thread = thread_of(&session).await;
    for step in 0..8_u64 {
        let (prompt, client_id) = (format!("prompt {step}"), format!("mine-{step}"));
        let options = TurnOptions { client_id: Some(client_id.clone()), ..TurnOptions::default() };
        let cutting = async {
            tokio::time::sleep(Duration::from_micros(step * 700)).await;
            wire.cut();
        };
        let (result, ()) = tokio::join!(soon(session.run_turn(prompt.as_str(), options)), cutting);
        assert_eq!(completed(result).final_text, format!("You said: {prompt}"));
        assert_eq!(codex.turns_asking(&prompt).len(), 1, "{prompt}");
        assert_eq!(count_prompts(&codex.turns(&thread).await, &client_id), 1, "{prompt}");
    }
    session.close().await;
    codex.end_host().await;
}
