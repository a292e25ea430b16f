//! Running the real Codex in a test: where it is, a home of its own, and nothing left behind.

mod home;
mod leftovers;

use std::path::{Path, PathBuf};

pub use home::Home;
pub use leftovers::Leftovers;

/// Another Codex to run the tests with.
const OTHER_CODEX: &str = "TEST_CODEX_BIN";

/// The pinned Codex that `cargo xtask setup` installs, or the one that `TEST_CODEX_BIN` names.
pub fn codex() -> codex_binary::Codex {
    let found = match std::env::var_os(OTHER_CODEX) {
        Some(path) => {
            let search = codex_binary::Search { explicit: Some(path.into()), ..Default::default() };
            codex_binary::find(&search).map_err(|error| error.to_string())
        }
        None => codex_binary::pinned::installed(&tools_dir())
            .ok_or_else(|| "the pinned Codex is not installed: run cargo xtask setup".into()),
    };
    found.unwrap_or_else(|problem: String| panic!("{problem}"))
}

/// The native binary of [`codex`].
pub fn codex_path() -> PathBuf {
    codex().executable
}

fn tools_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools/codex")
}
