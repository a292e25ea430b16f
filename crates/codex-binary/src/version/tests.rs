use super::{MINIMUM, Support, TESTED, Version};

fn release(major: u32, minor: u32, patch: u32) -> Version {
    Version { major, minor, patch, pre_release: false }
}

// peer: C9
#[test]
fn the_version_is_read_from_what_codex_prints() {
    let check = |output: &str, expected: Version| {
        assert_eq!(Version::parse_cli_output(output), Some(expected), "{output:?}");
    };
    check("codex-cli 0.130.0", release(0, 130, 0));
    check("codex-cli 0.166.0\n", release(0, 166, 0));
    check("codex 99.0.1\n", release(99, 0, 1));
    check("codex-cli 0.130.0+build.7 (abc1234 2026-01-02)", release(0, 130, 0));
    check("codex-cli v0.130.0, built today", release(0, 130, 0));
    check("warning: something\ncodex-cli 0.166.0\n", release(0, 166, 0));
    check("codex-cli 0.167.0-alpha.3", Version { pre_release: true, ..release(0, 167, 0) });
}

// peer: C10
#[test]
fn output_without_a_version_gives_none() {
    for output in
        ["", "\n", "nope", "codex-cli", "1.2", "codex 1.2.x", "127.0.0.1", "0.1.2rc", "99999999999.0.0"]
    {
        assert_eq!(Version::parse_cli_output(output), None, "{output:?}");
    }
}

#[test]
fn the_version_is_read_from_the_user_agent() {
    let check = |agent: &str, expected: Option<Version>| {
        assert_eq!(Version::parse_user_agent(agent), expected, "{agent:?}");
    };
    check("codex_bridge/0.166.0 (Debian 12; x86_64) dumb (codex_bridge; 0.1.0)", Some(release(0, 166, 0)));
    check("My App/Beta/0.167.1 (Mac OS)", Some(release(0, 167, 1)));
    check("name/0.170.0-alpha.1 (x)", Some(Version { pre_release: true, ..release(0, 170, 0) }));
    check("name 0.166.0", None);
    check("name/", None);
    check("", None);
}

#[test]
fn a_pre_release_counts_as_below_its_release() {
    let pre = Version { pre_release: true, ..MINIMUM };
    assert!(pre < MINIMUM);
    assert!(pre > release(0, 165, 9));
    assert_eq!(pre.support(), Support::Older);
    assert_eq!(pre.to_string(), "0.166.0-pre");
}

#[test]
fn only_the_range_between_minimum_and_tested_is_supported() {
    assert_eq!(MINIMUM.support(), Support::Supported);
    assert_eq!(TESTED.support(), Support::Supported);
    assert_eq!(release(0, 165, 99).support(), Support::Older);
    assert_eq!(release(0, TESTED.minor, TESTED.patch + 1).support(), Support::Newer);
    assert_eq!(release(1, 0, 0).support(), Support::Newer);
    assert_eq!(Version { pre_release: true, ..release(0, 167, 0) }.support(), Support::Newer);
}
