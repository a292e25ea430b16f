//! Tests of `stderr_log`.

use std::os::unix::fs::PermissionsExt;

use super::*;

fn lines_of(text: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    read_lines(BufReader::with_capacity(7, text), |line| lines.push(line));
    lines
}

fn drained(text: Vec<u8>) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stderr.log");
    Drain::start(io::Cursor::new(text), path.clone()).unwrap().finish(Duration::from_mins(1));
    (dir, path)
}

#[test]
fn lines_are_found_over_any_chunk_borders() {
    assert_eq!(lines_of(b"one\n\nthree and more\r\nno end"), ["one", "", "three and more", "no end"]);
    assert_eq!(lines_of(b""), Vec::<String>::new());
    assert_eq!(lines_of(b"\xff\xfe\n"), ["\u{fffd}\u{fffd}"]);
}

#[test]
fn an_endless_line_costs_bounded_memory_and_loses_its_broken_last_word() {
    let mut text = b"begin ".to_vec();
    text.extend(vec![b'x'; 3 * LINE_MAX_BYTES]);
    text.extend(b"\nnext\n");
    assert_eq!(lines_of(&text), ["begin [cut]", "next"]);
}

#[test]
fn a_secret_is_redacted_before_it_is_written() {
    let secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789";
    let (_dir, path) =
        drained(format!("key is {secret} there\nAuthorization: Bearer {secret}\n").into_bytes());
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("abcdefghijklmnop"), "{text}");
    assert!(text.starts_with("key is "), "{text}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_private_key_is_redacted_over_all_its_lines() {
    let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\n".repeat(20);
    let key = format!("-----BEGIN PRIVATE KEY-----\n{body}-----END PRIVATE KEY-----");
    let (_dir, path) = drained(format!("before\n{key}\nafter\n").into_bytes());
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("MIIEvQ"), "{text}");
    assert!(text.starts_with("before\n") && text.ends_with("after\n"), "{text}");
}

#[test]
fn a_quiet_stream_does_not_hold_its_last_line_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stderr.log");
    let (reader, mut writer) = io::pipe().unwrap();
    let drain = Drain::start(reader, path.clone()).unwrap();
    writer.write_all(b"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n").unwrap();
    while !tail(&path, 1).concat().contains("[redacted:") {
        thread::sleep(Duration::from_millis(5));
    }
    drop(writer);
    drain.finish(Duration::from_mins(1));
}

#[test]
fn a_long_line_is_cut_when_it_is_written() {
    let (_dir, path) = drained("é ".repeat(10_000).into_bytes());
    let line = tail(&path, 1).remove(0);
    assert!(line.len() <= WRITTEN_LINE_MAX_BYTES && line.len() > WRITTEN_LINE_MAX_BYTES - 4);
}

#[test]
fn a_flood_leaves_two_bounded_files_with_the_newest_lines() {
    let lines = (0..400_000).map(|number| format!("line {number} of a very talkative program\n"));
    let text: String = lines.collect();
    let (dir, path) = drained(text.into_bytes());
    let sizes: Vec<u64> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).collect();
    assert!(sizes.len() <= 2 && sizes.iter().all(|size| *size <= FILE_MAX_BYTES), "{sizes:?}");
    assert_eq!(
        tail(&path, 2),
        [399_998, 399_999].map(|number| format!("line {number} of a very talkative program"))
    );
}

#[test]
fn the_backlog_forgets_the_oldest_and_says_how_many() {
    let backlog = Backlog::default();
    for number in 0..100_000 {
        backlog.push(number.to_string());
    }
    backlog.close();
    let mut left_out = 0;
    let mut lines = Vec::new();
    while let Taken::Lines { left_out: more, lines: next } = backlog.take(None) {
        left_out += more;
        lines.extend(next);
    }
    assert!(left_out > 0);
    assert_eq!(lines.first(), Some(&left_out.to_string()));
    assert_eq!(lines.last(), Some(&"99999".to_owned()));
}

#[test]
fn the_tail_goes_on_in_the_older_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stderr.log");
    assert_eq!(tail(&path, 3), Vec::<String>::new());
    fs::write(files(&path).1, "a\nb\n").unwrap();
    fs::write(&path, "c\n").unwrap();
    assert_eq!(tail(&path, 2), ["b", "c"]);
}
