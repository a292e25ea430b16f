//! What a simulated run is made of besides the bridge: its seed, its time, its faults, and the record of what happened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use codex_bridge_core::Chats;
use codex_bridge_core::clock::Clock;
use codex_bridge_core::request::RequestName;
use codex_bridge_core::task::{TaskId, TimeMs};
use codex_session::Ask;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::Notify;
use tokio::time::Instant;

/// When every run begins.
const MIDNIGHT_MS: i64 = 1_790_000_000_000;

/// One run.
pub struct World {
    random: Mutex<StdRng>,
    began: Instant,
    /// How far the wall clock was moved.
    clock_moved_ms: AtomicI64,
    /// Whether nothing fails any more.
    is_calm: AtomicBool,
    /// The effects of the bridge until it dies.
    until_death: AtomicU64,
    /// Until when the store fails.
    store_fails_until: Mutex<Option<Instant>>,
    current: Mutex<Option<(Chats, Arc<Life>)>>,
    is_served: Turnstile,
    trace: Mutex<Vec<String>>,
    pub ledger: Mutex<Ledger>,
}

/// What happened outside of the bridge, for the invariants.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The prompts that Codex accepted: our id and the text.
    pub prompts: Vec<(String, String)>,
    /// The commands that Codex ran.
    pub ran: Vec<String>,
    /// Answers to questions, by question.
    pub answers: BTreeMap<String, Vec<String>>,
    /// The starts that were acknowledged, with their prompts.
    pub started: BTreeMap<TaskId, String>,
    /// The turns that were acknowledged: task, number, prompt.
    pub continued: Vec<(TaskId, u32, String)>,
    /// The messages that the bridge said it had taken, by their source's name.
    pub taken: BTreeSet<String>,
    /// What targets got, by key.
    pub received: BTreeMap<String, String>,
    /// What was added to turns.
    pub steers: Vec<String>,
    /// Decisions that were acknowledged as taken by Codex: what was asked, and whether it was a yes.
    pub decided: BTreeMap<String, bool>,
    /// Promises that were seen to be broken while the run went on.
    pub broken: Vec<String>,
    /// Requests that were shown in a chat, whole.
    pub shown: Vec<(String, RequestName, Ask)>,
    /// Who was told that their decision on a request is the one that counts.
    pub deciders: BTreeMap<RequestName, String>,
    /// What went wrong, so that no run in which nothing did is taken for a proof.
    pub crashes: u32,
    pub host_deaths: u32,
    pub lost_connections: u32,
    pub store_failures: u32,
}

/// One life of the bridge. What it does after its death never happens.
pub struct Life {
    pub number: u32,
    is_dead: AtomicBool,
    died: Turnstile,
}

/// Wakes who waits, in the order in which they came; tokio's `watch` wakes them in any order.
#[derive(Default)]
struct Turnstile(Notify);

impl Turnstile {
    /// Waits until it is so. Looked at again whenever the turnstile is opened.
    async fn until<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        loop {
            let opened = self.0.notified();
            tokio::pin!(opened);
            opened.as_mut().enable();
            if let Some(seen) = look() {
                return seen;
            }
            opened.await;
        }
    }

    fn open(&self) {
        self.0.notify_waiters();
    }
}

impl Life {
    pub fn new(number: u32) -> Arc<Self> {
        Arc::new(Self { number, is_dead: AtomicBool::new(false), died: Turnstile::default() })
    }

    pub fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::SeqCst)
    }

    pub fn die(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
        self.died.open();
    }

    pub async fn until_dead(&self) {
        self.died.until(|| self.is_dead().then_some(())).await;
    }
}

impl World {
    pub fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self {
            random: Mutex::new(StdRng::seed_from_u64(seed)),
            began: Instant::now(),
            clock_moved_ms: AtomicI64::new(0),
            is_calm: AtomicBool::new(false),
            until_death: AtomicU64::new(u64::MAX),
            store_fails_until: Mutex::default(),
            current: Mutex::default(),
            is_served: Turnstile::default(),
            trace: Mutex::default(),
            ledger: Mutex::default(),
        })
    }

    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap()
    }

    /// A number below this one.
    pub fn below(&self, end: u64) -> u64 {
        self.random.lock().unwrap().random_range(0..end)
    }

    /// Whether something happens that happens so many times in a hundred.
    pub fn happens(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// The same for a fault: none happens once it is calm.
    pub fn fails(&self, percent: u64) -> bool {
        !self.is_calm.load(Ordering::SeqCst) && self.happens(percent)
    }

    pub async fn pause(&self, up_to_ms: u64) {
        tokio::time::sleep(Duration::from_millis(self.below(up_to_ms + 1))).await;
    }

    /// The wall clock, which can be set.
    pub fn clock(self: &Arc<Self>) -> Clock {
        let world = Arc::clone(self);
        Clock::from_fn(move || world.now())
    }

    pub fn now(&self) -> TimeMs {
        let passed = i64::try_from(self.began.elapsed().as_millis()).unwrap();
        MIDNIGHT_MS + passed + self.clock_moved_ms.load(Ordering::SeqCst)
    }

    pub fn set_clock(&self, by_ms: i64) {
        self.note(format!("the clock is set by {by_ms} ms"));
        self.clock_moved_ms.fetch_add(by_ms, Ordering::SeqCst);
    }

    pub fn note(&self, line: impl AsRef<str>) {
        let at = self.began.elapsed().as_millis();
        self.trace.lock().unwrap().push(format!("{at:>8} {}", line.as_ref()));
    }

    pub fn trace(&self) -> Vec<String> {
        self.trace.lock().unwrap().clone()
    }

    /// From now on nothing fails.
    pub fn calm_down(&self) {
        self.note("calm");
        self.is_calm.store(true, Ordering::SeqCst);
        self.until_death.store(u64::MAX, Ordering::SeqCst);
        *self.store_fails_until.lock().unwrap() = None;
    }

    /// Lets the bridge die after so many more effects.
    pub fn die_after(&self, effects: u64) {
        self.until_death.store(effects, Ordering::SeqCst);
    }

    /// Something that the bridge does to the world. It may die before it, or right after it.
    pub async fn effect(&self, life: &Life, what: &str) {
        if life.is_dead() {
            std::future::pending::<()>().await;
        }
        let left = self.until_death.load(Ordering::SeqCst);
        if left == 0 {
            self.until_death.store(u64::MAX, Ordering::SeqCst);
            self.note(format!("life {} dies at {what}", life.number));
            self.ledger().crashes += 1;
            life.die();
            std::future::pending::<()>().await;
        }
        self.until_death.store(left.saturating_sub(u64::from(left != u64::MAX)), Ordering::SeqCst);
    }

    pub fn fail_store_for(&self, ms: u64) {
        self.note(format!("the store fails for {ms} ms"));
        self.ledger().store_failures += 1;
        *self.store_fails_until.lock().unwrap() = Some(Instant::now() + Duration::from_millis(ms));
    }

    pub fn store_fails(&self) -> bool {
        self.store_fails_until.lock().unwrap().is_some_and(|until| Instant::now() < until)
    }

    pub fn serve(&self, bridge: Option<(Chats, Arc<Life>)>) {
        *self.current.lock().unwrap() = bridge;
        self.is_served.open();
    }

    /// Calls the bridge that lives; none if it died over it, or if the caller hung up. What it did then is not known.
    pub async fn call<T>(&self, call: impl AsyncFnOnce(Chats) -> T) -> Option<T> {
        let patience = if self.fails(5) { self.below(20) } else { u64::MAX };
        let (bridge, life) = self.is_served.until(|| self.current.lock().unwrap().clone()).await;
        tokio::select! {
            biased;
            () = life.until_dead() => None,
            answer = call(bridge) => Some(answer),
            () = tokio::time::sleep(Duration::from_millis(patience)), if patience < u64::MAX => None,
        }
    }
}
