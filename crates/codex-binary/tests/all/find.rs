//! The search: which codex is taken, and what is said about one that cannot be.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use codex_binary::{Codex, Error, Search, Support, find};
use tempfile::tempdir;

use crate::fake;

fn explicit(path: impl Into<PathBuf>) -> Result<Codex, Error> {
    find(&Search { explicit: Some(path.into()), ..Search::default() })
}

fn on_path(folders: &[&Path]) -> Search {
    Search { path: Some(std::env::join_paths(folders).unwrap()), ..Search::default() }
}

/// The error as a person reads it; it must say what to do.
fn message(result: Result<Codex, Error>) -> String {
    let message = result.unwrap_err().to_string();
    assert!(message.contains("npm i -g @openai/codex"), "no way out is named: {message}");
    assert!(!message.contains('\n'), "more than one line: {message}");
    message
}

#[test]
fn a_hoisted_platform_package_is_found_behind_the_shim() {
    let folder = tempdir().unwrap();
    let modules = folder.path().join("node_modules");
    let link = fake::shim(&modules);
    let native = fake::package(&fake::native_root(&modules), &fake::good());
    let codex = find(&on_path(&[link.parent().unwrap()])).unwrap();
    assert_eq!(codex.executable, native);
    assert_eq!(codex.package_root, Some(fake::native_root(&modules).canonicalize().unwrap()));
    assert_eq!(codex.version.support(), Support::Supported);
}

#[test]
fn a_nested_platform_package_goes_before_a_hoisted_one() {
    let folder = tempdir().unwrap();
    let modules = folder.path().join("lib/node_modules");
    let link = fake::shim(&modules);
    fake::package(&fake::native_root(&modules), "99.0.0");
    let nested = fake::native_root(&modules.join("@openai/codex/node_modules"));
    let native = fake::package(&nested, &fake::good());
    assert_eq!(explicit(link).unwrap().executable, native);
}

#[test]
fn a_global_install_is_seen_through_from_a_link_in_another_folder() {
    let folder = tempdir().unwrap();
    let modules = folder.path().join("lib/node_modules");
    fake::shim(&modules);
    let native = fake::package(&fake::native_root(&modules), &fake::good());
    fs::create_dir(folder.path().join("bin")).unwrap();
    symlink("../lib/node_modules/@openai/codex/bin/codex.js", folder.path().join("bin/codex")).unwrap();
    assert_eq!(find(&on_path(&[&folder.path().join("bin")])).unwrap().executable, native);
}

#[test]
fn a_native_binary_inside_the_shims_own_package_is_found() {
    let folder = tempdir().unwrap();
    let modules = folder.path().join("node_modules");
    let link = fake::shim(&modules);
    let vendor = fake::native_root(&modules);
    let triple = vendor.file_name().unwrap();
    let native = fake::package(&modules.join("@openai/codex/vendor").join(triple), &fake::good());
    assert_eq!(explicit(link).unwrap().executable, native);
}

#[test]
fn the_shell_wrapper_of_pnpm_is_seen_through() {
    let folder = tempdir().unwrap();
    let modules = folder.path().join("node_modules");
    let inner = modules.join(".pnpm/@openai+codex@0.166.0/node_modules");
    fake::shim(&inner);
    let native = fake::package(&fake::native_root(&inner), &fake::good());
    fs::create_dir_all(modules.join("@openai")).unwrap();
    symlink(inner.join("@openai/codex"), modules.join("@openai/codex")).unwrap();
    let wrapper = fake::script(
        &modules.join(".bin/codex"),
        "basedir=$(dirname \"$0\")\nexport NODE_PATH=\"/x/@openai/codex/bin/node_modules\"\n\
         exec node  \"$basedir/../@openai/codex/bin/codex.js\" \"$@\"",
    );
    assert_eq!(explicit(wrapper).unwrap().executable, native);
}

#[test]
fn a_shim_without_its_native_package_is_not_run() {
    let folder = tempdir().unwrap();
    let link = fake::shim(&folder.path().join("node_modules"));
    let message = message(explicit(link));
    assert!(message.contains("lacks its native package @openai/codex-"), "{message}");
}

#[test]
fn a_binary_that_stands_alone_has_no_package() {
    let folder = tempdir().unwrap();
    let executable = fake::codex(&folder.path().join("bin/codex"), "99.1.2");
    let codex = explicit(&executable).unwrap();
    assert_eq!((codex.executable, codex.package_root), (executable, None));
    assert_eq!(codex.version.support(), Support::Newer);
}

// peer: C11
#[test]
fn without_any_codex_the_error_says_how_to_get_one() {
    let empty = tempdir().unwrap();
    let text = message(find(&Search::default()));
    assert!(text.starts_with("codex was not found"), "{text}");
    let text =
        message(find(&Search { fallbacks: vec![empty.path().join("no")], ..on_path(&[empty.path()]) }));
    assert!(text.starts_with("codex was not found"), "{text}");
    let text = message(explicit(empty.path().join("no")));
    assert!(text.contains("/no is not an executable file: correct the path"), "{text}");
}

#[test]
fn a_wrong_configured_path_is_not_papered_over_by_another_codex() {
    let folder = tempdir().unwrap();
    let good = fake::codex(&folder.path().join("codex"), &fake::good());
    let search = Search {
        explicit: Some(folder.path().join("elsewhere/codex")),
        fallbacks: vec![good],
        ..on_path(&[folder.path()])
    };
    assert!(matches!(find(&search), Err(Error::ExplicitNotFound { .. })));
}

#[test]
fn a_configured_name_is_looked_for_on_the_path() {
    let folder = tempdir().unwrap();
    let executable = fake::codex(&folder.path().join("codex-nightly"), "0.200.0");
    let search = Search { explicit: Some("codex-nightly".into()), ..on_path(&[folder.path()]) };
    assert_eq!(find(&search).unwrap().executable, executable);
}

#[test]
fn what_is_not_executable_is_passed_over() {
    let folder = tempdir().unwrap();
    fs::create_dir_all(folder.path().join("a/codex")).unwrap();
    fs::create_dir(folder.path().join("b")).unwrap();
    fs::write(folder.path().join("b/codex"), "text").unwrap();
    let executable = fake::codex(&folder.path().join("c/codex"), &fake::good());
    let [a, b, c] = ["a", "b", "c"].map(|name| folder.path().join(name));
    assert_eq!(find(&on_path(&[&a, &b, &c])).unwrap().executable, executable);
}

#[test]
fn an_old_codex_on_the_path_gives_way_to_a_good_fallback() {
    let folder = tempdir().unwrap();
    fake::codex(&folder.path().join("codex"), "0.125.0");
    let good = fake::codex(&folder.path().join("own/codex"), &fake::good());
    let search = Search { fallbacks: vec![good.clone()], ..on_path(&[folder.path()]) };
    assert_eq!(find(&search).unwrap().executable, good);
    assert!(matches!(find(&on_path(&[folder.path()])), Err(Error::TooOld { .. })));
}

#[test]
fn an_old_codex_is_refused_with_both_versions() {
    let folder = tempdir().unwrap();
    for old in ["0.125.0", "0.166.0-alpha.2"] {
        let text = message(explicit(fake::codex(&folder.path().join("codex"), old)));
        let found = old.replace("alpha.2", "pre");
        assert!(text.contains(&format!("is {found}, but 0.166.0 or newer is needed: update it")), "{text}");
    }
}

#[test]
fn a_codex_that_fails_is_quoted() {
    let folder = tempdir().unwrap();
    let broken =
        fake::script(&folder.path().join("codex"), "echo first >&2; echo no such library >&2; exit 3");
    let text = message(explicit(broken));
    assert!(text.contains("--version` failed (exit status: 3, \"no such library\")"), "{text}");
}

#[test]
fn a_program_that_is_not_codex_is_recognised() {
    let folder = tempdir().unwrap();
    let other = fake::script(&folder.path().join("codex"), "echo Codex of Hammurabi");
    let text = message(explicit(other));
    assert!(text.contains("printed no version, \"Codex of Hammurabi\": is it really codex?"), "{text}");
}

#[test]
fn a_file_that_cannot_be_started_is_an_error_and_not_a_panic() {
    let folder = tempdir().unwrap();
    let broken = fake::script(&folder.path().join("codex"), "");
    fs::write(&broken, "#!/no/such/interpreter\n").unwrap();
    let text = message(explicit(broken));
    assert!(text.contains("could not be run (No such file or directory"), "{text}");
}

#[test]
fn a_flood_of_output_ends_the_program_and_not_us() {
    let folder = tempdir().unwrap();
    let flood = fake::script(&folder.path().join("codex"), "exec yes nothing to see here");
    let result = explicit(flood);
    assert!(matches!(result, Err(Error::Failed { .. })), "{result:?}");
}
