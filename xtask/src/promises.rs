//! Every promise in `docs/promises.md` has a test that names it and that passed; no test names one that is not there. Every
//! test that `docs/security.md` names passed.

mod list;
mod marks;
mod threats;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::runner::{self, Passed};
use crate::steps::Steps;
use crate::workspace;
use marks::Mark;

/// How to run this alone.
pub const ALONE: &str = "cargo xtask promises";

/// What is wrong, by kind. Empty is good.
#[derive(Debug, Default, PartialEq, Eq)]
struct Faults {
    /// Listed, but no test names it.
    without_test: Vec<String>,
    /// Named by a test, but not listed.
    not_listed: Vec<String>,
    /// Named by a test that did not run, or did not pass.
    not_passed: Vec<String>,
    /// Marks that stand above no test.
    misplaced: Vec<String>,
}

/// Runs the command on what the last test run left.
pub fn run() -> Result<(), String> {
    let kept = Steps::default().step("promises", ALONE, || check(&runner::last_run()?))?;
    println!("{kept} promises kept");
    Ok(())
}

/// Checks the promises against the tests that passed, and gives the number of promises.
pub fn check(passed: &BTreeSet<Passed>) -> Result<usize, String> {
    let root = workspace::root();
    let security = read(&root.join("docs/security.md"))?;
    let missing = threats::without_test(&threats::named(&security), passed);
    if !missing.is_empty() {
        return Err(format!("docs/security.md names tests that did not pass: {}", missing.join(", ")));
    }
    let text = read(&root.join("docs/promises.md"))?;
    let promised = list::ids(&text)?;
    let scan = marks::scan(&root).map_err(|error| format!("the sources could not be read ({error})"))?;
    let faults = compare(&promised, &scan, passed);
    if faults == Faults::default() {
        return Ok(promised.len());
    }
    print!("{}", faults.report());
    Err(format!(
        "docs/promises.md and the tests that passed differ in {} points, named above",
        faults.count()
    ))
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("{} could not be read ({error})", file.display()))
}

fn compare(promised: &[String], scan: &marks::Scan, passed: &BTreeSet<Passed>) -> Faults {
    let mut by_id: BTreeMap<&str, Vec<&Mark>> = BTreeMap::new();
    for mark in &scan.marks {
        for id in &mark.ids {
            by_id.entry(id).or_default().push(mark);
        }
    }
    let mut faults = Faults { misplaced: scan.misplaced.clone(), ..Faults::default() };
    faults.without_test.extend(promised.iter().filter(|id| !by_id.contains_key(id.as_str())).cloned());
    for (id, marks) in by_id {
        if !promised.iter().any(|promise| promise == id) {
            faults.not_listed.extend(marks.iter().map(|mark| format!("{id} at {}", mark.place)));
            continue;
        }
        let idle = marks.iter().filter(|mark| !mark.is_among(passed));
        faults.not_passed.extend(idle.map(|mark| format!("{id} by {} at {}", mark.test, mark.place)));
    }
    faults
}

impl Mark {
    fn is_among(&self, passed: &BTreeSet<Passed>) -> bool {
        passed.iter().any(|one| {
            let is_same_package = one.package.as_ref().is_none_or(|package| *package == self.package);
            is_same_package && one.path.rsplit("::").next() == Some(&self.test)
        })
    }
}

impl Faults {
    fn kinds(&self) -> [(&'static str, &[String]); 4] {
        [
            ("listed, but named by no test", &self.without_test),
            ("named by a test, but not listed in docs/promises.md", &self.not_listed),
            ("named by a test that did not run or did not pass", &self.not_passed),
            ("a mark that stands above no test", &self.misplaced),
        ]
    }

    fn count(&self) -> usize {
        self.kinds().iter().map(|(_, names)| names.len()).sum()
    }

    fn report(&self) -> String {
        let mut text = String::new();
        for (kind, names) in self.kinds().iter().filter(|(_, names)| !names.is_empty()) {
            // Writing to a string cannot fail.
            let between = if names.iter().any(|name| name.contains(' ')) { "\n   " } else { ", " };
            let _ = writeln!(text, "{kind} ({}):\n   {}", names.len(), names.join(between));
        }
        text
    }
}

#[cfg(test)]
mod tests;
