"""The `codex_bridge` tool for hermes-agent, over `codex-bridge tool -`.

Put this file into hermes-agent's `tools/` folder: tools there that register themselves are found at start. What the tool
can do is asked of the program, so the schema is always that of the version that is installed. All state is the daemon's;
nothing is kept here.
"""

import json
import os
import shutil
import subprocess

from tools.registry import registry

# `wait` takes up to 50 seconds; nothing else takes nearly as long.
CALL_LIMIT_S = 120
SCHEMA_LIMIT_S = 10


def program():
    """The codex-bridge to run: CODEX_BRIDGE_BIN, else the one on the PATH; None if there is none."""
    return shutil.which(os.environ.get("CODEX_BRIDGE_BIN") or "codex-bridge")


def role():
    """What hermes-agent may do: hand over work. It approves what Codex asks only if CODEX_BRIDGE_ROLE is approver."""
    return os.environ.get("CODEX_BRIDGE_ROLE") or "operator"


def schema():
    """Name, description and parameters, as the program tells them."""
    try:
        told = subprocess.run(
            [program() or "codex-bridge", "tool", "--schema"],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=SCHEMA_LIMIT_S, check=True,
        )
        return json.loads(told.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        # Without the program the tool is not offered (see `check_fn` below), but it needs some schema.
        return {"name": "codex_bridge", "description": "", "parameters": {"type": "object", "properties": {}}}


def refusal(code, message, hint):
    return json.dumps({"success": False, "error": message, "code": code, "hint": hint})


def codex_bridge(call):
    """One call: JSON in, JSON out. Whatever happens, the answer is a reply of the tool."""
    found = program()
    if found is None:
        return refusal("not_installed", "codex-bridge was not found", "install it, or set CODEX_BRIDGE_BIN")
    try:
        # By stdin: a prompt on the command line would show in every list of processes.
        done = subprocess.run(
            [found, "tool", "--role", role(), "-"], input=json.dumps(call).encode(), capture_output=True, timeout=CALL_LIMIT_S,
        )
        json.loads(done.stdout)
        return done.stdout.decode()
    except subprocess.TimeoutExpired:
        return refusal("timed_out", "codex-bridge did not answer in time", "the task goes on; look at its status")
    except (OSError, ValueError) as error:
        return refusal("no_reply", f"codex-bridge gave no reply: {error}", "`codex-bridge doctor` looks for the cause")


registry.register(
    name="codex_bridge",
    toolset="codex_bridge",
    schema=schema(),
    handler=lambda args, **_: codex_bridge(args),
    check_fn=lambda: program() is not None,
    emoji="🌉",
)
