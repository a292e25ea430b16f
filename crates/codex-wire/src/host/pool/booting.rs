//! Hosts that are being started: one for all who wait for it, and outside of the pool's lock.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use tokio::sync::watch;

use super::{Member, Placed, Pool, Shared, State};
use crate::host::launch::{BootOwner, launch_for};
use crate::host::origin::Origin;
use crate::host::placement::{HostFacts, Identity, Placement, place};
use crate::host::{Error, Host, Launch, Reach, io_error};
use crate::os::process;

/// How a boot ended; nothing while it goes on.
type Outcome = Option<Result<Host, Arc<Error>>>;

/// A host that is being started.
#[derive(Debug)]
pub(super) struct Booting {
    /// Names it until it has an id.
    dir: PathBuf,
    identity: Identity,
    /// By what its processes are known, from the moment that it has a keeper.
    pub(super) origin: Option<Origin>,
    outcome: watch::Receiver<Outcome>,
}

impl Booting {
    /// Whether it is being started there.
    pub(super) fn is_in(&self, dir: &Path) -> bool {
        self.dir == dir
    }

    fn name(&self) -> String {
        self.dir.to_string_lossy().into_owned()
    }

    fn facts(&self) -> HostFacts {
        HostFacts { id: self.name(), identity: self.identity.clone(), threads: 0, retiring: false }
    }
}

/// What is to be done for one more thread.
enum Step {
    Done(Placed),
    Join(watch::Receiver<Outcome>),
}

impl Pool {
    /// A host for one more thread, started if need be. The directory in `wanted` is chosen here. Whoever stops waiting
    /// leaves the boot to the others, and the host to the pool.
    pub async fn host_for(&self, wanted: &Launch) -> Result<Placed, Error> {
        let mut outcome = match self.decide(wanted)? {
            Step::Done(placed) => return Ok(placed),
            Step::Join(outcome) => outcome,
        };
        let ended = outcome.wait_for(Option::is_some).await.map(|outcome| outcome.clone());
        match ended {
            Ok(Some(Ok(host))) => Ok(Placed::On(host)),
            Ok(Some(Err(error))) => Err(Error::Boot(error)),
            // The boot was dropped with its runtime.
            Ok(None) | Err(_) => Err(Error::GivenUp),
        }
    }

    /// Has every boot that is under way, and every later one, given up. Comes back when nothing of them is left.
    pub async fn give_up_boots(&self) {
        self.shared.given_up.send_replace(true);
        let outcomes: Vec<_> = self.state().booting.iter().map(|booting| booting.outcome.clone()).collect();
        for mut outcome in outcomes {
            // A boot that was dropped with its runtime has ended too.
            outcome.wait_for(Option::is_some).await.ok();
        }
    }

    fn decide(&self, wanted: &Launch) -> Result<Step, Error> {
        let mut state = self.state();
        // A boot that was broken off without an outcome is none.
        state.booting.retain(|booting| booting.outcome.has_changed().is_ok());
        // The dead ones stay listed until they are cleared away, and told, by `maintain`.
        let living = state.members.iter().filter(|member| member.serves()).map(Member::facts);
        let facts: Vec<HostFacts> = living.chain(state.booting.iter().map(Booting::facts)).collect();
        match place(&facts, &wanted.identity, &self.shared.limits) {
            Placement::Wait => Ok(Step::Done(Placed::Wait)),
            Placement::Use(id) => Ok(state.step_to(&id)),
            Placement::Start => {
                let launch = Launch { dir: self.new_dir()?, ..wanted.clone() };
                Ok(Step::Join(self.boot(&mut state, launch)))
            }
        }
    }

    /// Takes a place for a new host and starts it.
    fn boot(&self, state: &mut State, launch: Launch) -> watch::Receiver<Outcome> {
        let (done, outcome) = watch::channel(None);
        state.booting.push(Booting {
            dir: launch.dir.clone(),
            identity: launch.identity.clone(),
            origin: None,
            outcome: outcome.clone(),
        });
        let given_up = self.shared.given_up.subscribe();
        // A pool that nobody holds any more starts nothing more.
        let reach = self.shared.reach.clone();
        let boot = Boot { pool: Arc::downgrade(&self.shared), reach, launch, given_up, done };
        tokio::spawn(boot.run());
        outcome
    }

    /// Short, since a socket's path has to fit in its address.
    fn new_dir(&self) -> Result<PathBuf, Error> {
        let id =
            process::random_id().map_err(io_error("cannot make an id for a host in", &self.shared.root))?;
        Ok(self.shared.root.join(id.get(..8).unwrap_or(&id)))
    }
}

impl State {
    fn step_to(&self, id: &str) -> Step {
        let member = self.members.iter().find(|member| member.host.id() == id);
        let booting = self.booting.iter().find(|booting| booting.name() == id);
        match (member, booting) {
            (Some(member), _) => Step::Done(Placed::On(member.host.clone())),
            (None, Some(booting)) => Step::Join(booting.outcome.clone()),
            (None, None) => Step::Done(Placed::Wait),
        }
    }
}

/// One start of a host, which nobody has to wait for.
struct Boot {
    pool: Weak<Shared>,
    reach: Reach,
    launch: Launch,
    given_up: watch::Receiver<bool>,
    done: watch::Sender<Outcome>,
}

impl Boot {
    async fn launched(&self) -> Result<Host, Error> {
        if let Reach::Launcher(launcher) = &self.reach {
            let Launch { dir, identity, config, .. } = &self.launch;
            return launcher.launch(dir, identity, config, self.given_up.clone()).await;
        }
        let on_keeper = |keeper| {
            let Some(pool) = self.pool.upgrade() else { return };
            let mut state = pool.state();
            if let Some(booting) = state.booting.iter_mut().find(|booting| booting.dir == self.launch.dir) {
                booting.origin = Some(Origin::booting(keeper, self.launch.dir.clone()));
            }
        };
        let owner = BootOwner { on_keeper: &on_keeper, given_up: self.given_up.clone() };
        launch_for(owner, &self.launch).await
    }

    async fn run(self) {
        let launched = self.launched().await;
        if let Some(shared) = self.pool.upgrade() {
            let pool = Pool { shared };
            let mut state = pool.state();
            state.booting.retain(|booting| booting.dir != self.launch.dir);
            if let Ok(host) = &launched {
                state.members.push(Member::new(host.clone()));
                pool.watch_keeper(host.clone());
            }
        }
        self.done.send_replace(Some(launched.map_err(Arc::new)));
    }
}
