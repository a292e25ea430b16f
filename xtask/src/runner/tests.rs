use super::{BTreeSet, Passed, cargo_test_passed, nextest_passed, save, saved};

fn passed(package: Option<&str>, path: &str) -> Passed {
    Passed { package: package.map(String::from), path: path.to_owned() }
}

#[test]
fn passed_tests_are_read_from_nextest() {
    let check = |line: &str, expected: Option<Passed>| assert_eq!(nextest_passed(line), expected, "{line:?}");
    let unit = passed(Some("codex-binary"), "version::tests::a_name");
    check("        PASS [   0.005s] ( 8/47) codex-binary version::tests::a_name\n", Some(unit.clone()));
    check("        PASS [   0.005s] codex-binary version::tests::a_name", Some(unit));
    let integration = passed(Some("codex-binary"), "find::a_name");
    check("        PASS [ 100.176s] (133/470) codex-binary::all find::a_name", Some(integration));
    check("        PASS [   0.1s] (1/1) x::bin/x a_name", Some(passed(Some("x"), "a_name")));
    check("        FAIL [   0.005s] ( 8/47) codex-binary version::tests::a_name", None);
    check("        SLOW [> 60.000s] (─────) codex-binary::all find::a_name", None);
    check("   LEAK-FAIL [   1.005s] ( 8/47) codex-binary version::tests::a_name", None);
    let again = passed(Some("x"), "a_name");
    check("  TRY 2 PASS [   0.005s] ( 8/47) x::all a_name", Some(again));
    check("  TRY 1 FAIL [   0.005s] ( 8/47) x::all a_name", None);
    check("        PASS", None);
    check("     Summary [   1.666s] 47 tests run: 47 passed, 0 skipped", None);
}

#[test]
fn passed_tests_are_read_from_cargo_test() {
    let check = |line: &str, expected: Option<&str>| {
        assert_eq!(cargo_test_passed(line), expected.map(|path| passed(None, path)), "{line:?}");
    };
    check("test find::a_name ... ok\n", Some("find::a_name"));
    check("test a_name - should panic ... ok", Some("a_name"));
    check("test find::a_name ... FAILED", None);
    check("test find::a_name ... ignored", None);
    check("test result: ok. 11 passed; 0 failed", None);
    check("     Running tests/all/main.rs (target/debug/deps/all-23fc)", None);
}

#[test]
fn what_is_saved_is_read_back() {
    let folder = std::env::temp_dir().join(format!("xtask-saved-{}", std::process::id()));
    let tests = BTreeSet::from([passed(None, "a::b"), passed(Some("redact"), "c::d")]);
    save(&folder.join("below/passed"), &tests).unwrap();
    let text = std::fs::read_to_string(folder.join("below/passed")).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    assert_eq!(text.lines().filter_map(saved).collect::<BTreeSet<_>>(), tests);
}
