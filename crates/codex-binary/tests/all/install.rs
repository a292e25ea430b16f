//! The pinned install, with an npm of our own that needs no network and counts its runs.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;

use codex_binary::pinned::{Error, PINNED_VERSION, install, installed};
use tempfile::{TempDir, tempdir};

use crate::fake;

/// A folder with an `npm` that unpacks a ready package, and the folder to install into.
struct Ground {
    folder: TempDir,
}

impl Ground {
    /// `npm` does this after it has noted its run and its arguments.
    fn with_npm(body: &str) -> Self {
        let folder = tempdir().unwrap();
        let ready = folder.path().join("ready/node_modules");
        fake::shim(&ready);
        fake::package(&fake::native_root(&ready), &PINNED_VERSION.to_string());
        let runs = folder.path().join("runs");
        let start =
            format!("echo \"$@\" >> {}\nready={}", runs.display(), folder.path().join("ready").display());
        fake::script(&folder.path().join("bin/npm"), &format!("{start}\n{body}"));
        Self { folder }
    }

    fn that_works() -> Self {
        Self::with_npm(
            "test -f package-lock.json || exit 9\nrm -rf node_modules && cp -R \"$ready/node_modules\" .",
        )
    }

    /// Our npm first, then the system's tools that it is made of.
    fn path(&self) -> OsString {
        let own = self.folder.path().join("bin");
        let system = std::env::var_os("PATH").unwrap();
        std::env::join_paths([own].into_iter().chain(std::env::split_paths(&system))).unwrap()
    }

    fn target(&self) -> PathBuf {
        self.folder.path().join("tools/codex")
    }

    fn runs(&self) -> Vec<String> {
        let runs = fs::read_to_string(self.folder.path().join("runs")).unwrap_or_default();
        runs.lines().map(String::from).collect()
    }
}

#[test]
fn npm_is_run_once_and_not_again() {
    let ground = Ground::that_works();
    assert_eq!(installed(&ground.target()), None);
    let codex = install(&ground.target(), &ground.path()).unwrap();
    assert_eq!(codex.version, PINNED_VERSION);
    assert!(codex.executable.starts_with(ground.target().canonicalize().unwrap()));
    assert_eq!(install(&ground.target(), Path::new("").as_os_str()).unwrap(), codex, "npm was needed again");
    assert_eq!(installed(&ground.target()), Some(codex));
    let runs = ground.runs();
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert!(runs[0].starts_with("ci --ignore-scripts --no-audit --no-fund"), "{runs:?}");
}

#[test]
fn a_changed_lock_file_or_a_lost_binary_is_installed_again() {
    let ground = Ground::that_works();
    let codex = install(&ground.target(), &ground.path()).unwrap();
    fs::write(ground.target().join(".installed"), "another lock file").unwrap();
    install(&ground.target(), &ground.path()).unwrap();
    assert_eq!(ground.runs().len(), 2);
    fs::remove_file(&codex.executable).unwrap();
    assert_eq!(installed(&ground.target()), None);
    assert_eq!(install(&ground.target(), &ground.path()).unwrap(), codex);
    assert_eq!(ground.runs().len(), 3);
}

#[test]
fn two_installs_at_once_run_npm_once() {
    let ground = Ground::that_works();
    let start = Barrier::new(4);
    let codexes: Vec<_> = thread::scope(|scope| {
        let ask = || {
            start.wait();
            install(&ground.target(), &ground.path())
        };
        let asked: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        asked.into_iter().map(|one| one.join().unwrap().unwrap()).collect()
    });
    assert!(codexes.iter().all(|codex| *codex == codexes[0]));
    assert_eq!(ground.runs().len(), 1);
}

#[test]
fn a_missing_npm_is_one_clear_sentence() {
    let empty = tempdir().unwrap();
    let error = install(&empty.path().join("codex"), empty.path().as_os_str()).unwrap_err();
    assert!(matches!(error, Error::NpmNotFound));
    assert_eq!(error.to_string(), "npm was not found: install Node.js 18 or newer, which brings it");
}

#[test]
fn a_failing_registry_is_one_clear_sentence_and_is_tried_again() {
    let ground = Ground::with_npm(
        "test -e \"$ready.up\" && rm -rf node_modules && cp -R \"$ready/node_modules\" . && exit 0\n\
         echo 'npm error code ENOTFOUND' >&2\n\
         echo 'npm error network request to https://registry.invalid failed' >&2\n\
         echo 'npm error A complete log of this run can be found in: /x' >&2\nexit 1",
    );
    let error = install(&ground.target(), &ground.path()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "npm could not install codex 0.166.0 (network request to https://registry.invalid failed): check the network \
         and npm's registry setting"
    );
    assert_eq!(installed(&ground.target()), None);
    fs::write(ground.folder.path().join("ready.up"), "").unwrap();
    install(&ground.target(), &ground.path()).unwrap();
}

#[test]
fn an_npm_without_node_is_reported_with_what_the_system_said() {
    let ground = Ground::with_npm("echo \"env: 'node': No such file or directory\" >&2; exit 127");
    let error = install(&ground.target(), &ground.path()).unwrap_err();
    assert!(error.to_string().contains("(env: 'node': No such file or directory)"), "{error}");
}

#[test]
fn an_install_without_the_native_package_is_not_taken_for_a_good_one() {
    let ground = Ground::with_npm("cp -R \"$ready/node_modules\" . && rm -rf node_modules/@openai/codex-*");
    let error = install(&ground.target(), &ground.path()).unwrap_err();
    assert!(matches!(error, Error::Unusable { .. }), "{error:?}");
    assert!(error.to_string().contains("lacks its native package"), "{error}");
    assert_eq!(installed(&ground.target()), None);
}
