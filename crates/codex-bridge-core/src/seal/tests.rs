use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use tempfile::TempDir;

use super::{Error, Key};

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    (folder, file)
}

#[test]
fn what_is_sealed_opens_with_the_same_key_for_the_same_purpose() {
    let (_folder, file) = place();
    let key = Key::load_or_create(&file).unwrap();
    for text in [&b""[..], b"hello", &vec![0xff; 100_000]] {
        let sealed = key.seal(text, "prompt of codex-1").unwrap();
        assert_eq!(key.open(&sealed, "prompt of codex-1").unwrap(), text);
        let again = Key::load_or_create(&file).unwrap();
        assert_eq!(again.open(&sealed, "prompt of codex-1").unwrap(), text);
    }
}

#[test]
fn what_is_sealed_does_not_open_with_another_key_or_for_another_purpose() {
    let (_folder, file) = place();
    let (_other_folder, other_file) = place();
    let key = Key::load_or_create(&file).unwrap();
    let other = Key::load_or_create(&other_file).unwrap();
    let sealed = key.seal(b"hello", "a").unwrap();
    assert!(matches!(other.open(&sealed, "a"), Err(Error::Closed)));
    assert!(matches!(key.open(&sealed, "b"), Err(Error::Closed)));
}

#[test]
fn what_was_changed_or_cut_does_not_open() {
    let (_folder, file) = place();
    let key = Key::load_or_create(&file).unwrap();
    let sealed = key.seal(b"hello", "a").unwrap();
    for at in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        assert!(matches!(key.open(&changed, "a"), Err(Error::Closed)), "byte {at}");
        assert!(matches!(key.open(&sealed[..at], "a"), Err(Error::Closed)), "cut at {at}");
    }
}

#[test]
fn the_text_is_not_to_be_seen_and_never_sealed_alike() {
    let (_folder, file) = place();
    let key = Key::load_or_create(&file).unwrap();
    let secret = b"sk-very-secret-very-secret";
    let (one, two) = (key.seal(secret, "a").unwrap(), key.seal(secret, "a").unwrap());
    assert_ne!(one, two);
    assert!(!one.windows(8).any(|part| secret.windows(8).any(|known| known == part)));
    let bytes = fs::read(&file).unwrap();
    let shown = format!("{key:?}");
    assert_eq!(shown, "Key { .. }");
    assert!(!one.windows(8).any(|part| bytes.windows(8).any(|known| known == part)));
}

#[test]
fn a_new_key_is_private_random_and_left_alone_in_its_folder() {
    let (folder, file) = place();
    Key::load_or_create(&file).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let (_other_folder, other) = place();
    Key::load_or_create(&other).unwrap();
    assert_ne!(fs::read(file).unwrap(), fs::read(other).unwrap());
}

#[test]
fn many_who_create_at_once_have_one_key() {
    let (folder, file) = place();
    let keys: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| Key::load_or_create(&file).unwrap())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let sealed = keys[0].seal(b"hello", "a").unwrap();
    assert!(keys.iter().all(|key| key.open(&sealed, "a").is_ok()));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_key_that_others_can_read_is_refused_with_what_to_do() {
    let (_folder, file) = place();
    Key::load_or_create(&file).unwrap();
    for mode in [0o640, 0o604, 0o620, 0o601] {
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        let error = Key::load_or_create(&file).unwrap_err();
        assert!(matches!(error, Error::Exposed(_)), "{mode:o}: {error}");
        assert!(error.to_string().contains("chmod 600"), "{error}");
    }
}

#[test]
fn a_file_that_is_no_key_is_refused_and_kept() {
    let (_folder, file) = place();
    for bytes in [0, 31, 33, 1000] {
        fs::write(&file, vec![7; bytes]).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        assert!(matches!(Key::load_or_create(&file), Err(Error::NotAKey(_))), "{bytes}");
        assert_eq!(fs::read(&file).unwrap(), vec![7; bytes]);
    }
}

#[test]
fn a_key_that_cannot_be_made_names_its_place() {
    let (folder, _) = place();
    let error = Key::load_or_create(&folder.path().join("no/such/folder/key")).unwrap_err().to_string();
    assert!(error.contains("no/such/folder/key"), "{error}");
}

#[test]
fn a_mark_tells_texts_apart_and_only_for_who_has_the_key() {
    let (_folder, file) = place();
    let (_other_folder, other_file) = place();
    let key = Key::load_or_create(&file).unwrap();
    let mark = key.mark(b"hello", "a").unwrap();
    assert_eq!(mark.len(), 32);
    assert_eq!(Key::load_or_create(&file).unwrap().mark(b"hello", "a").unwrap(), mark);
    assert_ne!(key.mark(b"hello!", "a").unwrap(), mark);
    assert_ne!(key.mark(b"hello", "b").unwrap(), mark);
    assert_ne!(Key::load_or_create(&other_file).unwrap().mark(b"hello", "a").unwrap(), mark);
}
