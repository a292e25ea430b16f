//! A real terminal: tmux, in which a test types and reads the screen.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::shell::{PATIENCE, Shell, until};

/// A terminal window with a shell in it. It is closed with everything in it when it is dropped.
pub struct Tmux {
    socket: PathBuf,
}

impl Tmux {
    /// A window of this size, with `codex-bridge` on the PATH.
    pub fn new(shell: &Shell, columns: u16, lines: u16) -> Self {
        let number = std::fs::read_dir(shell.home.dir()).unwrap().count();
        let tmux = Self { socket: shell.home.dir().join(format!("tmux-{number}")) };
        let program = PathBuf::from(env!("CARGO_BIN_EXE_codex-bridge"));
        let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
        let mut command = tmux.command();
        command.args(["-f", "/dev/null", "new-session", "-d"]);
        command.args(["-x", &columns.to_string(), "-y", &lines.to_string()]);
        command
            .arg("PS1='$ ' exec sh")
            .env_clear()
            .envs(shell.env())
            .env("PATH", path)
            .env("TERM", "xterm-256color");
        command.current_dir(shell.home.workspace());
        match command.output() {
            Ok(output) => assert_done(&output),
            Err(error) => {
                panic!("tmux could not be started ({error}): install it with `apt-get install tmux`")
            }
        }
        // What is typed before the shell is there is shown twice.
        let began = Instant::now();
        while tmux.screen() != "$" {
            assert!(began.elapsed() < PATIENCE, "no shell in tmux: {}", tmux.screen());
            std::thread::sleep(Duration::from_millis(10));
        }
        tmux
    }

    fn command(&self) -> Command {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket);
        command
    }

    /// Types a text and Enter.
    pub fn line(&self, text: &str) {
        assert_done(&self.command().args(["send-keys", "-l", text]).output().unwrap());
        self.key("Enter");
    }

    /// Presses a key, such as `C-c`.
    pub fn key(&self, key: &str) {
        assert_done(&self.command().args(["send-keys", key]).output().unwrap());
    }

    /// What is on the screen, and what has left it at the top.
    pub fn screen(&self) -> String {
        let output = self.command().args(["capture-pane", "-p", "-S", "-200"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// Waits until this can be read.
    pub async fn see(&self, text: &str) -> String {
        let mut last = String::new();
        let mut look = || {
            last = self.screen();
            last.contains(text).then(|| last.clone())
        };
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(screen) = look() {
                return screen;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("waited in vain for {text:?} on this screen:\n{}", self.screen());
    }

    /// Waits until a question can be answered: its prompt is the last line. Nobody answers in no time.
    pub async fn see_prompt(&self) -> String {
        let screen = until("the prompt of a question", || {
            let screen = self.screen();
            let is_prompt = |line: &str| line == ">" || line.ends_with(" >");
            screen.lines().last().is_some_and(|line| is_prompt(line.trim_end())).then_some(screen)
        })
        .await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        screen
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = self.command().arg("kill-server").output();
    }
}

fn assert_done(output: &Output) {
    assert!(output.status.success(), "tmux: {}", String::from_utf8_lossy(&output.stderr));
}
