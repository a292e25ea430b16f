use std::path::PathBuf;

use codex_session::{ApprovalMode, Escalations, Sandbox};

use super::{Profile, Rule, Rules};
use crate::desk::calls::{Door, Start};
use crate::place::ProtectedDirs;
use crate::task::{EscalationRule, Settings};

fn standard() -> Rules {
    let protected = ProtectedDirs { user_home: Some("/usr".into()), ..ProtectedDirs::default() };
    Rules { codex_home: Some("/usr".into()), protected, ..Rules::default() }
}

fn start(door: Door) -> Start {
    Start { door, caller_cwd: Some("/etc".into()), prompt: "look around".to_owned(), ..Start::default() }
}

/// The rule that refuses it.
#[track_caller]
fn refused(rules: &Rules, start: Start) -> Rule {
    let refusal = rules.admit(start, "somebody").expect_err("it is refused");
    assert!(!refusal.hint.is_empty(), "{refusal:?} says what to do");
    refusal.rule
}

#[test]
fn the_defaults_are_the_safe_ones() {
    let new = standard().admit(start(Door::Cli), "somebody").unwrap();
    assert_eq!(new.settings.sandbox, Sandbox::ReadOnly);
    assert_eq!(new.settings.approval_policy, ApprovalMode::Untrusted);
    assert_eq!(new.settings.cwd, PathBuf::from("/etc"));
    assert_eq!(new.settings.codex_home, None);
}

#[test]
fn wishes_to_leave_the_sandbox_are_for_people_at_the_command_line_and_no_caller_can_choose() {
    let profile = Profile { escalations: Some(Escalations::Ask), agents: true, ..Profile::default() };
    let file = Rules {
        profiles: [("open".to_owned(), profile)].into(),
        roots: Some(vec!["/etc".into()]),
        ..standard()
    };
    for (door, of_origin) in [
        (Door::Cli, Escalations::Ask),
        (Door::Agent, Escalations::Decline),
        (Door::Remote, Escalations::Decline),
    ] {
        let call = || Start { cwd: Some("/etc".into()), ..start(door) };
        let admitted = |call| file.admit(call, "somebody").unwrap().settings.escalations;
        assert_eq!(admitted(call()), EscalationRule { of_profile: None, of_origin });
        let with_profile = Start { profile: Some("open".to_owned()), ..call() };
        assert_eq!(admitted(with_profile), EscalationRule { of_profile: Some(Escalations::Ask), of_origin });
    }
}

#[test]
fn empty_words_mean_the_default() {
    let blank = || Some(String::new());
    let call = Start {
        cwd: Some("".into()),
        sandbox: blank(),
        approval_policy: Some("  ".to_owned()),
        model: blank(),
        profile: blank(),
        codex_home: Some("".into()),
        notify_target: blank(),
        ..start(Door::Agent)
    };
    let new = standard().admit(call, "somebody").unwrap();
    assert_eq!(new.settings.sandbox, Sandbox::ReadOnly);
    assert_eq!((new.settings.model, new.notify_target), (None, None));
}

#[test]
fn instructions_are_taken_unless_they_are_long_or_have_a_secret() {
    let rules = standard();
    let with = |text: &str| Start { developer_instructions: Some(text.to_owned()), ..start(Door::Agent) };
    let taken = |text: &str| rules.admit(with(text), "somebody").unwrap().settings.developer_instructions;
    assert_eq!(taken("Be brief.").as_deref(), Some("Be brief."));
    assert_eq!(taken(" "), None);
    assert_eq!(refused(&rules, with(&"x".repeat(64 * 1024 + 1))), Rule::InstructionsRefused);
    assert_eq!(
        refused(&rules, with(&format!("key sk-proj-{}", "a1B2".repeat(12)))),
        Rule::InstructionsRefused
    );
}

#[test]
fn what_is_dangerous_or_unknown_is_refused_from_every_door() {
    let rules = standard();
    for door in [Door::Cli, Door::Agent] {
        let with_sandbox = |name: &str| Start { sandbox: Some(name.to_owned()), ..start(door) };
        let with_policy = |name: &str| Start { approval_policy: Some(name.to_owned()), ..start(door) };
        assert_eq!(refused(&rules, with_sandbox("danger-full-access")), Rule::SandboxRefused);
        assert_eq!(refused(&rules, with_sandbox("Read-Only")), Rule::UnknownSandbox);
        assert_eq!(refused(&rules, with_policy("never")), Rule::ApprovalPolicyRefused);
        assert_eq!(refused(&rules, with_policy("on-failure")), Rule::UnknownApprovalPolicy);
        assert_eq!(
            refused(&rules, Start { codex_home: Some("/tmp".into()), ..start(door) }),
            Rule::HomeNotListed
        );
        assert_eq!(
            refused(&rules, Start { profile: Some("open".to_owned()), ..start(door) }),
            Rule::UnknownProfile
        );
    }
}

#[test]
fn a_directory_must_be_there() {
    let rules = standard();
    for cwd in ["/no/such/place", "/etc/hostname"] {
        assert_eq!(refused(&rules, Start { cwd: Some(cwd.into()), ..start(Door::Cli) }), Rule::BadCwd);
    }
    let nowhere = Start { caller_cwd: None, ..start(Door::Cli) };
    assert_eq!(refused(&rules, nowhere.clone()), Rule::BadCwd);
    assert_eq!(refused(&rules, Start { cwd: Some("here".into()), ..nowhere }), Rule::BadCwd);
}

#[test]
fn agents_are_held_to_the_roots() {
    let elsewhere = |door| Start { cwd: Some("/var".into()), ..start(door) };
    let rules = standard();
    assert!(rules.admit(elsewhere(Door::Cli), "somebody").is_ok());
    assert_eq!(refused(&rules, elsewhere(Door::Agent)), Rule::CwdOutsideRoots);
    assert!(rules.admit(Start { cwd: Some("/usr/bin".into()), ..start(Door::Agent) }, "somebody").is_ok());
    assert!(rules.admit(start(Door::Agent), "somebody").is_ok(), "where the agent itself runs");
    assert_eq!(
        refused(&rules, Start { cwd: Some("../var".into()), ..start(Door::Agent) }),
        Rule::CwdOutsideRoots
    );

    let configured = Rules { roots: Some(vec!["/var".into()]), ..standard() };
    assert!(configured.admit(elsewhere(Door::Agent), "somebody").is_ok());
    assert_eq!(refused(&configured, start(Door::Agent)), Rule::CwdOutsideRoots);
}

#[test]
fn hidden_directories_of_the_home_are_written_by_people_alone() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path().canonicalize().unwrap();
    let hidden = home.join(".config/fish");
    std::fs::create_dir_all(&hidden).unwrap();
    let with = |roots| {
        let mut rules = Rules { roots, ..standard() };
        rules.protected.user_home = Some(home.clone());
        rules
    };
    let writing = |door, sandbox: &str| Start {
        cwd: Some(hidden.clone()),
        sandbox: Some(sandbox.to_owned()),
        ..start(door)
    };
    let code = |roots: Option<Vec<PathBuf>>, door, sandbox| {
        with(roots).admit(writing(door, sandbox), "somebody").err().map(|refusal| refusal.rule)
    };
    assert_eq!(code(None, Door::Cli, "workspace-write"), None);
    assert_eq!(code(None, Door::Agent, "read-only"), None);
    assert_eq!(code(None, Door::Agent, "workspace-write"), Some(Rule::CwdProtected));
    let roots = || Some(vec![home.clone()]);
    assert_eq!(code(roots(), Door::Remote, "workspace-write"), Some(Rule::CwdProtected));
    let named = || Some(vec![home.join(".config")]);
    assert_eq!(code(named(), Door::Agent, "workspace-write"), None, "the operator said so");
}

#[test]
fn programs_that_run_outside_of_the_sandbox_are_not_written_by_tasks() {
    let mut rules = Rules { roots: Some(vec!["/usr".into()]), ..standard() };
    rules.protected = ProtectedDirs { tools: vec!["/usr/bin".into()], ..ProtectedDirs::default() };
    let wanted = |door, sandbox: &str| Start {
        cwd: Some("/usr/bin".into()),
        sandbox: Some(sandbox.to_owned()),
        ..start(door)
    };
    assert_eq!(refused(&rules, wanted(Door::Agent, "workspace-write")), Rule::CwdProtected);
    assert!(rules.admit(wanted(Door::Remote, "read-only"), "somebody").is_ok());
    let person = rules.admit(wanted(Door::Cli, "workspace-write"), "somebody").unwrap().settings;
    assert_eq!(person.sandbox, Sandbox::ReadOnly);
    assert!(person.narrowed.unwrap().contains("outside of any sandbox"));
}

#[test]
fn a_home_is_taken_only_if_the_operator_lists_it() {
    let rules = Rules { other_homes: vec!["/var".into()], ..standard() };
    let named = |home: &str| Start { codex_home: Some(home.into()), ..start(Door::Agent) };
    assert_eq!(rules.admit(named("/var"), "somebody").unwrap().settings.codex_home, Some("/var".into()));
    assert_eq!(rules.admit(named("/usr"), "somebody").unwrap().settings.codex_home, None, "the daemon's own");
    assert_eq!(refused(&rules, named("/etc")), Rule::HomeNotListed);
}

#[test]
fn only_the_operators_profile_goes_beyond() {
    let open = Profile {
        sandbox: Some(Sandbox::DangerFullAccess),
        approval_policy: Some(ApprovalMode::Never),
        ..Profile::default()
    };
    let for_agents = Profile { agents: true, ..open.clone() };
    let profiles = [("mine".to_owned(), open), ("theirs".to_owned(), for_agents)].into();
    let rules = Rules { profiles, ..standard() };
    let with = |door, profile: &str| Start { profile: Some(profile.to_owned()), ..start(door) };
    let admitted = rules.admit(with(Door::Cli, "mine"), "somebody").unwrap().settings;
    assert_eq!(
        (admitted.sandbox, admitted.approval_policy),
        (Sandbox::DangerFullAccess, ApprovalMode::Never)
    );
    assert_eq!(refused(&rules, with(Door::Agent, "mine")), Rule::ProfileRefused);
    assert_eq!(
        rules.admit(with(Door::Agent, "theirs"), "somebody").unwrap().settings.sandbox,
        Sandbox::DangerFullAccess
    );
}

#[test]
fn a_remote_caller_goes_on_only_with_what_it_could_have_begun() {
    let settings = |cwd: &str, sandbox, approval_policy| {
        let new = standard().admit(start(Door::Cli), "somebody").unwrap();
        Settings { cwd: cwd.into(), sandbox, approval_policy, ..new.settings }
    };
    let plain = settings("/usr/lib", Sandbox::WorkspaceWrite, ApprovalMode::OnRequest);
    let free = settings("/usr/lib", Sandbox::DangerFullAccess, ApprovalMode::Never);
    let code = |rules: &Rules, settings: &Settings| {
        rules.admit_again(settings, Door::Remote).err().map(|refusal| refusal.rule)
    };
    assert_eq!(code(&standard(), &plain), Some(Rule::NoRoots));
    assert!(standard().admit_again(&plain, Door::Agent).is_ok(), "wherever it runs");
    let mut file = Rules { roots: Some(vec!["/usr".into()]), ..standard() };
    assert_eq!(code(&file, &plain), None);
    let elsewhere = settings("/etc", Sandbox::ReadOnly, ApprovalMode::Untrusted);
    assert_eq!(code(&file, &elsewhere), Some(Rule::CwdOutsideRoots));
    let unasked = settings("/usr/lib", Sandbox::ReadOnly, ApprovalMode::Never);
    for beyond in [&free, &unasked] {
        assert_eq!(code(&file, beyond), Some(Rule::BeyondReach));
    }
    let online = Settings { network: true, ..plain.clone() };
    let wide = Settings { writable_roots: vec!["/srv".into()], ..plain.clone() };
    for beyond in [&online, &wide] {
        assert_eq!(code(&file, beyond), Some(Rule::BeyondReach));
    }
    let open =
        Profile { network: true, writable_roots: vec!["/srv".into()], agents: true, ..Profile::default() };
    let mut with_profile = file.clone();
    with_profile.profiles.insert("open".to_owned(), open);
    for given in [&online, &wide] {
        assert_eq!(code(&with_profile, given), None);
    }
    let container = |agents| Profile {
        sandbox: Some(Sandbox::DangerFullAccess),
        approval_policy: Some(ApprovalMode::Never),
        agents,
        ..Profile::default()
    };
    file.profiles.insert("container".to_owned(), container(false));
    assert_eq!(code(&file, &free), Some(Rule::BeyondReach), "not for agents");
    file.profiles.insert("container".to_owned(), container(true));
    assert_eq!(code(&file, &free), None);
}
