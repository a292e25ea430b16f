//! Where the daemon's hosts run, and with which codex: under its own user, or under another one by a launcher.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use codex_binary::{Codex, Version};
use codex_bridge_core::skills::SkillPlaces;
use codex_wire::host::environment::of_this_process;
use codex_wire::host::launcher::{About, Client};
use codex_wire::host::{self, EnvPolicy, Reach};
use rustix::process::geteuid;

use super::variable;
use crate::config::{Env, File};
use crate::failure::{Code, Failure};
use crate::paths::Paths;
use crate::{codex, services, tool_path};

/// Skills for every user of the machine.
const SKILLS_OF_THE_MACHINE: &str = "/etc/codex/skills";

/// Where hosts run, and what is particular to that.
pub struct Hosting {
    pub(super) reach: Reach,
    pub(super) codex: Codex,
    pub(super) hosts_dir: PathBuf,
    /// What no task may work in: our own files, and those of Codex's package.
    pub(super) grounds: Vec<PathBuf>,
    /// What no command may read or write.
    pub(super) denied: Vec<PathBuf>,
    /// The home directory of the user that commands run as.
    pub(super) user_home: Option<PathBuf>,
    /// What hosts get their environment from.
    pub(super) environment: BTreeMap<String, String>,
    /// The PATH of commands.
    pub(super) command_path: String,
    /// Where skills are, beside those in a home of Codex that we can read.
    pub(super) skills: SkillPlaces,
}

impl Hosting {
    /// As the configuration says. What belongs to a launcher is filled in there as if the operator had written it.
    pub(super) async fn of(paths: &Paths, file: &mut File) -> Result<Self, Failure> {
        match file.hosts.launcher.clone() {
            Some(socket) => Self::through(paths, &socket, file).await,
            None => Self::own(paths, file),
        }
    }

    /// The PATH of hosts.
    pub(super) fn host_path(&self) -> &str {
        self.environment.get("PATH").map(String::as_str).unwrap_or_default()
    }

    fn own(paths: &Paths, file: &File) -> Result<Self, Failure> {
        let package = codex::data_dir().map_err(|error| Failure::new(Code::NoHome, error))?;
        Ok(Self {
            reach: Reach::Own,
            codex: codex::for_daemon(file.codex_bin.clone())?,
            hosts_dir: paths.hosts(),
            grounds: paths.own().into_iter().chain([package.clone()]).collect(),
            denied: paths
                .own()
                .into_iter()
                .chain(services::that_obey(&[geteuid().as_raw()], variable))
                .collect(),
            user_home: std::env::home_dir(),
            environment: environment(&file.env),
            command_path: path_of_commands(&file.env),
            skills: own_skills(&package),
        })
    }

    async fn through(paths: &Paths, socket: &Path, file: &mut File) -> Result<Self, Failure> {
        let (client, about) = answering(socket).await?;
        let version = Version::parse_cli_output(&about.version);
        let version = version.ok_or_else(|| unusable("it does not say which codex it has"))?;
        let mut homes = about.homes.into_iter();
        file.codex_home = Some(homes.next().ok_or_else(|| unusable("it has no home of Codex"))?);
        file.other_homes = homes.collect();
        file.env.pass = about.variables.into_iter().collect();
        let directory = |path: &PathBuf| path.to_string_lossy().into_owned();
        let environment = [
            ("PATH", Some(about.host_path)),
            ("HOME", about.user_home.as_ref().map(directory)),
            ("TMPDIR", about.temp_dir.as_ref().map(directory)),
        ];
        Ok(Self {
            reach: Reach::Launcher(client),
            codex: Codex { executable: about.codex, package_root: None, version },
            hosts_dir: about.hosts_dir,
            grounds: paths.own().into_iter().chain([about.packages]).chain(about.denied.clone()).collect(),
            // The daemon's own directories are closed to the other user, and nothing could be mounted over what lies in them.
            denied: about.denied.into_iter().chain(about.services).collect(),
            user_home: about.user_home,
            environment: environment
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value?)))
                .collect(),
            command_path: about.command_path,
            // Our own user's are not theirs to read.
            skills: SkillPlaces { dirs: vec![SKILLS_OF_THE_MACHINE.into()], copies: None },
        })
    }
}

/// What hosts of our own user may have of our environment, with a PATH of their own: directories that no command can write.
pub fn environment(env: &Env) -> BTreeMap<String, String> {
    let path = tool_path::of_hosts(&path_of_commands(env), std::env::home_dir().as_deref());
    let mut environment = of_this_process();
    environment.insert("PATH".to_owned(), path);
    environment
}

/// The PATH of commands: what the configuration file sets, else where the user's tools are.
pub fn path_of_commands(env: &Env) -> String {
    let found = || tool_path::of_commands(variable("PATH").as_deref(), std::env::home_dir().as_deref());
    env.set.get("PATH").cloned().unwrap_or_else(found)
}

/// Where Codex looks for the user's own skills beside its home, and where those in its home are copied to.
fn own_skills(data: &Path) -> SkillPlaces {
    let own = std::env::home_dir().map(|home| home.join(".agents/skills"));
    let dirs = own.into_iter().chain([SKILLS_OF_THE_MACHINE.into()]).collect();
    SkillPlaces { dirs, copies: Some(data.join("skills")) }
}

/// What a configuration file adds to the environment of hosts. A PATH in it is meant for commands.
pub fn env_policy(env: &Env) -> EnvPolicy {
    let set = env.set.iter().filter(|(name, _)| *name != "PATH");
    let set = set.map(|(name, value)| (name.clone(), value.clone())).collect();
    EnvPolicy { pass: env.pass.clone(), set }
}

/// The launcher, if it answers and runs as another user: under the same one, or under root, it would protect nothing.
pub async fn answering(socket: &Path) -> Result<(Client, About), Failure> {
    let client = Client::new(socket);
    let failed = |error: host::Error| {
        Failure::new(Code::Launcher, error.to_string())
            .hint("`systemctl status codex-bridge-hosts` says more; docs/security.md has the set-up")
    };
    let about = client.about().await.map_err(failed)?;
    let user = client.user().await.map_err(failed)?;
    if user == geteuid().as_raw() || user == 0 {
        return Err(unusable("it runs as root or as the daemon's own user"));
    }
    Ok((client, about))
}

fn unusable(why: &str) -> Failure {
    Failure::new(Code::Launcher, format!("the launcher of hosts cannot be used: {why}"))
        .hint("docs/security.md has the set-up with two users")
}
