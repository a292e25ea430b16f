//! Booting hosts: one boot for all callers that wait for it, outside of the pool's lock.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use tokio::sync::watch;

use super::{Member, Placed, Pool, Shared, State};
use crate::host::launch::{BootOwner, launch_for};
use crate::host::origin::Origin;
use crate::host::placement::{HostFacts, Identity, Placement, place};
use crate::host::{Error, Host, Launch, Reach, io_error};
use crate::os::process;

/// How a boot ended; `None` while it goes on.
type Outcome = Option<Result<Host, Arc<Error>>>;

/// A booting host.
#[derive(Debug)]
pub(super) struct Booting {
    /// Serves as its name until it has an id.
    dir: PathBuf,
    identity: Identity,
    /// How to recognise its processes, from the moment that it has a keeper.
    pub(super) origin: Option<Origin>,
    outcome: watch::Receiver<Outcome>,
}

impl Booting {
    /// Whether it boots in this directory.
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

/// The next step for a new thread.
enum Step {
    Done(Placed),
    Join(watch::Receiver<Outcome>),
}

impl Pool {
    /// A host for one more thread, started if needed. The directory in `wanted` is chosen here. If the caller stops
    /// waiting, the boot goes on and the host stays in the pool.
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

    /// Cancels every current and later boot. Returns when nothing is left of them.
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
        // Drop boots that ended without an outcome.
        state.booting.retain(|booting| booting.outcome.has_changed().is_ok());
        // Dead hosts stay listed until `maintain` cleans them up and reports them.
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

    /// Lists a new host as booting and starts it.
    fn boot(&self, state: &mut State, launch: Launch) -> watch::Receiver<Outcome> {
        let (done, outcome) = watch::channel(None);
        state.booting.push(Booting {
            dir: launch.dir.clone(),
            identity: launch.identity.clone(),
            origin: None,
            outcome: outcome.clone(),
        });
        let given_up = self.shared.given_up.subscribe();
        // A weak reference: a dropped pool starts nothing.
        let reach = self.shared.reach.clone();
        let boot = Boot { pool: Arc::downgrade(&self.shared), reach, launch, given_up, done };
        tokio::spawn(boot.run());
        outcome
    }

    /// A new directory with a short name: the path of the socket in it must fit in an address.
    fn new_dir(&self) -> Result<PathBuf, Error> {
        let id =
            process::random_id().map_err(io_error("cannot create an id for a host in", &self.shared.root))?;
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

/// One start of a host. It goes on even if no caller waits for it.
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
