//! Starts a host and leaves it running: `launch_host KEEPER CODEX VERSION CODEX_HOME DIR`, where KEEPER is a program
//! such as the `keeper` example. Prints the codex process when it answers, then waits until its own stdin is closed.
//! The host lives on.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use codex_wire::host::environment::of_this_process;
use codex_wire::host::{EnvPolicy, Host, Identity, KeeperCommand, Launch};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [keeper, codex, version, codex_home, dir] = arguments.as_slice() else {
        return Err("usage: launch_host KEEPER CODEX VERSION CODEX_HOME DIR".into());
    };
    let host = Host::launch(&Launch {
        keeper: KeeperCommand { program: PathBuf::from(keeper), args: Vec::new() },
        codex: PathBuf::from(codex),
        version: version.clone(),
        identity: Identity { codex_home: Some(PathBuf::from(codex_home)), ..Identity::default() },
        dir: PathBuf::from(dir),
        parent_env: of_this_process(),
        env: EnvPolicy::default(),
        config: Vec::new(),
        ready_timeout: Duration::from_secs(30),
    })
    .await?;
    println!("codex {} answers", host.record().codex.pid);
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}
