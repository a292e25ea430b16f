//! The marks in the sources: a comment line `peer: A, B` right above a test's attributes.

use std::fs;
use std::io;
use std::path::Path;

use super::list::is_id;

const MARK: &str = "// peer:";

/// A test that names promises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The promises.
    pub ids: Vec<String>,
    /// The package that the test is in.
    pub package: String,
    /// The name of the test function.
    pub test: String,
    /// The file and line of the mark.
    pub place: String,
}

/// All that was found.
#[derive(Debug, Default)]
pub struct Scan {
    /// The marks above tests.
    pub marks: Vec<Mark>,
    /// The places of the others.
    pub misplaced: Vec<String>,
}

/// Reads every Rust file of the workspace.
pub fn scan(root: &Path) -> io::Result<Scan> {
    let mut scan = Scan::default();
    scan_folder(root, root, "", &mut scan)?;
    Ok(scan)
}

fn scan_folder(root: &Path, folder: &Path, package: &str, scan: &mut Scan) -> io::Result<()> {
    let own = package_name(folder)?;
    let package = own.as_deref().unwrap_or(package);
    let mut paths =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            // Build output, and hidden folders such as the installed tools.
            if name != "target" && !name.starts_with('.') {
                scan_folder(root, &path, package, scan)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let place = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            scan_source(&fs::read_to_string(&path)?, package, &place, scan);
        }
    }
    Ok(())
}

fn package_name(folder: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(folder.join("Cargo.toml")) {
        Ok(manifest) => Ok(named_in(&manifest)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn named_in(manifest: &str) -> Option<String> {
    let section = manifest.split_once("[package]")?.1;
    let line = section.lines().find(|line| line.starts_with("name"))?;
    line.split('"').nth(1).map(String::from)
}

/// What stands between a mark and its test function.
#[derive(Debug, Default)]
struct Pending {
    ids: Vec<String>,
    place: String,
    is_test: bool,
    /// Brackets of an attribute that are still open at the end of a line.
    open_brackets: i32,
}

/// Reads one file.
pub fn scan_source(source: &str, package: &str, file: &str, scan: &mut Scan) {
    let mut pending: Option<Pending> = None;
    for (number, line) in source.lines().enumerate() {
        let line = line.trim();
        if let Some(ids) = line.strip_prefix(MARK) {
            let place = format!("{file}:{}", number + 1);
            let pending = pending.get_or_insert_with(|| Pending { place, ..Pending::default() });
            pending.ids.extend(ids.split(',').map(|id| id.trim().to_owned()));
        } else if let Some(mut mark) = pending.take() {
            if mark.goes_on_over(line) {
                pending = Some(mark);
            } else {
                finish(mark, line, package, scan);
            }
        }
    }
    scan.misplaced.extend(pending.map(|mark| mark.place));
}

impl Pending {
    /// Comments and attributes may stand between the mark and the function.
    fn goes_on_over(&mut self, line: &str) -> bool {
        if self.open_brackets == 0 {
            if line.starts_with("//") {
                return true;
            }
            if !line.starts_with("#[") {
                return false;
            }
            self.is_test |= is_test_attribute(line);
        }
        for bracket in line.chars() {
            self.open_brackets += match bracket {
                '[' => 1,
                ']' => -1,
                _ => 0,
            };
        }
        true
    }
}

/// `#[test]`, `#[tokio::test]`, `#[tokio::test(start_paused = true)]`.
fn is_test_attribute(line: &str) -> bool {
    let path = line.trim_start_matches("#[").split([']', '(']).next().unwrap_or_default();
    path.rsplit("::").next().is_some_and(|last| last.trim() == "test")
}

fn finish(mark: Pending, line: &str, package: &str, scan: &mut Scan) {
    let is_well_formed = mark.is_test && mark.ids.iter().all(|id| is_id(id));
    match function_name(line) {
        Some(test) if is_well_formed => {
            let test = test.to_owned();
            scan.marks.push(Mark { ids: mark.ids, package: package.to_owned(), test, place: mark.place });
        }
        _ => scan.misplaced.push(mark.place),
    }
}

fn function_name(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    words.find(|word| *word == "fn")?;
    words.next()?.split(['(', '<']).next()
}
