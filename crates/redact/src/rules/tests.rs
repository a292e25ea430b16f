//! Walks the table: every row hides its own sample in every surrounding, and keeps its look-alikes.

use super::*;
use crate::Redactor;

#[track_caller]
fn check_hidden(rule: &Rule, before: &str, key: &str, after: &str) {
    let shown = Redactor::default().redact(&format!("{before}{key}{after}")).into_owned();
    assert_eq!(shown, format!("{before}[redacted:{}]{after}", rule.kind), "for {key:?}");
}

#[test]
fn every_row_hides_its_sample_wherever_a_word_may_stand() {
    for rule in RULES {
        for start in rule.starts {
            let key = format!("{start}{}", rule.body_sample);
            for (before, after) in [
                ("", ""),
                ("key ", " is"),
                ("(", ")"),
                ("\"", "\""),
                ("a=", ";"),
                ("https://host/", "/path"),
                ("x-", "\n"),
                ("line\\n", "\\n"),
                ("\\u001b", " "),
                ("\\u001b[31m", "\\u001b[0m"),
                ("%22", "%22"),
                ("\u{1b}[1;31m", "\u{1b}[0m"),
                ("日本", "日本"),
            ] {
                check_hidden(rule, before, &key, after);
            }
        }
    }
}

#[test]
fn every_row_keeps_its_look_alikes() {
    for rule in RULES {
        for kept in rule.keeps {
            assert_eq!(Redactor::default().redact(kept), *kept, "by {}", rule.kind);
        }
    }
}

#[test]
fn every_row_needs_its_least_length() {
    for rule in RULES {
        for start in rule.starts {
            let short: String = rule.body_sample.chars().take(rule.least - 1).collect();
            let text = format!("{start}{short}");
            let is_another_row = RULES
                .iter()
                .any(|other| other.starts.iter().any(|other| text.starts_with(other) && other != start));
            if !is_another_row {
                assert_eq!(
                    Redactor::default().redact(&text),
                    text,
                    "{} is shorter than {}",
                    text,
                    rule.least
                );
            }
        }
    }
}

#[test]
fn no_key_is_shorter_than_the_shortest() {
    for rule in RULES {
        for start in rule.starts {
            assert!(start.len() + rule.least >= SHORTEST_KEY, "{start}");
        }
    }
}

#[test]
fn a_longer_beginning_stands_before_a_shorter_one() {
    let starts: Vec<&str> = RULES.iter().flat_map(|rule| rule.starts).copied().collect();
    for (index, start) in starts.iter().enumerate() {
        let shadow = starts[..index].iter().find(|earlier| start.starts_with(**earlier));
        assert_eq!(shadow, None, "{start} would never be tried");
    }
}

#[test]
fn a_full_stop_behind_a_key_stays() {
    let rule = &RULES[1];
    check_hidden(rule, "It is ", "sk-aB3dE5gH7jK9mN1pQ", ". Keep it.");
}

#[test]
fn several_keys_in_one_run_are_all_hidden() {
    let key = format!("ghp_{}", "0123456789ab");
    let shown = Redactor::default().redact(&format!("{key}-{key}.{key}")).into_owned();
    assert_eq!(shown, "[redacted:github-token]-[redacted:github-token].[redacted:github-token]");
}
