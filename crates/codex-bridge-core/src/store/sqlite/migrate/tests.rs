use rusqlite::Connection;

use super::{MIGRATIONS, apply, apply_all};

const STEPS: [&str; 3] =
    ["CREATE TABLE a (x)", "CREATE TABLE b (y); INSERT INTO b VALUES (2)", "ALTER TABLE b ADD COLUMN z"];

fn version(connection: &Connection) -> i64 {
    connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

/// The tables as they were asked for.
fn schema(connection: &Connection) -> Vec<String> {
    let mut statement =
        connection.prepare("SELECT coalesce(sql, name) FROM sqlite_schema ORDER BY name").unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn from_every_version_the_last_one_is_reached() {
    let mut fresh = Connection::open_in_memory().unwrap();
    apply_all(&mut fresh, &STEPS).unwrap();
    for present in 0..=STEPS.len() {
        let mut connection = Connection::open_in_memory().unwrap();
        apply_all(&mut connection, &STEPS[..present]).unwrap();
        assert_eq!(version(&connection), i64::try_from(present).unwrap());
        apply_all(&mut connection, &STEPS).unwrap();
        assert_eq!(version(&connection), 3);
        assert_eq!(schema(&connection), schema(&fresh), "from version {present}");
    }
}

#[test]
fn a_step_that_fails_leaves_the_version_before_it() {
    let mut connection = Connection::open_in_memory().unwrap();
    let steps = [STEPS[0], "CREATE TABLE half (x); CREATE TABLE a (x)"];
    assert!(apply_all(&mut connection, &steps).is_err());
    assert_eq!(version(&connection), 1);
    assert_eq!(schema(&connection), ["CREATE TABLE a (x)"]);
    apply_all(&mut connection, &STEPS).unwrap();
    assert_eq!(version(&connection), 3);
}

#[test]
fn the_real_steps_lead_to_a_database_that_is_ours() {
    let mut connection = Connection::open_in_memory().unwrap();
    apply(&mut connection).unwrap();
    let id: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0)).unwrap();
    assert_eq!(id, super::APPLICATION_ID);
    assert_eq!(version(&connection), i64::try_from(MIGRATIONS.len()).unwrap());
}

#[test]
fn a_token_of_before_there_were_quotas_has_the_usual_one() {
    let mut connection = Connection::open_in_memory().unwrap();
    apply_all(&mut connection, &MIGRATIONS[..8]).unwrap();
    let token = "INSERT INTO tokens (name, role, hash, created_at) VALUES ('phone', 'approver', x'00', 1)";
    connection.execute(token, []).unwrap();
    apply(&mut connection).unwrap();
    let tokens = crate::store::sqlite::query::tokens(&connection).unwrap();
    assert_eq!(tokens[0].quota, crate::token::Quota::default());
}
