//! Clients of our MCP server that the tests let talk to it: the official SDKs, the inspector, and hermes-agent, which can
//! also take our tool without MCP. Pinned, and in `.tools` alone.

use super::packages::{npm, pip};
use crate::workspace;

const PYTHON: &str = "mcp==2.3.0";
const TYPESCRIPT: &str = "@modelcontextprotocol/sdk@1.32.2";
const INSPECTOR: &str = "@modelcontextprotocol/inspector@2.12.0";
/// A real agent, with all that it brings: 235 MB, half a minute.
const HERMES: &str = "hermes-agent[mcp]==0.19.0";

/// Installs what is not there.
pub fn install() -> Result<(), String> {
    let tools = workspace::root().join(".tools");
    pip(&tools.join("mcp-python"), PYTHON)?;
    npm(&tools.join("mcp-typescript"), TYPESCRIPT)?;
    npm(&tools.join("mcp-inspector"), INSPECTOR)?;
    pip(&tools.join("hermes"), HERMES)
}
