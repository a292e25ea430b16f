//! A program to be run in the workspace, and how a person would type it.

use std::ffi::OsStr;
use std::fmt;
use std::process::{Command, Stdio};

use crate::workspace;

/// A cargo command with its environment.
#[derive(Debug, Clone)]
pub struct Program {
    arguments: Vec<String>,
    environment: Vec<(&'static str, String)>,
}

impl Program {
    /// `cargo` with these arguments, separated by blanks.
    pub fn cargo(arguments: &str) -> Self {
        Self { arguments: arguments.split_whitespace().map(String::from).collect(), environment: Vec::new() }
    }

    /// The same with one more variable set.
    pub fn env(mut self, name: &'static str, value: &str) -> Self {
        self.environment.push((name, value.to_owned()));
        self
    }

    /// The same with more arguments.
    pub fn args(mut self, more: &[String]) -> Self {
        self.arguments.extend_from_slice(more);
        self
    }

    /// Ready to be started in the workspace, with the cargo that runs us.
    pub fn command(&self) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsStr::new("cargo").to_os_string());
        let mut command = Command::new(cargo);
        command.args(&self.arguments).current_dir(workspace::root());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs it on our terminal.
    pub fn run(&self) -> Result<(), String> {
        let status =
            self.command().status().map_err(|error| format!("cargo could not be started ({error})"))?;
        if status.success() { Ok(()) } else { Err(format!("it ended with {status}")) }
    }

    /// Whether it runs and succeeds; nothing is shown.
    pub fn succeeds(&self) -> bool {
        let mut command = self.command();
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.status().is_ok_and(|status| status.success())
    }
}

/// As it would be typed.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.environment {
            write!(f, "{name}={} ", quoted(value))?;
        }
        write!(f, "cargo")?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {}", quoted(argument)))
    }
}

fn quoted(word: &str) -> String {
    if word.is_empty() || word.contains(char::is_whitespace) { format!("'{word}'") } else { word.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::Program;

    #[test]
    fn a_program_is_shown_as_it_would_be_typed() {
        let program =
            Program::cargo("doc --no-deps").env("RUSTDOCFLAGS", "-D warnings").args(&["a b".into()]);
        assert_eq!(program.to_string(), "RUSTDOCFLAGS='-D warnings' cargo doc --no-deps 'a b'");
    }
}
