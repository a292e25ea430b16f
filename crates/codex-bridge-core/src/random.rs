//! Randomness for ids and pauses, passed in. The operating system seeds it, or a test, which can then repeat a run.
//!
//! Secrets (keys, tokens, nonces) come from the operating system itself, never from here.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rand::rngs::{StdRng, SysRng};
use rand::{Rng, SeedableRng};

/// A source of random numbers. Clones share one state.
#[derive(Clone)]
pub struct Random(Arc<Mutex<StdRng>>);

impl Random {
    /// Seeded by the operating system.
    pub fn from_system() -> io::Result<Self> {
        let seeded =
            StdRng::try_from_rng(&mut SysRng).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Self(Arc::new(Mutex::new(seeded))))
    }

    /// The same numbers for the same seed.
    pub fn from_seed(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    /// Any number.
    pub fn number(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }

    /// 128 bits as hex digits.
    pub(crate) fn hex(&self) -> String {
        format!("{:016x}{:016x}", self.number(), self.number())
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Random").finish_non_exhaustive()
    }
}
