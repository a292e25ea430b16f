//! The ids of tool calls. They are unique, and made from the item alone, so that a replay gives the same ids as the
//! live view.
//!
//! An ambiguous id (`a__b` + `c`, `a` + `b__c`) is written with the lengths of its parts. Items without an id, which
//! the protocol forbids, are numbered per type within their turn.

use std::collections::HashMap;

use codex_wire::item::Item;

/// The first words of item ids from models and Codex, as in `call_000003`. They only decide which ids are written
/// without lengths.
const ID_PREFIXES: [&str; 6] = ["call", "item", "fc", "exec", "mcp", "tool"];

/// Makes the call ids of items. Use one for each pass over a turn's items: it numbers items without an id.
#[derive(Debug)]
pub(crate) struct CallIds {
    turn_seed: String,
    without_id: HashMap<&'static str, u64>,
}

impl CallIds {
    pub(crate) fn new(turn_seed: String) -> Self {
        Self { turn_seed, without_id: HashMap::new() }
    }

    /// The turn's id, once known.
    pub(crate) fn name_turn(&mut self, turn_id: &str) {
        turn_id.clone_into(&mut self.turn_seed);
    }

    /// The call id of a tool item; `None` for other items.
    pub(crate) fn call_id(&mut self, item: &Item) -> Option<String> {
        let kind = kind(item)?;
        if let Some(id) = item.id() {
            return Some(match item {
                Item::McpToolCall(call) => mcp_call_id(&call.server, &call.tool, id),
                Item::DynamicToolCall(call) => dynamic_call_id(&call.tool, id),
                Item::CommandExecution(_) => command_call_id(id),
                Item::FileChange(_) => patch_call_id(id),
                _ => format!("codex_{kind}_{id}"),
            });
        }
        let ordinal = self.without_id.entry(kind).or_insert(0);
        *ordinal += 1;
        Some(format!("codex_noid_{kind}_{}_{ordinal}", self.turn_seed))
    }
}

/// The word for a kind of tool item. No word is a prefix of another or of `noid`, so ids of different kinds differ.
fn kind(item: &Item) -> Option<&'static str> {
    match item {
        Item::CommandExecution(_) => Some("exec"),
        Item::FileChange(_) => Some("apply_patch"),
        Item::McpToolCall(_) => Some("mcp"),
        Item::DynamicToolCall(_) => Some("dyn"),
        Item::WebSearch(_) => Some("web_search"),
        _ => None,
    }
}

/// The call id of a command, from its item's id.
pub(crate) fn command_call_id(item_id: &str) -> String {
    format!("codex_exec_{item_id}")
}

/// The call id of a file change, from its item's id.
pub(crate) fn patch_call_id(item_id: &str) -> String {
    format!("codex_apply_patch_{item_id}")
}

fn mcp_call_id(server: &str, tool: &str, item_id: &str) -> String {
    let rest = format!("{server}__{tool}_{item_id}");
    let read_back = rest.split_once("__").and_then(|(server, call)| Some((server, split_call(call)?)));
    if read_back == Some((server, (tool, item_id))) {
        format!("codex_mcp__{rest}")
    } else {
        format!("codex_mcp-{}-{}-{server}-{tool}-{item_id}", server.len(), tool.len())
    }
}

fn dynamic_call_id(tool: &str, item_id: &str) -> String {
    let call = format!("{tool}_{item_id}");
    if split_call(&call) == Some((tool, item_id)) {
        format!("codex_dyn_{call}")
    } else {
        format!("codex_dyn-{}-{tool}-{item_id}", tool.len())
    }
}

/// Splits `read_file_call_7` into `read_file` and `call_7`, and `read_file_exec-7` into `read_file` and `exec-7`. An id
/// that does not split into its original parts is ambiguous.
fn split_call(call: &str) -> Option<(&str, &str)> {
    let (head, _) = call.rsplit_once('_')?;
    match head.rsplit_once('_') {
        Some((tool, prefix)) if ID_PREFIXES.contains(&prefix) => Some((tool, &call[tool.len() + 1..])),
        _ => Some((head, &call[head.len() + 1..])),
    }
}
