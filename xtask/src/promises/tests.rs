use super::marks::{Scan, scan, scan_source};
use super::{BTreeSet, Faults, Passed, compare, list};

/// The sources are written with `@` for the mark, so that this file holds no mark of its own.
fn scanned(source: &str) -> Scan {
    let mut scan = Scan::default();
    scan_source(&source.replace('@', "// peer:"), "redact", "src/x.rs", &mut scan);
    scan
}

fn found(source: &str) -> Vec<(String, String)> {
    let scan = scanned(source);
    assert!(scan.misplaced.is_empty(), "{:?}", scan.misplaced);
    scan.marks.into_iter().map(|mark| (mark.ids.join(" "), mark.test)).collect()
}

fn passed(package: Option<&str>, path: &str) -> Passed {
    Passed { package: package.map(String::from), path: path.to_owned() }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn ids_are_the_first_cells_of_tables() {
    let text = "# Promises\n\ntext | with | bars\n\n| id | promise |\n|---|---|\n| S1 | one |\n|RD-api-key-headers|two|\n\n- C15: not ours\n";
    assert_eq!(list::ids(text), Ok(names(&["S1", "RD-api-key-headers"])));
    assert_eq!(list::ids("| S1 | a |\n| S1 | b |\n"), Err("docs/promises.md lists S1 twice".to_owned()));
    assert_eq!(list::ids("nothing"), Err("docs/promises.md lists no promise".to_owned()));
}

#[test]
fn a_mark_belongs_to_the_test_below_it() {
    let check = |source: &str, ids: &str, test: &str| {
        assert_eq!(found(source), [(ids.to_owned(), test.to_owned())], "{source}");
    };
    check("@ S1\n#[test]\nfn a_test() {\n}\n", "S1", "a_test");
    check("    @ S1, S2,RD-env\n    #[test]\n    fn a_test() {}\n", "S1 S2 RD-env", "a_test");
    check(
        "@ S1\n// why\n@ S2\n/// doc\n#[allow(x)]\n#[tokio::test]\nasync fn a_test() {}\n",
        "S1 S2",
        "a_test",
    );
    check("@ S1\n#[tokio::test(\n    flavor = \"multi_thread\",\n)]\nasync fn a_test() {}\n", "S1", "a_test");
    check("@ S1\n#[cfg(any(\n  a, b\n))]\n#[test]\nfn a_test<T>() {}\n", "S1", "a_test");
    check("@ S1\n#[test]\n#[should_panic]\npub(crate) fn a_test() {}\n", "S1", "a_test");
}

#[test]
fn several_tests_may_name_one_promise() {
    let source = "@ S1\n#[test]\nfn one() {}\n\n#[test]\nfn unmarked() {}\n\n@ S1\n#[test]\nfn two() {}\n";
    assert_eq!(found(source), [("S1".to_owned(), "one".to_owned()), ("S1".to_owned(), "two".to_owned())]);
}

#[test]
fn a_mark_above_anything_else_is_misplaced() {
    for source in [
        "@ S1\nfn not_a_test() {}\n",
        "@ S1\n\n#[test]\nfn a_test() {}\n",
        "@ S1\n#[derive(Debug)]\nstruct Test;\n",
        "@ S1\n#[test_case]\nfn not_the_attribute() {}\n",
        "@ S1",
        "@\n#[test]\nfn a_test() {}\n",
        "@ S1 and S2\n#[test]\nfn a_test() {}\n",
    ] {
        let scan = scanned(source);
        assert!(scan.marks.is_empty(), "{source}: {:?}", scan.marks);
        assert_eq!(scan.misplaced, ["src/x.rs:1"], "{source}");
    }
}

#[test]
fn the_sources_of_a_workspace_are_searched_with_their_packages() {
    let root = std::env::temp_dir().join(format!("xtask-marks-{}", std::process::id()));
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text.replace('@', "// peer:")).unwrap();
    };
    let source = "@ S1\n#[test]\nfn a_test() {}\n";
    write("Cargo.toml", "[workspace]\nname = \"no\"\n");
    write("crates/one/Cargo.toml", "[package]\nname = \"crate-one\"\n[[test]]\nname = \"all\"\n");
    write("crates/one/tests/all/deep/x.rs", source);
    write("crates/one/README.md", source);
    write("target/x.rs", source);
    write(".tools/x.rs", source);
    let found = scan(&root).unwrap();
    std::fs::remove_dir_all(&root).unwrap();
    let marks: Vec<_> = found.marks.iter().map(|mark| (mark.package.as_str(), mark.place.as_str())).collect();
    assert_eq!(marks, [("crate-one", "crates/one/tests/all/deep/x.rs:1")]);
}

#[test]
fn all_is_well_when_each_promise_has_a_test_that_passed() {
    let scan = scanned("@ S1, S2\n#[test]\nfn a_test() {}\n");
    for package in [None, Some("redact")] {
        let passed = BTreeSet::from([passed(package, "deep::down::a_test")]);
        assert_eq!(compare(&names(&["S1", "S2"]), &scan, &passed), Faults::default());
    }
}

#[test]
fn each_fault_is_reported_with_names() {
    let scan = scanned("@ S1\n#[test]\nfn ran() {}\n@ S2, S9\n#[test]\nfn idle() {}\n@ S1\nstruct X;\n");
    let passed = BTreeSet::from([passed(Some("redact"), "ran"), passed(Some("another"), "idle")]);
    let faults = compare(&names(&["S10", "S1", "S2", "S3"]), &scan, &passed);
    assert_eq!(faults.count(), 5);
    assert_eq!(
        faults.report(),
        "listed, but named by no test (2):\n   S10, S3\n\
         named by a test, but not listed in docs/promises.md (1):\n   S9 at src/x.rs:4\n\
         named by a test that did not run or did not pass (1):\n   S2 by idle at src/x.rs:4\n\
         a mark that stands above no test (1):\n   src/x.rs:7\n"
    );
}

#[test]
fn the_promises_of_this_project_are_well_formed() {
    let text = std::fs::read_to_string(crate::workspace::root().join("docs/promises.md")).unwrap();
    let ids = list::ids(&text).unwrap();
    for (group, count) in
        [("S", 68), ("C", 9), ("L", 14), ("P", 22), ("E", 53), ("RD-", 20), ("BR", 10), ("T", 38), ("CH", 25)]
    {
        let is_of_group = |id: &&String| {
            let rest = id.strip_prefix(group).unwrap_or_default();
            !rest.is_empty() && (group.ends_with('-') || rest.bytes().all(|byte| byte.is_ascii_digit()))
        };
        assert_eq!(ids.iter().filter(is_of_group).count(), count, "{group}");
    }
}
