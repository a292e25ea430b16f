//! `measure`: figures about the source, to be compared from one change to the next.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::program::Program;
use crate::workspace;

/// Runs the command.
pub fn run() -> Result<(), String> {
    let root = workspace::root();
    let mut total = 0;
    for krate in crates(&root)? {
        let sources = sources(&krate.join("src"))?;
        let lines: usize = sources.iter().map(|source| lines_without_tests(&source.text)).sum();
        let name = krate.strip_prefix(&root).unwrap_or(&krate).display();
        println!("{lines:>7} lines without tests in {name}");
        for cycle in cycles(&imports(&sources)) {
            println!("        modules in a cycle: {}", cycle.join(", "));
        }
        total += lines;
    }
    println!("{total:>7} lines without tests in all");
    println!("{:>7} public methods of Bridge", methods_of_bridge(&root)?);
    println!("{:>7} crates in the program", crates_in_the_program()?);
    Ok(())
}

fn crates_in_the_program() -> Result<usize, String> {
    let tree = Program::cargo("tree -p codex-bridge -e normal --prefix none").command().output();
    let tree = tree.map_err(|error| format!("cargo tree: {error}"))?;
    let names = String::from_utf8_lossy(&tree.stdout);
    Ok(names.lines().map(|line| line.trim_end_matches(" (*)")).collect::<BTreeSet<_>>().len())
}

/// A file of a crate.
struct Source {
    /// Its path below `src`.
    path: PathBuf,
    text: String,
}

impl Source {
    /// The module at the top of the crate that the file belongs to.
    fn module(&self) -> String {
        let first = self.path.iter().next().map_or(Path::new(""), Path::new);
        first.with_extension("").display().to_string()
    }
}

fn crates(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = list(&root.join("crates"))?;
    found.extend([root.join("testkit"), root.join("xtask")]);
    Ok(found)
}

fn list(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let unreadable = |error| format!("{} cannot be read: {error}", dir.display());
    let entries = fs::read_dir(dir).map_err(unreadable)?;
    let mut found = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(unreadable)?;
    found.sort();
    Ok(found)
}

/// The files of a crate that are not tests.
fn sources(src: &Path) -> Result<Vec<Source>, String> {
    let (mut found, mut folders) = (Vec::new(), vec![src.to_owned()]);
    while let Some(folder) = folders.pop() {
        for path in list(&folder)? {
            if is_test(&path) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
                let path = path.strip_prefix(src).unwrap_or(&path).to_owned();
                found.push(Source { path, text });
            }
        }
    }
    Ok(found)
}

fn is_test(path: &Path) -> bool {
    let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    ["tests", "properties", "conformance"].contains(&name)
}

/// The lines above a module with tests.
fn lines_without_tests(text: &str) -> usize {
    let tests = text.find("\n#[cfg(test)]\nmod tests {").map_or(text, |at| &text[..at]);
    tests.lines().count()
}

/// Which module at the top of a crate uses which others.
fn imports(sources: &[Source]) -> BTreeMap<String, BTreeSet<String>> {
    let modules: BTreeSet<String> = sources.iter().map(Source::module).collect();
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources {
        let module = source.module();
        if module == "lib" || module == "main" {
            continue;
        }
        let used = used_in(&source.text).into_iter().filter(|used| modules.contains(used) && *used != module);
        imports.entry(module.clone()).or_default().extend(used);
    }
    imports
}

/// The modules that are named after `crate::`, also in braces.
fn used_in(text: &str) -> Vec<String> {
    let tests = text.find("\n#[cfg(test)]\nmod tests {").map_or(text, |at| &text[..at]);
    let mut used = Vec::new();
    for rest in tests.split("crate::").skip(1) {
        let names = match rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            Some((inside, _)) => inside.split(',').collect(),
            None => vec![rest],
        };
        for name in names {
            let is_of_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
            let end = name.trim_start().find(|char| !is_of_name(char)).unwrap_or(name.trim_start().len());
            used.push(name.trim_start()[..end].to_owned());
        }
    }
    used
}

/// Sets of modules each of which reaches all others.
fn cycles(imports: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<String>> =
        imports.keys().map(|module| (module, reached_from(module, imports))).collect();
    let mut cycles: BTreeSet<Vec<String>> = BTreeSet::new();
    for (module, reach) in &reached {
        let back = |other: &&String| reached.get(other).is_some_and(|reach| reach.contains(*module));
        let cycle: Vec<String> = reach.iter().filter(back).cloned().collect();
        if !cycle.is_empty() {
            cycles.insert(cycle);
        }
    }
    cycles.into_iter().collect()
}

fn reached_from(module: &str, imports: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![module.to_owned()]);
    while let Some(module) = next.pop() {
        for used in imports.get(&module).into_iter().flatten() {
            if reached.insert(used.clone()) {
                next.push(used.clone());
            }
        }
    }
    reached
}

/// Methods of all `impl Bridge` blocks of the core.
fn methods_of_bridge(root: &Path) -> Result<usize, String> {
    let mut count = 0;
    for source in sources(&root.join("crates/codex-bridge-core/src"))? {
        for block in source.text.split("\nimpl Bridge {\n").skip(1) {
            let block = block.split("\n}\n").next().unwrap_or_default();
            let is_method =
                |line: &&str| line.starts_with("    pub fn ") || line.starts_with("    pub async fn ");
            count += block.lines().filter(is_method).count();
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_that_use_each_other_are_a_cycle_and_a_chain_is_none() {
        let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        let sources = [
            source("desk.rs", "use crate::{bridge::Bridge, task};"),
            source("bridge/news.rs", "crate::desk::Caller"),
            source("task.rs", "nothing"),
        ];
        assert_eq!(cycles(&imports(&sources)), [["bridge", "desk"]]);
        assert!(cycles(&imports(&sources[1..])).is_empty());
    }

    #[test]
    fn lines_of_tests_do_not_count() {
        assert_eq!(lines_without_tests("one\ntwo\n#[cfg(test)]\nmod tests {\n}\n"), 2);
    }
}
