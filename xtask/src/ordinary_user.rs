//! `ordinary-user`: the tests that depend on the user once more, as a user who is not root. The sandbox is not the same for
//! both: root needs no user namespace, and may look into every process. Where the tests did not run as root, they ran as such a
//! user already.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::program::Program;
use crate::workspace;

/// How to run this alone.
pub const ALONE: &str = "cargo xtask ordinary-user";

/// The user, made where it is missing. It owns nothing and cannot log in.
const USER: &str = "codex-bridge-test";
/// The tests that are repeated.
const SUITES: [Suite; 2] = [
    Suite {
        package: "codex-bridge-core",
        modules: &["hostile::"],
        started: "examples/core_keeper",
        options: &[],
    },
    Suite {
        package: "codex-bridge",
        modules: &["orphans::", "boots::", "self_approval::", "surroundings::"],
        started: "codex-bridge",
        // They look at all processes of the user, those of each other included.
        options: &["--test-threads=1"],
    },
];
/// What a login of this user would have.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Runs the tests, if this is root.
pub fn run() -> Result<(), String> {
    let user = Account::current();
    if !user.is_root() {
        println!("the tests have run as an ordinary user: there is nothing to repeat");
        return Ok(());
    }
    let account = Account::named(USER).map_or_else(|| make(USER), Ok)?;
    let stage = Stage::new(&account)?;
    for suite in SUITES {
        let mut command = account.command(&stage.test(suite.package));
        command.args(suite.modules).args(suite.options).env_clear().current_dir(&stage.dir);
        command.env("PATH", PATH).env("HOME", stage.home()).env("TEST_CODEX_BIN", stage.codex());
        let status = command.status().map_err(|error| format!("setpriv could not be started ({error})"))?;
        if !status.success() {
            return Err(format!("the tests of {} ended with {status} as {USER}", suite.package));
        }
    }
    Ok(())
}

/// Integration tests of one package.
struct Suite {
    package: &'static str,
    /// The beginnings of their names.
    modules: &'static [&'static str],
    /// The program that they start, in the directory of what cargo built.
    started: &'static str,
    /// Of the test program.
    options: &'static [&'static str],
}

/// A user of this machine.
struct Account {
    user: u32,
    group: u32,
}

impl Account {
    fn current() -> Self {
        let number = |option| said(Command::new("id").arg(option)).and_then(|text| text.parse().ok());
        Self { user: number("-u").unwrap_or(u32::MAX), group: number("-g").unwrap_or(u32::MAX) }
    }

    fn named(name: &str) -> Option<Self> {
        let number = |option| said(Command::new("id").args([option, name]))?.parse().ok();
        Some(Self { user: number("-u")?, group: number("-g")? })
    }

    fn is_root(&self) -> bool {
        self.user == 0
    }

    /// A program as this user, without any of root's powers.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command.arg(format!("--reuid={}", self.user)).arg(format!("--regid={}", self.group));
        command.args(["--clear-groups", "--inh-caps=-all", "--"]).arg(program).stdin(Stdio::null());
        command
    }
}

fn make(name: &str) -> Result<Account, String> {
    let made = Command::new("useradd")
        .args(["--system", "--no-create-home", "--shell", "/usr/sbin/nologin", name])
        .status();
    let why = match made {
        Ok(status) if status.success() => "it is not there all the same".to_owned(),
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    };
    Account::named(name).ok_or_else(|| format!("the user {name} could not be made with useradd: {why}"))
}

fn said(command: &mut Command) -> Option<String> {
    let output = command.stderr(Stdio::null()).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// Copies of what the tests need, where everybody can read them: the workspace may lie in a directory of root's.
struct Stage {
    dir: PathBuf,
}

impl Stage {
    fn new(account: &Account) -> Result<Self, String> {
        let stage =
            Self { dir: std::env::temp_dir().join(format!("codex-bridge-stage-{}", std::process::id())) };
        stage
            .fill(account)
            .map_err(|error| format!("{} could not be filled: {error}", stage.dir.display()))?;
        Ok(stage)
    }

    fn fill(&self, account: &Account) -> Result<(), String> {
        let artifacts = build()?;
        for Suite { package, started, .. } in SUITES {
            let test = test_program(&artifacts, package)?;
            copy(&test, &self.test(package))?;
            let built = test.parent().and_then(Path::parent).ok_or("the tests have no directory")?;
            copy(&built.join(started), &self.dir.join(started))?;
        }
        copy_tree(&workspace::codex().join("node_modules"), &self.dir.join("codex/node_modules"))?;
        fs::create_dir(self.home()).map_err(|error| error.to_string())?;
        chown(self.home(), Some(account.user), Some(account.group)).map_err(|error| error.to_string())?;
        fs::set_permissions(&self.dir, fs::Permissions::from_mode(0o755)).map_err(|error| error.to_string())
    }

    /// The tests look for the programs that they start in the directory above their own.
    fn test(&self, package: &str) -> PathBuf {
        self.dir.join("deps").join(package)
    }

    fn home(&self) -> PathBuf {
        self.dir.join("home")
    }

    fn codex(&self) -> PathBuf {
        self.dir.join("codex/node_modules/.bin/codex")
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // What is left is only a copy.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Builds all tests. Gives what cargo says about them, one line each.
fn build() -> Result<String, String> {
    let build = Program::cargo("test --workspace --no-run --message-format=json");
    said(build.command().stdout(Stdio::piped())).ok_or_else(|| "the tests could not be built".to_owned())
}

/// The integration tests of a package.
fn test_program(artifacts: &str, package: &str) -> Result<PathBuf, String> {
    let of_package = format!("/{package}#");
    let is_it = |line: &&str| line.contains(&of_package) && line.contains(r#""kind":["test"]"#);
    let executable = |line: &str| Some(line.split_once(r#""executable":""#)?.1.split_once('"')?.0.into());
    let found = artifacts.lines().filter(is_it).find_map(executable);
    found.ok_or_else(|| format!("cargo does not say where the tests of {package} are"))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let folder = to.parent().ok_or("a file has no directory")?;
    fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    fs::hard_link(from, to).or_else(|_| fs::copy(from, to).map(drop)).map_err(|error| error.to_string())
}

/// With links kept as they are.
fn copy_tree(from: &Path, to: &Path) -> Result<(), String> {
    fs::create_dir_all(to).map_err(|error| error.to_string())?;
    let status = Command::new("cp")
        .args(["-a", "--"])
        .arg(from.join("."))
        .arg(to)
        .status()
        .map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("cp ended with {status}")) }
}
