//! Where the daemon's hosts run, and with which codex: as the daemon's own user, or as another user by a launcher.

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

/// The skills for all users of the machine.
const MACHINE_SKILLS: &str = "/etc/codex/skills";

/// The settings of hosts, which depend on the user that they run as.
pub struct Hosting {
    pub(super) reach: Reach,
    pub(super) codex: Codex,
    pub(super) hosts_dir: PathBuf,
    /// Directories that no task may work in: our own files, and those of Codex's package.
    pub(super) protected: Vec<PathBuf>,
    /// Paths that no command may read or write.
    pub(super) denied: Vec<PathBuf>,
    /// The home directory of the user that commands run as.
    pub(super) user_home: Option<PathBuf>,
    /// The variables from which hosts get their environment.
    pub(super) environment: BTreeMap<String, String>,
    /// The PATH of commands.
    pub(super) command_path: String,
    /// The directories of skills, besides those in a Codex home.
    pub(super) skills: SkillPlaces,
}

impl Hosting {
    /// Reads the configuration. With a launcher, the launcher's values are filled into `file` as if the operator had set them.
    pub(super) async fn read(paths: &Paths, file: &mut File) -> Result<Self, Failure> {
        match file.hosts.launcher.clone() {
            Some(socket) => Self::by_launcher(paths, &socket, file).await,
            None => Self::as_own_user(paths, file),
        }
    }

    /// The PATH of hosts.
    pub(super) fn host_path(&self) -> &str {
        self.environment.get("PATH").map(String::as_str).unwrap_or_default()
    }

    fn as_own_user(paths: &Paths, file: &File) -> Result<Self, Failure> {
        let package = codex::data_dir()?;
        Ok(Self {
            reach: Reach::Own,
            codex: codex::for_daemon(file.codex_bin.clone())?,
            hosts_dir: paths.hosts(),
            protected: paths.protected().into_iter().chain([package.clone()]).collect(),
            denied: paths
                .protected()
                .into_iter()
                .chain(services::command_running_sockets(&[geteuid().as_raw()], variable))
                .collect(),
            user_home: std::env::home_dir(),
            environment: environment(&file.env),
            command_path: command_path(&file.env),
            skills: own_skills(&package),
        })
    }

    async fn by_launcher(paths: &Paths, socket: &Path, file: &mut File) -> Result<Self, Failure> {
        let (client, about) = connect_launcher(socket).await?;
        let version = Version::parse_cli_output(&about.version);
        let version = version.ok_or_else(|| unusable("it did not report the version of its codex"))?;
        let mut homes = about.homes.into_iter();
        file.codex_home = Some(homes.next().ok_or_else(|| unusable("it did not report a CODEX_HOME"))?);
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
            protected: paths
                .protected()
                .into_iter()
                .chain([about.packages])
                .chain(about.denied.clone())
                .collect(),
            // The other user cannot enter the daemon's own directories, so they need no entry, and a sandbox could not mount over
            // files in them.
            denied: about.denied.into_iter().chain(about.services).collect(),
            user_home: about.user_home,
            environment: environment
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value?)))
                .collect(),
            command_path: about.command_path,
            // The other user cannot read our user's skills.
            skills: SkillPlaces { dirs: vec![MACHINE_SKILLS.into()], copies: None },
        })
    }
}

/// The environment of hosts of our own user. Their PATH has only directories that no command can write in.
pub fn environment(env: &Env) -> BTreeMap<String, String> {
    let path = tool_path::for_hosts(&command_path(env), std::env::home_dir().as_deref());
    let mut environment = of_this_process();
    environment.insert("PATH".to_owned(), path);
    environment
}

/// The PATH of commands: the configured one, else the directories of the user's tools.
pub fn command_path(env: &Env) -> String {
    let found = || tool_path::for_commands(variable("PATH").as_deref(), std::env::home_dir().as_deref());
    env.set.get("PATH").cloned().unwrap_or_else(found)
}

/// The directories of the user's own skills, and the directory to which the skills of a Codex home are copied.
fn own_skills(data: &Path) -> SkillPlaces {
    let own = std::env::home_dir().map(|home| home.join(".agents/skills"));
    let dirs = own.into_iter().chain([MACHINE_SKILLS.into()]).collect();
    SkillPlaces { dirs, copies: Some(data.join("skills")) }
}

/// The configured additions to the environment of hosts. A configured PATH is for commands only.
pub fn env_policy(env: &Env) -> EnvPolicy {
    let set = env.set.iter().filter(|(name, _)| *name != "PATH");
    let set = set.map(|(name, value)| (name.clone(), value.clone())).collect();
    EnvPolicy { pass: env.pass.clone(), set }
}

/// Connects to the launcher, and checks that it runs as another user. As root or as our own user it would protect nothing.
pub async fn connect_launcher(socket: &Path) -> Result<(Client, About), Failure> {
    let client = Client::new(socket);
    let failed = |error: host::Error| {
        Failure::new(Code::Launcher, error.to_string())
            .hint("see `systemctl status codex-bridge-hosts`; docs/security.md has the set-up")
    };
    let about = client.about().await.map_err(failed)?;
    let user = client.user().await.map_err(failed)?;
    if user == geteuid().as_raw() || user == 0 {
        return Err(unusable("it runs as root or as the daemon's own user"));
    }
    Ok((client, about))
}

fn unusable(why: &str) -> Failure {
    Failure::new(Code::Launcher, format!("the launcher cannot be used: {why}"))
        .hint("docs/security.md has the set-up with two users")
}
