//! Tests of `record`.

use super::*;

#[test]
fn a_record_is_read_though_fields_are_missing_and_others_are_new() {
    let text = r#"{"id":"h1","epoch":"b:7:8","keeper":{"pid":6,"start_ticks":5},"codex":{"pid":7,"start_ticks":8},
        "boot_id":"b","socket":"/run/x/s","colour":"green"}"#;
    let record: Record = serde_json::from_str(text).unwrap();
    assert_eq!(record.codex, Process { pid: 7, start_ticks: 8 });
    assert_eq!(record.epoch, epoch_of("b", record.codex));
    assert_eq!(record.codex_version, "");
}

#[test]
fn a_file_is_replaced_whole_and_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = Files(dir.path()).exit();
    assert_eq!(read_json::<Exit>(&path).unwrap(), None);
    let first = Exit { error: Some("x".repeat(1000)), ..Exit::default() };
    let second = Exit { code: Some(3), at_ms: now_ms(), ..Exit::default() };
    write_json(&path, &first).unwrap();
    write_json(&path, &second).unwrap();
    assert_eq!(read_json::<Exit>(&path).unwrap(), Some(second));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn an_end_is_told_in_words() {
    let told = |exit: Exit| exit.to_string();
    assert_eq!(told(Exit { code: Some(1), ..Exit::default() }), "codex exited with code 1");
    assert_eq!(told(Exit { signal: Some(9), ..Exit::default() }), "codex was ended by signal 9");
    assert_eq!(told(Exit { error: Some("no such file".into()), ..Exit::default() }), "no such file");
}
