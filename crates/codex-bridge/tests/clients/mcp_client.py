"""The Python SDK as a client of the MCP server: one call of `codex`, with its user asked by a stand-in.

Reads one JSON object from stdin: `command` and `env` for stdio, or `url` and `token` for HTTP; `mode` ("legacy" or a
revision); `arguments` of the call; `answer` of the user, or none if there is no user to ask. Prints what happened.
"""

import asyncio
import json
import sys

import httpx2
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

# A busy machine is slow: this is for what never comes. The test itself is ended after three minutes.
LIMIT_S = 150


def server(told):
    if "url" in told:
        headers = {"authorization": f"Bearer {told['token']}"}
        http = httpx2.AsyncClient(headers=headers, timeout=LIMIT_S)
        return streamable_http_client(told["url"], http_client=http)
    command, *args = told["command"]
    return StdioServerParameters(command=command, args=args, env=told["env"], cwd=told["cwd"])


async def main():
    told = json.load(sys.stdin)
    asked, progress = [], []

    async def ask(_context, params):
        asked.append(params.message)
        await asyncio.sleep(0.35)  # As a person would: what comes at once is not believed.
        return types.ElicitResult(action="accept", content={"decision": told["answer"]})

    async def note(_progress, _total, message):
        progress.append(message)

    user = {"elicitation_callback": ask} if told.get("answer") else {}
    async with Client(server(told), mode=told["mode"], **user) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("codex", told["arguments"], LIMIT_S, note)
        print(json.dumps({
            "tools": tools,
            "asked": asked,
            "progress": progress,
            "is_error": result.is_error,
            "told": result.structured_content,
            "text": result.content[0].text,
        }))


asyncio.run(main())
