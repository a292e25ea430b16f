//! What we rely on, compared with the schema that the installed Codex writes, and with changes of it.

use std::path::Path;

use codex_wire::contract;
use serde_json::{Value, json};
use testkit::rig::codex_path;

#[tokio::test]
async fn the_pinned_codex_keeps_to_all_that_we_rely_on() {
    let folder = tempfile::tempdir().unwrap();
    contract::generate_schema(&codex_path(), folder.path()).await.unwrap();
    assert_eq!(contract::check(folder.path()), Vec::<String>::new());
}

/// So that a new Codex is met with a list of what changed, and not with guesses. `cargo xtask schema` writes it anew.
#[tokio::test]
async fn the_schema_that_is_kept_is_that_of_the_pinned_codex() {
    let folder = tempfile::tempdir().unwrap();
    contract::generate_schema(&codex_path(), folder.path()).await.unwrap();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema");
    let mut differing = Vec::new();
    for file in std::fs::read_dir(&kept).unwrap() {
        let name = file.unwrap().file_name();
        let of = |folder: &Path| std::fs::read_to_string(folder.join(&name)).ok();
        if of(&kept) != of(folder.path()) {
            differing.push(name);
        }
    }
    assert!(differing.is_empty(), "run `cargo xtask schema`; these differ: {differing:?}");
    assert!(kept.join("codex_app_server_protocol.v2.schemas.json").exists());
}

#[tokio::test]
async fn looking_at_the_approvals_of_the_pinned_codex_finds_no_drift() {
    assert_eq!(contract::drifted_approvals(&codex_path()).await, Vec::<String>::new());
}

/// One change of the schema, and what must be said of it.
struct Change {
    file: &'static str,
    make: fn(&mut Value),
    said: &'static [&'static str],
}

const CHANGES: &[Change] = &[
    Change {
        file: "ClientRequest.json",
        make: |schema| drop_method(schema, "turn/steer"),
        said: &["ClientRequest.json: no method turn/steer"],
    },
    Change {
        file: "ServerNotification.json",
        make: |schema| drop_method(schema, "turn/completed"),
        said: &["ServerNotification.json: no method turn/completed"],
    },
    Change {
        file: "ServerRequest.json",
        make: |schema| drop_method(schema, "item/commandExecution/requestApproval"),
        said: &["ServerRequest.json: no method item/commandExecution/requestApproval"],
    },
    Change {
        file: "ServerNotification.json",
        make: |schema| drop_key(schema, "/definitions/Turn/properties", "status"),
        said: &["Turn: no field status"],
    },
    Change {
        file: "ServerNotification.json",
        make: |schema| drop_key(schema, "/definitions/AgentMessageDeltaNotification/properties", "delta"),
        said: &["AgentMessageDeltaNotification: no field delta"],
    },
    Change {
        file: "ServerNotification.json",
        make: |schema| {
            drop_key(alternative(schema, "ThreadItem", "commandExecution"), "/properties", "exitCode");
        },
        said: &["ThreadItem commandExecution: no field exitCode"],
    },
    Change {
        file: "ServerNotification.json",
        make: |schema| {
            let tag =
                alternative(schema, "ThreadItem", "commandExecution").pointer_mut("/properties/type/enum/0");
            *tag.unwrap() = json!("run");
        },
        said: &["ServerNotification.json: no ThreadItem commandExecution"],
    },
    Change {
        file: "ServerNotification.json",
        make: |schema| drop_value(&mut schema["definitions"]["TurnStatus"]["enum"], "interrupted"),
        said: &["TurnStatus: no value interrupted"],
    },
    Change {
        file: "ServerNotification.json",
        make: |schema| drop_key(schema, "/definitions", "FileUpdateChange"),
        said: &["ServerNotification.json: no type FileUpdateChange"],
    },
    Change {
        file: "ServerRequest.json",
        make: |schema| drop_key(schema, "/definitions/ToolRequestUserInputQuestion/properties", "isSecret"),
        said: &["ToolRequestUserInputQuestion: no field isSecret"],
    },
    Change {
        file: "FileChangeRequestApprovalResponse.json",
        make: |schema| require(schema, "signature"),
        said: &["FileChangeRequestApprovalResponse.json: now requires signature"],
    },
    Change {
        file: "ClientRequest.json",
        make: |schema| require(&mut schema["definitions"]["TurnStartParams"], "weather"),
        said: &["TurnStartParams: now requires weather"],
    },
    Change {
        file: "ClientRequest.json",
        make: |schema| require(alternative(schema, "UserInput", "text"), "text_elements"),
        said: &["UserInput text: now requires text_elements"],
    },
    // What we send may become required, and what we do not use may come and go.
    Change {
        file: "ClientRequest.json",
        make: |schema| {
            require(&mut schema["definitions"]["ThreadStartParams"], "cwd");
            drop_key(schema, "/definitions/ThreadStartParams/properties", "serviceTier");
        },
        said: &[],
    },
];

fn alternative<'a>(schema: &'a mut Value, definition: &str, tag: &str) -> &'a mut Value {
    let all = schema["definitions"][definition]["oneOf"].as_array_mut().expect(definition);
    all.iter_mut().find(|it| it["properties"]["type"]["enum"][0] == tag).expect(tag)
}

fn drop_method(schema: &mut Value, method: &str) {
    let methods = schema["oneOf"].as_array_mut().unwrap();
    let before = methods.len();
    methods.retain(|it| it["properties"]["method"]["enum"][0] != method);
    assert_eq!(methods.len(), before - 1, "{method}");
}

fn drop_key(schema: &mut Value, pointer: &str, key: &str) {
    let object = schema.pointer_mut(pointer).and_then(Value::as_object_mut).expect(pointer);
    object.remove(key).expect(key);
}

fn drop_value(values: &mut Value, value: &str) {
    let values = values.as_array_mut().unwrap();
    let at = values.iter().position(|it| it == value).expect(value);
    values.remove(at);
}

fn require(part: &mut Value, field: &str) {
    match part["required"].as_array_mut() {
        Some(required) => required.push(json!(field)),
        None => part["required"] = json!([field]),
    }
}

/// Makes a change in the folder, looks, and takes it back.
fn look_at(folder: &Path, change: &Change) -> Vec<String> {
    let file = folder.join(change.file);
    let original = std::fs::read(&file).unwrap();
    let mut schema = serde_json::from_slice(&original).unwrap();
    (change.make)(&mut schema);
    std::fs::write(&file, schema.to_string()).unwrap();
    let said = contract::check(folder);
    std::fs::write(&file, original).unwrap();
    said
}

#[tokio::test]
async fn every_change_of_what_we_rely_on_is_named_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    contract::generate_schema(&codex_path(), folder.path()).await.unwrap();
    for change in CHANGES {
        assert_eq!(look_at(folder.path(), change), change.said);
    }
}

#[tokio::test]
async fn a_schema_file_that_is_gone_is_named() {
    let folder = tempfile::tempdir().unwrap();
    contract::generate_schema(&codex_path(), folder.path()).await.unwrap();
    std::fs::remove_file(folder.path().join("CurrentTimeReadResponse.json")).unwrap();
    std::fs::write(folder.path().join("v2/TurnStartResponse.json"), "{").unwrap();
    let said = contract::check(folder.path());
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].starts_with("CurrentTimeReadResponse.json: No such file"), "{said:?}");
    assert!(said[1].starts_with("v2/TurnStartResponse.json: EOF"), "{said:?}");
}
