use super::*;

fn confinement() -> Confinement {
    Confinement {
        cwd: "/srv/repo".to_owned(),
        sandbox: Sandbox::WorkspaceWrite,
        network: false,
        writable_roots: BTreeSet::new(),
        denied: ["/srv/state".to_owned(), "/srv/codex".to_owned()].into(),
        meant_to_be_denied: ["/srv/state", "/srv/codex", "/run/later.sock"].map(str::to_owned).into(),
        guarded: BTreeSet::new(),
        project: ProjectTrust::Untrusted,
        approval_policy: "untrusted".to_owned(),
        variables: ["JAVA_HOME".to_owned()].into(),
        command_path: Some("/home/ada/bin:/usr/bin".to_owned()),
        mcp_servers_without_cwd: ["search".to_owned()].into(),
        codex_home: Some("/srv/codex".to_owned()),
        kept_profile: None,
    }
}

fn sent(confinement: &Confinement, config: &Value) -> Value {
    let config = config.as_object().cloned();
    let mut settings = ThreadSettings { config, ..ThreadSettings::default() };
    confinement.apply(&mut settings);
    serde_json::to_value(settings).unwrap()
}

/// The reply of a Codex that took everything.
fn opened(confinement: &Confinement) -> Value {
    let profile = confinement.profile_id().map(|id| json!({"id": id, "extends": ":workspace"}));
    json!({
        "thread": {"id": "t"},
        "cwd": confinement.cwd,
        "sandbox": confinement.sandbox_echo(),
        "activePermissionProfile": profile,
        "runtimeWorkspaceRoots": [confinement.cwd],
        "approvalPolicy": confinement.approval_policy,
        "approvalsReviewer": "user",
        "instructionSources": ["/srv/codex/AGENTS.md"],
    })
}

fn check(confinement: &Confinement, reply: Value) -> Result<(), Difference> {
    confinement.check_opened(&serde_json::from_value(reply).unwrap())
}

#[test]
fn everything_that_keeps_a_hostile_repository_out_is_sent() {
    let sent = serde_json::to_string_pretty(&sent(&confinement(), &json!({}))).unwrap();
    insta::assert_snapshot!(sent);
}

#[test]
fn what_a_caller_sets_is_kept_unless_it_would_widen_the_bounds() {
    let theirs = json!({
        "mcp_servers": {"docs": {"command": "docs"}},
        "features": {"hooks": true, "other": true},
        "default_permissions": ":danger-full-access",
        "allow_login_shell": true,
    });
    let config = sent(&confinement(), &theirs)["config"].clone();
    assert_eq!(config["mcp_servers"]["docs"]["command"], "docs");
    assert_eq!((&config["features"]["hooks"], &config["features"]["other"]), (&json!(false), &json!(true)));
    assert_eq!(config["default_permissions"], json!(confinement().profile_id()));
    assert_eq!(config["allow_login_shell"], json!(false));
}

#[test]
fn a_trusted_directory_keeps_what_it_brings_and_is_bounded_all_the_same() {
    let trusted =
        Confinement { project: ProjectTrust::Trusted { root: "/srv/repo".into() }, ..confinement() };
    let config = sent(&trusted, &json!({}))["config"].clone();
    assert_eq!(config["projects"]["/srv/repo"]["trust_level"], "trusted");
    for absent in ["skills", "project_root_markers"] {
        assert_eq!(config.get(absent), None);
    }
    assert_eq!(config["features"].get("hooks"), None);
    assert_eq!(config["default_permissions"], json!(trusted.profile_id()));
}

#[test]
fn without_a_sandbox_there_is_no_profile() {
    let open = Confinement { sandbox: Sandbox::DangerFullAccess, ..confinement() };
    let sent = sent(&open, &json!({}));
    assert_eq!((&sent["sandbox"], sent.get("permissions")), (&json!("danger-full-access"), None));
    assert_eq!(sent["config"].get("default_permissions"), None);
    assert_eq!(open.as_process_overrides(), Vec::<String>::new());
    assert_eq!(check(&open, opened(&open)), Ok(()));
}

#[test]
fn the_name_of_a_profile_follows_from_what_it_says() {
    let id = confinement().profile_id();
    assert_eq!(id, confinement().profile_id());
    let others = [
        Confinement { sandbox: Sandbox::ReadOnly, ..confinement() },
        Confinement { network: true, ..confinement() },
        Confinement { denied: ["/srv/state".to_owned()].into(), ..confinement() },
        Confinement { writable_roots: ["/srv/more".to_owned()].into(), ..confinement() },
        Confinement { guarded: ["/srv".to_owned()].into(), ..confinement() },
    ];
    for other in others {
        assert_ne!(id, other.profile_id(), "{other:?}");
    }
}

#[test]
fn a_turn_that_runs_keeps_its_profile_when_a_path_comes_or_goes() {
    let before = confinement();
    let mut now = Confinement { denied: ["/srv/state".to_owned()].into(), ..confinement() };
    assert_eq!(now.rules_id(), before.rules_id());
    assert_eq!(check(&now, opened(&before)).map_err(|error| error.what), Err("permission profile"));
    now.keep_profile_of(&serde_json::from_value(opened(&before)).unwrap());
    assert_eq!(check(&now, opened(&before)), Ok(()));

    let of_other_rules = Confinement { network: true, ..confinement() };
    let mut now = confinement();
    now.keep_profile_of(&serde_json::from_value(opened(&of_other_rules)).unwrap());
    assert_eq!(now, confinement(), "another rule is another matter");
}

#[test]
fn an_echo_that_differs_anywhere_is_refused_with_what_differed() {
    assert_eq!(check(&confinement(), opened(&confinement())), Ok(()));
    let cases = [
        ("/cwd", json!("/srv"), "directory"),
        ("/sandbox/networkAccess", json!(true), "sandbox"),
        ("/sandbox/writableRoots", json!(["/srv/more"]), "sandbox"),
        ("/sandbox/type", json!("dangerFullAccess"), "sandbox"),
        ("/activePermissionProfile/id", json!(":workspace"), "permission profile"),
        ("/activePermissionProfile", Value::Null, "permission profile"),
        ("/runtimeWorkspaceRoots", json!(["/srv/repo", "/etc"]), "workspace roots"),
        ("/approvalPolicy", json!("never"), "approval policy"),
        ("/approvalPolicy", json!({"granular": {}}), "approval policy"),
        ("/approvalsReviewer", json!("auto_review"), "approvals reviewer"),
        ("/instructionSources", json!(["/srv/repo/AGENTS.md"]), "instructions"),
        ("/instructionSources", json!(["/srv/codex2/AGENTS.md"]), "instructions"),
    ];
    for (place, value, what) in cases {
        let mut reply = opened(&confinement());
        *reply.pointer_mut(place).unwrap() = value;
        assert_eq!(check(&confinement(), reply).map_err(|error| error.what), Err(what), "{place}");
    }
}

#[test]
fn the_order_of_writable_directories_does_not_matter() {
    let two =
        Confinement { writable_roots: ["/srv/a".to_owned(), "/srv/b".to_owned()].into(), ..confinement() };
    let mut reply = opened(&two);
    reply["sandbox"]["writableRoots"] = json!(["/srv/b", "/srv/a"]);
    assert_eq!(check(&two, reply), Ok(()));
}

#[test]
fn the_overrides_of_a_process_are_toml() {
    let odd = Confinement { denied: ["/srv/a \"b\" é".to_owned()].into(), ..confinement() };
    let overrides = odd.as_process_overrides();
    let tables: Vec<toml::Table> = overrides.iter().map(|pair| toml::from_str(pair).unwrap()).collect();
    let id = odd.rules_id().unwrap();
    assert_eq!(tables[0]["default_permissions"].as_str(), Some(id.as_str()));
    assert_eq!(tables[1]["permissions"][&id]["filesystem"]["/srv/a \"b\" é"].as_str(), Some("deny"));
}

#[test]
fn below_a_trusted_directory_only_its_own_files_count() {
    let below = |root: &str, cwd: &str| {
        let project = ProjectTrust::Trusted { root: root.into() };
        let bounds = Confinement { cwd: cwd.to_owned(), project, ..confinement() };
        sent(&bounds, &json!({}))["config"]["projects"].clone()
    };
    let (trusted, untrusted) = (json!({"trust_level": "trusted"}), json!({"trust_level": "untrusted"}));
    assert_eq!(below("/srv/repo", "/srv/repo"), json!({"/srv/repo": trusted}));
    assert_eq!(
        below("/srv/repo", "/srv/repo/a/b"),
        json!({"/srv/repo": trusted, "/srv/repo/a": untrusted, "/srv/repo/a/b": untrusted})
    );
    assert_eq!(below("/srv/other", "/srv/repo"), json!({"/srv/repo": untrusted}), "it does not lie there");
}
