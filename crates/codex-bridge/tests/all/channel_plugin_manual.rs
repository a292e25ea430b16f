//! The plugin of the manual, started and used as the manual says.

use std::fs;
use std::path::Path;
use std::process::Command;

use scripted_model::Scenario;
use serde_json::Value;

use crate::channel_plugin::example;
use crate::shell::{Shell, program, until};

/// The blocks of this language in the manual of plugins.
fn blocks(language: &str) -> Vec<String> {
    let manual =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/channels/plugins.md"))
            .unwrap();
    let begin = format!("```{language}\n");
    manual.split(&begin).skip(1).map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_plugin_of_the_manual_runs_by_the_lines_of_the_manual() {
    let shell = Shell::new().await;
    shell.model.script("What is in this directory?", Scenario::new().say("Two files."));
    // Only the directories are another machine's.
    let here = |text: &str| {
        let places = [
            // First: the others may be below it on this machine.
            ("/tmp/", format!("{}/", shell.home.dir().display())),
            ("/opt/", format!("{}/", example().parent().unwrap().display())),
            ("/home/me/src/web", shell.home.workspace().display().to_string()),
        ];
        places.iter().fold(text.to_owned(), |text, (there, here)| text.replace(there, here))
    };
    let [config] = blocks("toml").try_into().unwrap();
    let [commands] = blocks("sh").try_into().unwrap();
    shell.configure(&here(&config));
    let path = format!("{}:{}", program().parent().unwrap().display(), std::env::var("PATH").unwrap());
    let command = |line: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", &here(line)]).env_clear().envs(shell.env()).env("PATH", &path);
        command
    };
    let (serve, write) = commands.trim().split_once('\n').unwrap();
    assert!(serve.starts_with("codex-bridge channel run echo"), "{commands}");
    let mut served = command(serve).current_dir(shell.home.workspace()).spawn().unwrap();
    let (write, read) = write.split_once('\n').unwrap();
    assert!(command(write).status().unwrap().success(), "{write}");
    let outbox = here(read.strip_prefix("tail -f ").unwrap().split_whitespace().next().unwrap());
    let said = || fs::read_to_string(&outbox).ok().filter(|said| said.ends_with('\n'));
    let said = until(&format!("an answer in {outbox}"), said).await;
    let said: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&said["target"], &said["kind"], &said["text"]),
        (&"lab".into(), &"reply".into(), &"Two files.".into())
    );
    shell.run(&["stop", "--hosts"]).await.ok();
    served.wait().unwrap();
    shell.home.assert_no_processes().await;
}
