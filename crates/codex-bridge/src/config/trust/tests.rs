use super::*;

const FILE: &str = "/etc/config.toml";

fn message(text: &str) -> String {
    parse(text, Path::new(FILE)).unwrap_err().message
}

#[test]
fn a_mistake_is_one_sentence_with_its_line() {
    for (text, told) in [
        (
            "max_running = 2\n\n[trust]\n\"/srv\" = \"hostile\"\n\"work/app\" = \"trusted\"\n",
            "/etc/config.toml, line 5, \"work/app\": a directory in [trust] must be an absolute path, such as /home/me/work",
        ),
        (
            "[trust]\n\"~/app\" = \"trusted\"\n",
            "/etc/config.toml, line 2, \"~/app\": a directory in [trust] must be an absolute path, such as /home/me/work",
        ),
        (
            "[trust]\n\n\"/srv/app\" = \"full\"\n",
            "/etc/config.toml, line 3, \"/srv/app\": unknown trust level \"full\": use hostile, instructions or trusted",
        ),
        (
            "[trust]\n\"/srv/a=b\" = \"full\"\n",
            "/etc/config.toml, line 2, \"/srv/a=b\": unknown trust level \"full\": use hostile, instructions or trusted",
        ),
    ] {
        assert_eq!(message(text), told);
    }
    let kind = message("[trust]\n\"/srv/app\" = true\n");
    assert!(
        kind.starts_with("/etc/config.toml, line 2, \"/srv/app\": ") && kind.contains("boolean"),
        "{kind}"
    );
    let twice = message("[trust]\n\"/srv/app\" = \"trusted\"\n\"/srv/app\" = \"hostile\"\n");
    assert!(twice.starts_with("/etc/config.toml, line 3, \"/srv/app\": duplicate key"), "{twice}");
    let table = message("trust = \"hostile\"\n");
    assert!(table.starts_with("/etc/config.toml, line 1, \"trust\": "), "{table}");
}

#[test]
fn two_levels_for_one_directory_are_told_by_its_real_path() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    std::fs::create_dir(top.join("app")).unwrap();
    std::os::unix::fs::symlink(top.join("app"), top.join("link")).unwrap();
    let text = |level: &str| {
        let (app, link) = (top.join("app"), top.join("link"));
        format!("[trust]\n{app:?} = \"hostile\"\n{link:?} = \"{level}\"\n")
    };
    let told = message(&text("trusted"));
    assert!(told.contains("line 3") && told.ends_with("line 2 has hostile for the same directory"), "{told}");
    assert!(parse(&text("hostile"), Path::new(FILE)).is_ok(), "twice the same is no contradiction");
}

#[test]
fn a_directory_that_does_not_exist_stops_nobody() {
    let file = parse("[trust]\n\"/no/such/place\" = \"trusted\"\n", Path::new(FILE)).unwrap();
    assert_eq!(file.trusted_roots(), [("/no/such/place".into(), Trust::Trusted)].into());
    assert_eq!(problem_with(Path::new("/no/such/place")).unwrap(), "the directory does not exist");
    assert_eq!(problem_with(Path::new("/etc/hostname")).unwrap(), "this is not a directory");
    assert_eq!(
        problem_with(Path::new("/tmp"))
            .map(|told| told.contains("can write in the directory") || told.contains("uid")),
        Some(true)
    );
}

#[track_caller]
fn check(old: &str, dir: &str, level: Option<Trust>, new: &str) {
    let changed = changed(Path::new(FILE), old, Path::new(dir), level).unwrap();
    assert_eq!(changed, new, "{old:?} with {dir} {level:?}");
}

#[test]
fn an_entry_is_added_where_its_kind_stands() {
    let trusted = Some(Trust::Trusted);
    check("", "/a", trusted, "[trust]\n\"/a\" = \"trusted\"\n");
    check("max_running = 2 # few", "/a", trusted, "max_running = 2 # few\n\n[trust]\n\"/a\" = \"trusted\"\n");
    let old = "[trust] # mine\n\"/a\" = \"hostile\" # not that\n\n[env]\npass = [\"X\"]\n";
    let new =
        "[trust] # mine\n\"/a\" = \"hostile\" # not that\n\"/b\" = \"trusted\"\n\n[env]\npass = [\"X\"]\n";
    check(old, "/b", trusted, new);
    check("[trust]\n[env]\n", "/b", trusted, "[trust]\n\"/b\" = \"trusted\"\n[env]\n");
    check(
        "[trust]\n\"/a\" = \"hostile\"",
        "/b",
        trusted,
        "[trust]\n\"/a\" = \"hostile\"\n\"/b\" = \"trusted\"\n",
    );
    check(
        "trust = { \"/a\" = \"hostile\" }\n",
        "/b",
        trusted,
        "trust = { \"/a\" = \"hostile\", \"/b\" = \"trusted\" }\n",
    );
    check(
        "trust.\"/a\" = \"hostile\"\nmax_running = 2\n",
        "/b",
        trusted,
        "trust.\"/a\" = \"hostile\"\ntrust.\"/b\" = \"trusted\"\nmax_running = 2\n",
    );
    check("", "/a \"b\"\\\n=#", trusted, "[trust]\n\"/a \\\"b\\\"\\\\\\n=#\" = \"trusted\"\n");
}

#[test]
fn an_entry_is_changed_in_its_place() {
    check(
        "[trust]\n'/a' = 'hostile' # careful\n\"/b\" = \"trusted\"\n",
        "/a",
        Some(Trust::Instructions),
        "[trust]\n'/a' = \"instructions\" # careful\n\"/b\" = \"trusted\"\n",
    );
    check("trust = {\"/a\" = \"hostile\"}\n", "/a", Some(Trust::Trusted), "trust = {\"/a\" = \"trusted\"}\n");
}

#[test]
fn an_entry_is_taken_out_with_its_line() {
    let old = "# top\n[trust]\n\"/a\" = \"hostile\" # why\n# of b\n\"/b\" = \"trusted\"\n\n[env]\n";
    check(old, "/a", None, "# top\n[trust]\n# of b\n\"/b\" = \"trusted\"\n\n[env]\n");
    check("[trust]\n\"/a\" = \"hostile\"\n", "/a", None, "[trust]\n");
    let inline = "trust = { \"/a\" = \"hostile\", \"/b\" = \"trusted\" }\n";
    check(inline, "/a", None, "trust = {  \"/b\" = \"trusted\" }\n");
    check(inline, "/b", None, "trust = { \"/a\" = \"hostile\" }\n");
}

#[test]
fn a_file_that_is_wrong_already_is_left_as_it_is() {
    let told =
        changed(Path::new(FILE), "max_runing = 1\n", Path::new("/a"), Some(Trust::Hostile)).unwrap_err();
    assert!(told.message.contains("line 1, \"max_runing\""), "{}", told.message);
}

#[test]
fn all_names_of_one_directory_are_changed_together() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    let link = top.join("link");
    std::os::unix::fs::symlink(&top, &link).unwrap();
    let old = format!("[trust]\n{top:?} = \"hostile\"\n{link:?} = \"hostile\"\n");
    let new = changed(Path::new(FILE), &old, &top, Some(Trust::Trusted)).unwrap();
    assert_eq!(new, old.replace("hostile", "trusted"));
    assert_eq!(changed(Path::new(FILE), &old, &top, None).unwrap(), "[trust]\n");
}
