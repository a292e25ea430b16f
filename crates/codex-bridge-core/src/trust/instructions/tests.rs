use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::*;

/// How often a race is tried: without `NOFOLLOW` on the file or on the directories it is lost well before.
const ROUNDS: u32 = 5000;

/// A directory of its own, by its real path.
fn top() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    (dir, top)
}

fn text_of(dir: &Path) -> Option<String> {
    instructions_of(dir).text
}

/// Nothing counts, and the one thing that was found is told with this reason.
#[track_caller]
fn assert_left_out(dir: &Path, why: &str) {
    let found = instructions_of(dir);
    assert_eq!(found.text, None, "{why}");
    let [told] = found.left_out.as_slice() else { panic!("{why}: {:?}", found.left_out) };
    assert!(told.contains("AGENTS.md does not count: ") && told.contains(why), "{told}");
}

#[test]
fn files_from_the_root_of_the_repository_down_count_and_none_above_it() {
    let (_dir, top) = top();
    let work = top.join("repo/sub");
    fs::create_dir_all(&work).unwrap();
    fs::create_dir(top.join("repo/.git")).unwrap();
    for (file, text) in [
        ("AGENTS.md", "of nobody"),
        ("repo/AGENTS.md", "of the repository"),
        ("repo/sub/AGENTS.md", "overridden"),
        ("repo/sub/AGENTS.override.md", "of the part"),
    ] {
        fs::write(top.join(file), text).unwrap();
    }
    let text = text_of(&work).unwrap();
    let (first, second) = (text.find("of the repository").unwrap(), text.find("of the part").unwrap());
    assert!(first < second && !text.contains("of nobody") && !text.contains("overridden"), "{text}");
    assert!(!text_of(&top.join("repo/.git")).unwrap().contains("part"));
    assert_eq!(instructions_of(&work).left_out, Vec::<String>::new());
}

#[test]
fn what_is_no_plain_file_does_not_count_and_is_told() {
    let (_dir, top) = top();
    let (secret, file) = (top.join("secret"), top.join("AGENTS.md"));
    assert_eq!(instructions_of(&top), Instructions::default(), "nothing is there");
    fs::write(&secret, "a secret").unwrap();
    symlink(&secret, &file).unwrap();
    assert_left_out(&top, "it is a link");
    fs::remove_file(&file).unwrap();
    fs::hard_link(&secret, &file).unwrap();
    assert_left_out(&top, "several names");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_left_out(&top, "not a plain file");
}

#[test]
fn a_pipe_that_nobody_writes_keeps_nobody_waiting() {
    let (_dir, top) = top();
    let file = top.join("AGENTS.md");
    rustix::fs::mknodat(CWD, &file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let (done, ended) = std::sync::mpsc::channel();
    let dir = top.clone();
    std::thread::spawn(move || done.send(instructions_of(&dir)));
    let found = ended.recv_timeout(Duration::from_secs(20)).expect("it hangs");
    assert!(found.text.is_none() && found.left_out[0].contains("not a plain file"), "{found:?}");
}

#[test]
fn a_link_among_the_directories_is_not_followed() {
    let (_dir, top) = top();
    fs::create_dir_all(top.join("repo/real")).unwrap();
    fs::create_dir_all(top.join("elsewhere/sub")).unwrap();
    fs::write(top.join("elsewhere/AGENTS.md"), "of elsewhere").unwrap();
    fs::write(top.join("elsewhere/sub/AGENTS.md"), "of elsewhere").unwrap();
    symlink(top.join("elsewhere"), top.join("repo/link")).unwrap();
    for dir in ["repo/link", "repo/link/sub"] {
        let found = instructions_of(&top.join(dir));
        assert_eq!(found.text, None, "{dir}");
        assert!(found.left_out[0].starts_with("the instructions in "), "{found:?}");
    }
    assert!(instructions_of(&top.join("repo/../elsewhere")).text.is_none(), "no real path");
}

#[test]
fn what_is_too_long_is_cut_at_a_character_and_that_is_told() {
    let (_dir, top) = top();
    fs::create_dir_all(top.join("sub")).unwrap();
    fs::create_dir(top.join(".git")).unwrap();
    // A character of two bytes lies across the end of what is read.
    fs::write(top.join("AGENTS.md"), format!("x{}", "ü".repeat(50_000))).unwrap();
    fs::write(top.join("sub/AGENTS.md"), "of the part").unwrap();
    let found = instructions_of(&top.join("sub"));
    let text = found.text.unwrap();
    assert!(text.len() < 34 * 1024 && !text.contains('\u{fffd}'), "{}", text.len());
    assert!(text.contains("[The rest of this file is left out: 32767 of 100001 bytes.]"));
    assert_eq!(found.left_out.len(), 2, "{:?}", found.left_out);
    assert!(found.left_out[0].contains("first 32767 of 100001 bytes count"), "{:?}", found.left_out);
    assert!(
        found.left_out[1].contains("sub/AGENTS.md is too long: its first 1 of 11"),
        "{:?}",
        found.left_out
    );
}

#[test]
fn a_huge_hole_is_neither_read_nor_sent() {
    let (_dir, top) = top();
    let file = fs::File::create(top.join("AGENTS.md")).unwrap();
    file.set_len(1 << 30).unwrap();
    let began = Instant::now();
    assert_left_out(&top, "it is not text");
    assert!(began.elapsed() < Duration::from_secs(5), "not all of it was read");
}

#[test]
fn bytes_that_are_no_text_are_marked() {
    let (_dir, top) = top();
    fs::write(top.join("AGENTS.md"), b"be \xff brief").unwrap();
    assert!(text_of(&top).unwrap().ends_with("be \u{fffd} brief"));
}

#[test]
fn a_file_of_another_user_does_not_count() {
    let (_dir, top) = top();
    fs::create_dir_all(top.join("mine")).unwrap();
    fs::create_dir(top.join(".git")).unwrap();
    fs::write(top.join("AGENTS.md"), "of a stranger").unwrap();
    let found = File::open(top.join("AGENTS.md")).unwrap().metadata().unwrap();
    let (own, other) = (found.uid(), found.uid() + 1);
    assert_eq!(check_file(&found, Some(own)), Ok(()));
    let refused =
        if own == 0 { Ok(()) } else { Err("it belongs to another user than the directory of the task") };
    assert_eq!(check_file(&found, Some(other)), refused, "what belongs to root counts everywhere");
    // Only root can give files away.
    if own == 0 {
        std::os::unix::fs::chown(top.join("AGENTS.md"), Some(4711), None).unwrap();
        assert_left_out(&top.join("mine"), "another user");
        std::os::unix::fs::chown(top.join("mine"), Some(4711), None).unwrap();
        assert!(text_of(&top.join("mine")).unwrap().contains("of a stranger"), "the owner of both");
    }
}

#[test]
fn whoever_swaps_files_and_directories_while_they_are_read_gets_no_secret_out() {
    let (_dir, top) = top();
    let (repo, secrets) = (top.join("repo"), top.join("secrets"));
    fs::create_dir_all(repo.join("sub")).unwrap();
    fs::create_dir_all(&secrets).unwrap();
    fs::create_dir(repo.join(".git")).unwrap();
    fs::write(secrets.join("AGENTS.md"), "THE-SECRET").unwrap();
    fs::write(repo.join("sub/plain"), "harmless").unwrap();
    symlink(secrets.join("AGENTS.md"), repo.join("sub/link")).unwrap();
    symlink(&secrets, repo.join("links")).unwrap();
    let is_done = AtomicBool::new(false);
    let (mut read, mut refused, mut leaked) = (0, 0, None);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let sub = repo.join("sub");
            while !is_done.load(Ordering::Relaxed) {
                // The file: plain, then a link. The directory: itself, then a link.
                fs::copy(sub.join("plain"), sub.join("new")).unwrap();
                fs::rename(sub.join("new"), sub.join("AGENTS.md")).unwrap();
                symlink(secrets.join("AGENTS.md"), sub.join("new")).unwrap();
                fs::rename(sub.join("new"), sub.join("AGENTS.md")).unwrap();
                fs::rename(&sub, repo.join("away")).unwrap();
                fs::rename(repo.join("links"), &sub).unwrap();
                fs::rename(&sub, repo.join("links")).unwrap();
                fs::rename(repo.join("away"), &sub).unwrap();
            }
        });
        let began = Instant::now();
        // Until both were met often enough to mean something.
        while leaked.is_none()
            && (read < ROUNDS || refused < ROUNDS)
            && began.elapsed() < Duration::from_mins(1)
        {
            let found = instructions_of(&repo.join("sub"));
            leaked = found.text.clone().filter(|text| text.contains("THE-SECRET"));
            read += u32::from(found.text.is_some());
            refused += u32::from(!found.left_out.is_empty());
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert_eq!(leaked, None);
    assert!(read >= ROUNDS && refused >= ROUNDS, "{read} read, {refused} refused");
}
