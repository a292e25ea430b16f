//! The environment of commands: they have the user's tools, and cannot reach services that would run a program for them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use codex_bridge_core::id::short;

use crate::shell::{Said, Shell};

/// Says where it looks for tools, and which of the sockets that it is given take it.
const LOOK: &str = r"import os, socket, sys
for name in sys.argv[1:]:
    try:
        socket.socket(socket.AF_UNIX).connect(name)
        print('REACHED', name)
    except OSError as error:
        print('refused', name, error)
print(os.popen('mytool').read())
";

/// Runs a prompt under a profile, with the environment that a service manager gives.
async fn run_as_a_service(shell: &Shell, profile: &str, prompt: &str) -> Said {
    let mut command = shell.command(&["run", "--profile", profile, prompt]);
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("XDG_RUNTIME_DIR", shell.home.dir().join("run"));
    shell.output(move || command.output().unwrap()).await
}

#[tokio::test]
async fn commands_find_the_users_tools_and_none_of_the_services_that_would_run_one() {
    let shell = Shell::new().await;
    shell.configure("[profiles.net]\nnetwork = true\napproval_policy = \"on-request\"\n");
    let tool = shell.home.user_home().join(".cargo/bin/mytool");
    fs::create_dir_all(tool.parent().unwrap()).unwrap();
    fs::write(&tool, "#!/bin/sh\necho TOOL-FOUND\n").unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    let (bus, free) = (shell.home.dir().join("run/bus"), shell.home.dir().join("free"));
    fs::create_dir(bus.parent().unwrap()).unwrap();
    let listening = [UnixListener::bind(&bus).unwrap(), UnixListener::bind(&free).unwrap()];
    fs::write(shell.home.workspace().join("look.py"), LOOK).unwrap();
    let prompt = format!("go [play] exec python3 look.py {} {} => say Done.", bus.display(), free.display());
    run_as_a_service(&shell, "net", &prompt).await.ok();
    let told = shell.model.requests().last().unwrap().last_tool_output().unwrap();
    assert!(told.contains("TOOL-FOUND"), "{told}");
    assert!(told.contains(&format!("REACHED {}", free.display())), "it has the network: {told}");
    assert!(told.contains(&format!("refused {}", bus.display())), "{told}");
    let doctor = shell.run(&["doctor"]).await.ok().out;
    assert!(doctor.contains(&format!("PATH is {}:", tool.parent().unwrap().display())), "{doctor}");
    drop(listening);
    shell.end().await;
}

#[tokio::test]
async fn what_a_project_puts_on_the_path_runs_in_the_sandbox_alone() {
    let shell = Shell::new().await;
    let (bin, traces) = (shell.home.workspace().join(".venv/bin"), shell.home.user_home());
    fs::create_dir_all(&bin).unwrap();
    // Codex runs these by their names, outside of any sandbox. In the sandbox nothing can be written to the home.
    for program in ["git", "bwrap", "bash", "sh", "rg", "node", "python3"] {
        let text = format!(
            "#!/bin/bash -p\necho planted {program}\ntouch {}/ran-{program}\nexit 128\n",
            traces.display()
        );
        fs::write(bin.join(program), text).unwrap();
        fs::set_permissions(bin.join(program), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let git = std::process::Command::new("git").args(["init", "-q"]).arg(shell.home.workspace()).status();
    assert!(git.unwrap().success());
    let path = format!("{}:./.venv/bin::{}", bin.display(), std::env::var("PATH").unwrap());
    let prompt = "go [play] exec git status; echo $PATH => say Done.";
    let mut command =
        shell.command(&["run", "-s", "workspace-write", "--approval-policy", "on-request", prompt]);
    command.env("PATH", &path);
    shell.output(move || command.output().unwrap()).await.ok();
    let told = shell.model.requests().last().unwrap().last_tool_output().unwrap();
    assert!(told.contains("planted git"), "commands have the user's PATH: {told}");
    let ran: Vec<_> = fs::read_dir(&traces).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(ran.iter().filter(|name| name.to_string_lossy().starts_with("ran-")).count(), 0, "{ran:?}");
    shell.end().await;
}

#[tokio::test]
async fn the_doctor_tells_of_alarms() {
    let shell = Shell::new().await;
    let (id, _) = shell.start_asking("go [play] exec true => exec true => say Done.").await;
    let doctor = shell.run(&["doctor"]).await.ok().out;
    assert!(doctor.contains("alarms    none in the last week"), "{doctor}");
    let config = shell.home.codex_home().join("config.toml");
    let entry = format!(
        "[projects.\"{}\"]\ntrust_level = \"trusted\"\n",
        shell.home.workspace().canonicalize().unwrap().display()
    );
    fs::write(&config, fs::read_to_string(&config).unwrap() + "\n" + &entry).unwrap();
    shell.approve(&id).await.ok();
    assert_eq!(shell.run(&["wait", &id, "--timeout", "120"]).await.code, 1);
    let doctor = shell.run(&["doctor"]).await.ok().out;
    assert!(
        doctor.contains("warning alarms")
            && doctor.contains("got an entry for")
            && doctor.contains(short(&id)),
        "{doctor}"
    );
    shell.end().await;
}
