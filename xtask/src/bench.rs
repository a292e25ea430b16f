//! `bench NAME`: one benchmark by its short name.

use crate::program::Program;
use crate::steps::Steps;

/// Short name, package, bench target.
const BENCHES: &[(&str, &str, &str)] = &[
    ("boots", "codex-bridge", "boots"),
    ("channels", "codex-bridge", "channels"),
    ("confinement", "codex-wire", "confinement"),
    ("doors", "codex-bridge", "doors"),
    ("idle", "codex-bridge", "idle"),
    ("store", "codex-bridge-core", "store"),
    ("tasks", "codex-bridge-core", "tasks"),
    ("wire", "codex-session", "wire"),
];

/// Runs the command.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let (name, rest) = arguments.split_first().ok_or_else(|| format!("name a benchmark; {}", list()))?;
    let program = program(name, rest)?;
    Steps::default().program("bench", &program)
}

fn program(name: &str, rest: &[String]) -> Result<Program, String> {
    let found = BENCHES.iter().find(|(short, _, _)| *short == name);
    let (_, package, target) = found.ok_or_else(|| format!("there is no benchmark `{name}`; {}", list()))?;
    let bench = Program::cargo(&format!("bench -p {package} --bench {target}"));
    Ok(if rest.is_empty() { bench } else { bench.args(&["--".to_owned()]).args(rest) })
}

fn list() -> String {
    let names: Vec<_> = BENCHES.iter().map(|(short, _, _)| format!("`{short}`")).collect();
    format!("there is {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::program;

    #[test]
    fn a_benchmark_gets_its_arguments_and_an_unknown_one_lists_what_exists() {
        assert_eq!(program("wire", &[]).unwrap().to_string(), "cargo bench -p codex-session --bench wire");
        let with = program("wire", &["--quick".to_owned()]).unwrap();
        assert_eq!(with.to_string(), "cargo bench -p codex-session --bench wire -- --quick");
        let unknown = program("wine", &[]).unwrap_err();
        assert!(unknown.starts_with("there is no benchmark `wine`; there is `boots`, "), "{unknown}");
    }
}
