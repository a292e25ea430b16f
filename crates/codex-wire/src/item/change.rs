//! One file of a patch. Reading never fails: a change that we cannot read still counts as one.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// One file of a [`super::FileChange`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The file.
    pub path: String,
    /// What happens to it.
    pub kind: ChangeKind,
    /// The difference; the whole content for an added or deleted file.
    pub diff: String,
}

/// What happens to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new.
    Add,
    /// It goes.
    Delete,
    /// It changes, and may move.
    Update {
        /// Where it moves to.
        move_path: Option<String>,
    },
    /// Something that we do not know; empty when nothing was said.
    Other(String),
}

impl ChangeKind {
    /// The kind in one word; empty when nothing was said.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Add => "add",
            Self::Delete => "delete",
            Self::Update { .. } => "update",
            Self::Other(kind) => kind,
        }
    }

    /// Reads `{"type": "add"}` and the older plain `"add"`.
    fn from_value(value: &Value) -> Self {
        let kind = value.as_str().or_else(|| value.get("type")?.as_str()).unwrap_or_default();
        match kind {
            "add" => Self::Add,
            "delete" => Self::Delete,
            "update" => {
                let move_path = value.get("move_path").and_then(Value::as_str).map(str::to_owned);
                Self::Update { move_path }
            }
            other => Self::Other(other.to_owned()),
        }
    }
}

impl Serialize for ChangeKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = match self {
            Self::Update { move_path } => serde_json::json!({"type": "update", "move_path": move_path}),
            kind => serde_json::json!({"type": kind.as_str()}),
        };
        value.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Change {
    /// Never fails on JSON: a change that we cannot read still counts as one, because a person is told how many
    /// files a patch touches.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Value::deserialize(deserializer)?;
        let text = |key: &str| raw.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let kind = ChangeKind::from_value(raw.get("kind").unwrap_or(&Value::Null));
        Ok(Self { path: text("path"), kind, diff: text("diff") })
    }
}
