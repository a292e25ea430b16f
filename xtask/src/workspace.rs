//! Where things are in the work tree.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The root of the workspace. The tool is built and run from the work tree, never installed.
pub fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_path_buf()
}

/// The pinned codex; tests find it here too.
pub fn codex() -> PathBuf {
    root().join(".tools/codex")
}

/// What the last test run left for `promises`.
pub fn passed_tests() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    target.join("xtask/passed-tests")
}

/// The value of `PATH`.
pub fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
}
