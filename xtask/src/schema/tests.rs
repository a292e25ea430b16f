use super::{BTreeMap, BUNDLE, definitions, difference, generate, json_files, replace, selected};

fn files(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

fn bundle(definitions: &str) -> String {
    format!("{{\n  \"definitions\": {{\n{definitions}  }},\n  \"title\": \"x\"\n}}\n")
}

#[test]
fn definitions_are_told_apart_by_their_indentation() {
    let text = bundle("    \"A\": {\n      \"type\": \"x\"\n    },\n    \"B\": true\n");
    let found = definitions(&text);
    assert_eq!(
        found,
        files(&[("A", "    \"A\": {\n      \"type\": \"x\"\n    }\n"), ("B", "    \"B\": true\n")])
    );
    assert!(definitions("").is_empty());
}

#[test]
fn the_difference_names_what_came_went_and_changed() {
    let one = |a: &str| format!("    \"A\": {{\n      \"type\": \"{a}\"\n    }}");
    let old = files(&[(BUNDLE, &bundle(&format!("{},\n    \"Gone\": true\n", one("x")))), ("Old.json", "")]);
    let fresh =
        files(&[(BUNDLE, &bundle(&format!("{},\n    \"Come\": true\n", one("y")))), ("New.json", "")]);
    assert_eq!(
        difference(&old, &fresh),
        format!(
            "files added (1): New.json\nfiles removed (1): Old.json\nfiles changed (1): {BUNDLE}\n\
             definitions added (1): Come\ndefinitions removed (1): Gone\ndefinitions changed (1): A\n"
        )
    );
    assert_eq!(difference(&old, &old), "the schema is unchanged\n");
    assert_eq!(difference(&BTreeMap::new(), &old), format!("files added (2): Old.json, {BUNDLE}\n"));
    let shorter = files(&[(BUNDLE, &bundle(&format!("{}\n", one("x")))), ("Old.json", "")]);
    assert_eq!(
        difference(&old, &shorter),
        format!("files changed (1): {BUNDLE}\ndefinitions removed (1): Gone\n")
    );
}

#[test]
fn the_real_codex_gives_the_bundle_the_directions_and_every_answer() {
    let folder = std::env::temp_dir().join(format!("xtask-schema-{}", std::process::id()));
    let codex = codex_binary::pinned::installed(&crate::workspace::codex()).expect("run `cargo xtask setup`");
    let kept = selected(&generate(&codex, &folder.join("aside")).unwrap()).unwrap();
    let names: Vec<_> = kept.keys().map(String::as_str).collect();
    assert_eq!(names.iter().filter(|name| name.ends_with("Response.json")).count(), 11, "{names:?}");
    assert!(names.contains(&"PermissionsRequestApprovalResponse.json"), "{names:?}");
    assert_eq!(names.len(), 15, "{names:?}");
    assert!(definitions(&kept[BUNDLE]).len() > 500, "the bundle's print has changed");
    assert!(definitions(&kept[BUNDLE]).contains_key("ThreadStartParams"));

    let into = folder.join("schema");
    replace(&into, &BTreeMap::new(), &kept).unwrap();
    std::fs::write(into.join("Stale.json"), "{}").unwrap();
    let stale = json_files(&into).unwrap();
    replace(&into, &stale, &kept).unwrap();
    assert_eq!(json_files(&into).unwrap(), kept);
    std::fs::remove_dir_all(folder).unwrap();
}
