//! What a shell would run is visible in what a person approves: for random commands with secrets of every kind in every
//! quoting and nesting, by a parser of the shell's language and by running them.
//!
//! Both look at the command as it is and at the same command with other letters under its marks. If what is hidden
//! played a part in what runs, the two would differ in more than those letters.

#[path = "approved/commands.rs"]
mod commands;
#[path = "approved/parsed.rs"]
mod parsed;
#[path = "approved/traced.rs"]
mod traced;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use redact::Redactor;
use redact::approval::{Shown, TextKind};

/// Stands under the marks instead of what is hidden.
const FILLER: char = 'Q';

/// At least so many cases; more where `PROPTEST_CASES` asks for more.
fn config(cases: u32) -> ProptestConfig {
    let default = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    ProptestConfig { cases: default.cases.max(cases), ..default }
}

fn redactor() -> Redactor {
    Redactor::knowing(commands::KNOWN)
}

/// The command with other letters under its marks; none where the text shown is not the command with marks in it.
fn refilled(command: &str, shown: &str) -> Option<String> {
    let (mut refilled, mut command, mut shown) = (String::new(), command, shown);
    while let Some((before, characters, after)) = next_mark(shown) {
        let rest = command.strip_prefix(before)?;
        let hidden = rest.char_indices().nth(characters).map_or(rest.len(), |(end, _)| end);
        refilled.push_str(before);
        refilled.extend(std::iter::repeat_n(FILLER, characters));
        (command, shown) = (&rest[hidden..], after);
    }
    refilled.push_str(shown);
    (command == shown).then_some(refilled)
}

/// The text before the next mark, the length that it tells, and the text behind it.
fn next_mark(shown: &str) -> Option<(&str, usize, &str)> {
    let mut from = 0;
    loop {
        let start = from + shown[from..].find('[')?;
        let inside = shown[start + 1..].split_once(']');
        let length = inside.and_then(|(inside, after)| {
            let (kind, length) = inside.split_once(", ")?;
            let is_kind =
                kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-' || byte.is_ascii_digit());
            let number = length.strip_suffix(" characters").or_else(|| length.strip_suffix(" character"))?;
            is_kind.then_some((number.parse().ok()?, after))
        });
        if let Some((length, after)) = length {
            return Some((&shown[..start], length, after));
        }
        from = start + 1;
    }
}

/// Whether `other` is `text` but for letters that stand under a mark.
fn is_same_but_for_marks(text: &str, other: &str) -> bool {
    let mut pairs = text.chars().zip(other.chars());
    text.chars().count() == other.chars().count() && pairs.all(|(a, b)| a == b || b == FILLER)
}

fn check(
    command: &str,
    shown: &Shown,
    look: impl Fn(&str, &str) -> Result<(), String>,
) -> Result<(), String> {
    if !shown.is_whole {
        return Ok(());
    }
    let told = |fault: &str| format!("{fault}\n  command: {command}\n  shown:   {}", shown.text);
    let other = refilled(command, &shown.text).ok_or_else(|| told("the text shown is not the command"))?;
    look(command, &other).map_err(|fault| told(&fault))
}

proptest! {
    #![proptest_config(config(1500))]

    #[test]
    fn whatever_a_parser_finds_to_run_is_visible(command in commands::any_command()) {
        let shown = redactor().show_for_approval(&command, TextKind::Command);
        check(&command, &shown, parsed::compare).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn a_known_value_and_a_private_key_never_come_out(command in commands::any_command()) {
        for matter in [TextKind::Command, TextKind::Excerpt, TextKind::Prose] {
            let shown = redactor().show_for_approval(&command, matter);
            for secret in commands::KNOWN.iter().chain([&commands::KEY_MATERIAL]) {
                prop_assert!(!shown.text.contains(secret), "{command}\n{}", shown.text);
            }
        }
    }
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn whatever_runs_is_visible(command in commands::any_command()) {
        let shown = redactor().show_for_approval(&command, TextKind::Command);
        check(&command, &shown, traced::compare).map_err(TestCaseError::fail)?;
    }
}

#[test]
fn hiding_every_secret_is_caught_by_both() {
    for command in [
        r#"DB_PASSWORD="a$(beta x)" && true"#,
        "TOKEN=`beta x` true",
        "API_KEY=x;beta${IFS}evil|gamma;true",
        "PASSWORD=beta; $PASSWORD x",
    ] {
        let hidden = Redactor::default().show_for_approval(command, TextKind::Prose);
        assert!(hidden.hidden > 0 && check(command, &hidden, traced::compare).is_err(), "{hidden:?}");
    }
    let command = r#"DB_PASSWORD="a$(beta x)" && true"#;
    let hidden = Redactor::default().show_for_approval(command, TextKind::Prose);
    assert!(check(command, &hidden, parsed::compare).is_err(), "{hidden:?}");
}

#[test]
fn random_commands_reach_every_fate() {
    let mut runner = TestRunner::deterministic();
    let (mut hidden, mut exposed, mut withheld, mut parsed) = (0, 0, 0, 0);
    for _ in 0..1000 {
        let command = commands::any_command().new_tree(&mut runner).unwrap().current();
        let shown = redactor().show_for_approval(&command, TextKind::Command);
        hidden += usize::from(shown.hidden > 0 && shown.is_whole);
        exposed += usize::from(shown.exposed > 0);
        withheld += usize::from(!shown.is_whole);
        parsed += usize::from(parsed::is_readable(&command));
    }
    let counts = [hidden, exposed, withheld, parsed];
    assert!(hidden > 40 && exposed > 100 && withheld > 50 && parsed > 800, "{counts:?}");
}
