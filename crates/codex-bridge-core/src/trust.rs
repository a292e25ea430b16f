//! The trust level of a directory: what Codex may take from it.
//!
//! The operator sets it per directory. Where the operator has set none, it depends on who handed over the task.

mod instructions;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};

use serde::{Deserialize, Serialize};

pub(crate) use instructions::{Instructions, instructions_of};

/// What Codex may take from a directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", try_from = "String")]
pub enum Trust {
    /// Nothing: files are data.
    #[default]
    Hostile,
    /// The text of `AGENTS.md` files, which the bridge itself reads.
    Instructions,
    /// Everything that Codex takes from a trusted project: configuration, MCP servers, rules, skills.
    Trusted,
}

impl Trust {
    /// All levels, the lowest first.
    pub const ALL: [Self; 3] = [Self::Hostile, Self::Instructions, Self::Trusted];

    /// The word in JSON and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hostile => "hostile",
            Self::Instructions => "instructions",
            Self::Trusted => "trusted",
        }
    }

    /// The level's meaning, in a few words.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Hostile => "nothing of the directory configures Codex",
            Self::Instructions => "its AGENTS.md is read, nothing else of it configures Codex",
            Self::Trusted => {
                "its .codex/ is in effect: its MCP servers run outside the sandbox, its rules let commands run unasked"
            }
        }
    }

    /// The level and its meaning.
    pub fn described(self) -> String {
        format!("{self}: {}", self.meaning())
    }
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Trust {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("unknown trust level {text:?}: use hostile, instructions or trusted");
        Self::ALL.into_iter().find(|level| level.as_str() == text).ok_or_else(unknown)
    }
}

impl TryFrom<String> for Trust {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// The directories whose level the operator has set. Clones are cheap and share one state.
///
/// ```
/// use codex_bridge_core::trust::{Trust, TrustedRoots};
///
/// let roots = TrustedRoots::default();
/// roots.replace([("/srv/app".into(), Trust::Trusted), ("/srv/app/vendor".into(), Trust::Hostile)].into());
/// assert_eq!(roots.level("/srv/app/web".as_ref()), Some(Trust::Trusted));
/// assert_eq!(roots.level("/srv/app/vendor/x".as_ref()), Some(Trust::Hostile));
/// assert_eq!(roots.level("/srv".as_ref()), None);
/// ```
#[derive(Debug, Clone, Default)]
pub struct TrustedRoots(Arc<RwLock<BTreeMap<PathBuf, Trust>>>);

impl TrustedRoots {
    /// The level of the nearest directory that contains `dir` and has a level.
    pub fn level(&self, dir: &Path) -> Option<Trust> {
        self.deciding(dir).map(|(_, level)| level)
    }

    /// The nearest directory that contains `dir` and has a level, with that level.
    pub fn deciding(&self, dir: &Path) -> Option<(PathBuf, Trust)> {
        let roots = self.0.read().unwrap_or_else(PoisonError::into_inner);
        dir.ancestors().find_map(|above| Some((above.to_owned(), *roots.get(above)?)))
    }

    /// Replaces all levels. Paths are real paths.
    pub fn replace(&self, roots: BTreeMap<PathBuf, Trust>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = roots;
    }

    /// All directories with their levels.
    pub fn all(&self) -> BTreeMap<PathBuf, Trust> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
