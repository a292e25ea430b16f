//! From the `codex` that a user has to the native executable and the package around it. Reads files, runs nothing.
//!
//! codex 0.166 on npm: `node_modules/.bin/codex` is a link to `@openai/codex/bin/codex.js`, which starts
//! `@openai/codex-<platform>/vendor/<triple>/bin/codex`; that package lies beside `@openai/codex` (hoisted) or below it
//! (nested), where Node's own rule finds it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

const SHIM_IN_NODE_MODULES: &str = "@openai/codex/bin/codex.js";
/// Marks the root of a package: its paths to the sandbox and to the search tool are relative to it.
const PACKAGE_MARKER: &str = "codex-package.json";
/// Wrappers that package managers write are far shorter than this.
const WRAPPER_LIMIT_BYTES: u64 = 16 * 1024;

/// The native executable behind what was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Native {
    pub(crate) executable: PathBuf,
    pub(crate) package_root: Option<PathBuf>,
}

/// Why there is no native executable.
#[derive(Debug)]
pub(crate) enum Failure {
    Unreadable(io::Error),
    UnknownPlatform,
    PlatformPackageMissing { package: &'static str },
}

/// The npm package and the target triple that hold the native binary of a platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Platform {
    package: &'static str,
    triple: &'static str,
}

impl Platform {
    pub(crate) fn this() -> Option<Self> {
        Self::of(std::env::consts::OS, std::env::consts::ARCH)
    }

    fn of(os: &str, arch: &str) -> Option<Self> {
        let (package, triple) = match (os, arch) {
            ("linux" | "android", "x86_64") => ("@openai/codex-linux-x64", "x86_64-unknown-linux-musl"),
            ("linux" | "android", "aarch64") => ("@openai/codex-linux-arm64", "aarch64-unknown-linux-musl"),
            ("macos", "x86_64") => ("@openai/codex-darwin-x64", "x86_64-apple-darwin"),
            ("macos", "aarch64") => ("@openai/codex-darwin-arm64", "aarch64-apple-darwin"),
            _ => return None,
        };
        Some(Self { package, triple })
    }
}

/// Follows links, Node shims and package managers' wrappers to the native executable.
pub(crate) fn resolve(candidate: &Path, platform: Option<Platform>) -> Result<Native, Failure> {
    let real = fs::canonicalize(candidate).map_err(Failure::Unreadable)?;
    match shim_of(&real).map_err(Failure::Unreadable)? {
        Some(shim) => behind_shim(&shim, platform.ok_or(Failure::UnknownPlatform)?),
        None => Ok(native(real)),
    }
}

/// The Node shim that this file is, or that it starts.
fn shim_of(real: &Path) -> io::Result<Option<PathBuf>> {
    let mut start = Vec::new();
    File::open(real)?.take(WRAPPER_LIMIT_BYTES).read_to_end(&mut start)?;
    if !start.starts_with(b"#!") {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&start);
    let mut interpreter = text.lines().next().unwrap_or_default().split(['/', ' ', '\t']);
    if interpreter.any(|word| word == "node") {
        return Ok(Some(real.to_path_buf()));
    }
    Ok(wrapped_shim(&text, real.parent().unwrap_or(Path::new("/"))))
}

/// pnpm writes a shell script instead of a link: `exec node "$basedir/…/@openai/codex/bin/codex.js" "$@"`.
fn wrapped_shim(script: &str, folder: &Path) -> Option<PathBuf> {
    let end = script.find(SHIM_IN_NODE_MODULES)? + SHIM_IN_NODE_MODULES.len();
    let start = script[..end].rfind(['"', '\'', ' ', '\n']).map_or(0, |quote| quote + 1);
    let named = &script[start..end];
    let path = match named.strip_prefix("$basedir/") {
        Some(relative) => folder.join(relative),
        None => PathBuf::from(named),
    };
    fs::canonicalize(path).ok()
}

/// Looks where Node would look, then in the shim's own package.
fn behind_shim(shim: &Path, platform: Platform) -> Result<Native, Failure> {
    let inside = Path::new("vendor").join(platform.triple).join("bin/codex");
    let own_package = shim.ancestors().nth(2).unwrap_or(shim);
    own_package
        .ancestors()
        .map(|folder| folder.join("node_modules").join(platform.package))
        .chain([own_package.to_path_buf()])
        .find_map(|package| fs::canonicalize(package.join(&inside)).ok())
        .map(native)
        .ok_or(Failure::PlatformPackageMissing { package: platform.package })
}

fn native(executable: PathBuf) -> Native {
    let package_root = executable
        .ancestors()
        .nth(2)
        .filter(|root| root.join(PACKAGE_MARKER).is_file() && executable.starts_with(root.join("bin")))
        .map(Path::to_path_buf);
    Native { executable, package_root }
}

#[cfg(test)]
mod tests;
