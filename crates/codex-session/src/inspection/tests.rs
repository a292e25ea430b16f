use std::os::unix::fs::symlink;

use serde_json::json;

use super::*;

/// `ws` with `sub`, beside `other` and `extra`, which the operator has made writable.
struct Disk {
    dir: tempfile::TempDir,
    dirs: WritableDirs,
}

impl Disk {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["ws/sub", "ws/.git/hooks", "other", "extra"] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        let dirs =
            WritableDirs { cwd: dir.path().join("ws"), writable_roots: vec![dir.path().join("extra")] };
        Self { dir, dirs }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    // By value: what is expected is put together where it is handed over.
    #[allow(clippy::needless_pass_by_value)]
    #[track_caller]
    fn check(&self, path: &str, expected: Option<SensitivePlace>) {
        assert_eq!(self.dirs.place_of(path), expected, "{path}");
        // Codex 0.166 names files by their whole paths.
        let whole = self.dirs.cwd.join(path);
        assert_eq!(self.dirs.place_of(whole.to_str().unwrap()), expected, "{}", whole.display());
    }
}

#[test]
fn files_of_the_task_need_no_care() {
    let disk = Disk::new();
    for path in
        ["a.txt", "sub/b.txt", "new/deep/c.txt", "./sub/../d.txt", ".gitignore", ".github/x.yml", "git/x"]
    {
        disk.check(path, None);
    }
    disk.check(&disk.path("extra/e.txt"), None);
}

#[test]
fn files_that_rule_need_care_wherever_they_lie() {
    let disk = Disk::new();
    for path in [
        ".git/config",
        ".git",
        "sub/.git/hooks/pre-commit",
        "sub/.codex/x",
        ".codex/config.toml",
        "new/.agents/skills/x",
        "sub/.GIT/config",
        "sub/../.git/config",
    ] {
        disk.check(path, Some(SensitivePlace::ControlDir));
    }
    disk.check(&disk.path("extra/.git/config"), Some(SensitivePlace::ControlDir));
    // A link within the directory hides nothing.
    symlink(".git", disk.dirs.cwd.join("settings")).unwrap();
    disk.check("settings/config", Some(SensitivePlace::ControlDir));
}

#[test]
fn a_directory_that_itself_lies_in_a_ruling_one_is_the_tasks_own() {
    let dir = tempfile::tempdir().unwrap();
    let cwd = dir.path().join(".codex/worktrees/one");
    std::fs::create_dir_all(&cwd).unwrap();
    let dirs = WritableDirs { cwd, writable_roots: Vec::new() };
    assert_eq!(dirs.place_of("a.txt"), None);
    assert_eq!(dirs.place_of(".codex/a.txt"), Some(SensitivePlace::ControlDir));
}

#[test]
fn files_outside_need_care_also_through_links() {
    let disk = Disk::new();
    for path in ["../outside", "../ws2/x", "sub/../../other/x", "/etc/hosts"] {
        disk.check(path, Some(SensitivePlace::Outside));
    }
    let ws = &disk.dirs.cwd;
    symlink("../other", ws.join("link")).unwrap();
    symlink(disk.path("other/none/yet"), ws.join("dangling")).unwrap();
    symlink("chained2", ws.join("chained1")).unwrap();
    symlink("../other/new", ws.join("chained2")).unwrap();
    let through = |name: &str| {
        let real = disk.dir.path().canonicalize().unwrap().join(name);
        Some(SensitivePlace::ThroughLink(real.to_str().unwrap().to_owned()))
    };
    disk.check("link/x", through("other/x"));
    disk.check("link/new/deep/x", through("other/new/deep/x"));
    // Whoever writes to a link that leads nowhere makes the file there.
    disk.check("dangling", through("other/none/yet"));
    disk.check("chained1", through("other/new"));
    // A link that leads to itself leads nowhere.
    symlink("loop", ws.join("loop")).unwrap();
    disk.check("loop", None);
}

#[test]
fn a_directory_that_is_reached_by_a_link_is_the_same() {
    let disk = Disk::new();
    symlink("ws", disk.dir.path().join("alias")).unwrap();
    let dirs = WritableDirs { cwd: disk.dir.path().join("alias"), writable_roots: Vec::new() };
    for path in ["a.txt".to_owned(), disk.path("ws/a.txt"), disk.path("alias/a.txt")] {
        assert_eq!(dirs.place_of(&path), None, "{path}");
    }
}

fn patch(changes: serde_json::Value) -> Inspection {
    let changes: Vec<Change> = serde_json::from_value(changes).unwrap();
    of_patch(&changes, false, &Disk::new().dirs)
}

#[test]
fn a_patch_is_an_escalation_if_one_of_its_files_is_or_none_is_known() {
    let add = |path: &str| json!({"path": path, "kind": {"type": "add"}, "diff": ""});
    assert_eq!(patch(json!([add("a"), add("b")])), Inspection::default());
    assert_eq!(patch(json!([])), Inspection::unknown());
    assert_eq!(patch(json!([add("a"), "unreadable"])), Inspection::unknown());
    let found = patch(json!([add("a"), add(".git/config")]));
    assert_eq!(found.escalation, Escalation::Asked);
    assert_eq!(
        found.sensitive_files,
        [SensitiveFile { path: ".git/config".to_owned(), place: SensitivePlace::ControlDir }]
    );
    // Where a file moves to counts like where it is.
    let moved = json!([{"path": "a", "kind": {"type": "update", "move_path": "../b"}, "diff": ""}]);
    assert_eq!(
        patch(moved).sensitive_files,
        [SensitiveFile { path: "../b".to_owned(), place: SensitivePlace::Outside }]
    );
    let grants =
        of_patch(&serde_json::from_value::<Vec<Change>>(json!([add("a")])).unwrap(), true, &Disk::new().dirs);
    assert_eq!(grants.escalation, Escalation::Asked);
}

#[test]
fn what_a_command_asks_for_stands_in_its_call_unless_the_request_says_it() {
    let of = |command: CommandApproval| {
        Inspection::of_request(&ServerRequest::Command(command), None, &WritableDirs::default())
    };
    let command = CommandApproval { item_id: "c1".to_owned(), ..CommandApproval::default() };
    assert_eq!(of(command.clone()), Source::Call("c1".to_owned()));
    let asked = Source::Request(Escalation::Asked.into());
    let kind = |kind: &str| CommandApproval { kind: Some(kind.to_owned()), ..command.clone() };
    assert_eq!(of(kind("command")), Source::Call("c1".to_owned()));
    assert_eq!(of(kind("writeStdin")), asked);
    assert_eq!(of(kind("of a later Codex")), Source::Request(Inspection::unknown()));
    assert_eq!(of(CommandApproval { additional_permissions: Some(json!({})), ..command.clone() }), asked);
    assert_eq!(of(CommandApproval { network_approval_context: Some(json!({})), ..command }), asked);
}
