//! Finding, and where needed building, the programs that tests start, from the tests of any crate.
//!
//! Cargo tells a test only the programs of its own package (`CARGO_BIN_EXE_…`), and does not build those
//! of a dependency. So they are looked for in the target directory that the running test was built into,
//! and built there when they are missing or older than their sources.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// The programs, each with its package and the directory of that, seen from this package.
const PROGRAMS: [(&str, &str, &str); 2] = [
    ("scripted-app-server", "testkit", "."),
    ("scripted-model", "scripted-model", "../crates/scripted-model"),
];

struct Program {
    path: PathBuf,
    package: &'static str,
    sources: PathBuf,
}

/// The path of `scripted-app-server` or of `scripted-model` (which is an MCP server too).
pub fn bin(name: &str) -> PathBuf {
    let (_, package, dir) = PROGRAMS.into_iter().find(|(known, ..)| *known == name).expect(name);
    let profile_dir = profile_dir();
    let sources = package_dir().join(dir).join("src");
    let program = Program { path: profile_dir.join(name), package, sources };
    if !program.is_current() {
        program.build(&profile_dir);
    }
    program.path
}

impl Program {
    fn is_current(&self) -> bool {
        let built = self.path.metadata().and_then(|file| file.modified());
        built.is_ok_and(|built| built >= newest(&self.sources))
    }

    /// Tests run at the same time; the first one builds, the others wait for it.
    fn build(&self, profile_dir: &Path) {
        let lock =
            File::create(profile_dir.join(".testkit-build.lock")).expect("a lock file beside the program");
        lock.lock().expect("the lock on building programs for tests");
        if self.is_current() {
            return;
        }
        let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => "dev",
            Some(other) => other,
        };
        let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args([
                "build",
                "--quiet",
                "--bins",
                "--package",
                self.package,
                "--profile",
                profile,
                "--target-dir",
            ])
            .arg(profile_dir.parent().unwrap_or(profile_dir))
            .current_dir(package_dir())
            .status()
            .expect("cargo can be run");
        assert!(status.success(), "cargo could not build the programs of {}", self.package);
        assert!(self.path.is_file(), "{} was not built", self.path.display());
    }
}

/// `target/<profile>`, from where the running test lies in it.
fn profile_dir() -> PathBuf {
    let this = env::current_exe().expect("the path of the running test");
    let deps = this.ancestors().find(|dir| dir.file_name().is_some_and(|name| name == "deps"));
    let beside_deps = || this.ancestors().skip(1).find(|dir| dir.join("deps").is_dir());
    let found = deps.and_then(Path::parent).or_else(beside_deps);
    // a doc test runs from a temporary directory
    found.map_or_else(|| package_dir().join("../target/debug"), Path::to_path_buf)
}

fn package_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// When the newest file below was changed.
fn newest(path: &Path) -> SystemTime {
    if path.is_dir() {
        let below = fs::read_dir(path).into_iter().flatten().flatten();
        return below.map(|entry| newest(&entry.path())).max().unwrap_or(SystemTime::UNIX_EPOCH);
    }
    path.metadata().and_then(|file| file.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}
