//! Clients of our MCP server that the tests let talk to it: the official SDKs, the inspector, and hermes-agent, which can
//! also take our tool without MCP. In `.tools` alone.

use super::packages::{npm, pip};

/// Installs what is not there.
pub fn install() -> Result<(), String> {
    pip("mcp-python")?;
    npm("mcp-typescript")?;
    npm("mcp-inspector")?;
    // A real agent, with all that it brings: 235 MB, half a minute.
    pip("hermes")
}
