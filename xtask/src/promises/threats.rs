//! The tests that `docs/security.md` names: each of them ran and passed.

use std::collections::BTreeSet;

use crate::runner::Passed;

/// The names of tests in a text, such as `place::tests::a_name`: what stands in backticks and looks like a path of Rust.
pub fn named(text: &str) -> BTreeSet<&str> {
    let in_backticks = text.split('`').skip(1).step_by(2);
    in_backticks.filter(|name| name.contains("::") && name.chars().all(is_of_a_path)).collect()
}

fn is_of_a_path(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '_' | ':' | '*')
}

/// The names for which no test passed. A whole module (`place::tests::*`) is no name: any test of it would do.
pub fn without_test<'a>(named: &BTreeSet<&'a str>, passed: &BTreeSet<Passed>) -> Vec<&'a str> {
    named.iter().copied().filter(|name| !passed.iter().any(|test| test.path == *name)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Passed, named, without_test};

    #[test]
    fn a_test_that_is_named_and_did_not_pass_is_found() {
        let text = "| a | `b::c`, `b::d::*`, `e::*` | `not a::path` and `f` |";
        let names = named(text);
        assert_eq!(names, ["b::c", "b::d::*", "e::*"].into());
        let passed =
            ["b::d::one", "b::c", "b::e::two"].map(|path| Passed { package: None, path: path.to_owned() });
        assert_eq!(without_test(&names, &passed.into()), ["b::d::*", "e::*"]);
    }
}
