// The TypeScript SDK as a client of the MCP server: one call of `codex`, with its user asked by a stand-in.
//
// Reads one JSON object from stdin: `modules` where the SDK is installed; `command`, `env` and `cwd` for stdio, or `url`
// and `token` for HTTP; `arguments` of the call; `answer` of the user, or none. Prints what happened.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const told = JSON.parse(readFileSync(0, "utf8"));
const load = createRequire(told.modules + "/");
const { Client } = load("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = load("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = load("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { ElicitRequestSchema } = load("@modelcontextprotocol/sdk/types.js");

function transport() {
  if (told.url) {
    const requestInit = { headers: { authorization: `Bearer ${told.token}` } };
    return new StreamableHTTPClientTransport(new URL(told.url), { requestInit });
  }
  const [command, ...args] = told.command;
  return new StdioClientTransport({ command, args, env: told.env, cwd: told.cwd, stderr: "inherit" });
}

// A busy machine is slow: this is for what never comes. The test itself is ended after three minutes.
const LIMIT_MS = 150000;
const asked = [];
const progress = [];
const client = new Client({ name: "test", version: "1" }, { capabilities: told.answer ? { elicitation: {} } : {} });
if (told.answer) {
  client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
    asked.push(params.message);
    await new Promise((done) => setTimeout(done, 350)); // As a person would: what comes at once is not believed.
    return { action: "accept", content: { decision: told.answer } };
  });
}
await client.connect(transport());
const { tools } = await client.listTools();
const call = { name: "codex", arguments: told.arguments };
const onprogress = ({ message }) => progress.push(message);
const result = await client.callTool(call, undefined, { onprogress, timeout: LIMIT_MS });
await client.close();
console.log(JSON.stringify({
  tools: tools.map((tool) => tool.name),
  asked,
  progress,
  is_error: result.isError ?? false,
  told: result.structuredContent,
  text: result.content[0].text,
}));
