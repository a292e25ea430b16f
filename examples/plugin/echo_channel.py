#!/usr/bin/env python3
"""A channel of codex-bridge in two files: people append lines of JSON to one, and read what is said in the other.

{"room": "lab", "from": "ada", "text": "hello"} is a message (with "agent": true, no person's);
{"action": "approve/…", "from": "ada"} taps a button.
"""
import json, queue, sys, threading, time
waits = queue.Queue()

def tell(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}) + "\n", end="", flush=True)

def read_inbox(path, at):
    while True:
        with open(path, "a+b") as inbox:  # made if it is missing
            inbox.seek(at)
            line = inbox.readline()
        if not line.endswith(b"\n"):
            time.sleep(0.05)
            continue
        said, name, end = json.loads(line), f"line-{at}", at + len(line)
        if "action" in said:
            tell(id=name, method="action", params={"action_id": said["action"], "user": {"id": said["from"]}})
        else:
            tell(id=name, method="inbound", params={"id": name, "conversation": said["room"], "shared": True,
                 "sender": {"id": said["from"], "agent": said.get("agent", False)}, "text": said["text"], "cursor": str(end)})
        time.sleep(wait := waits.get())
        at = at if wait else end  # it is durable, or refused for good: only now the next one

for call in map(json.loads, sys.stdin):
    method, params = call.get("method"), call.get("params", {})
    if method == "initialize":
        outbox, at = open(params["config"]["outbox"], "a", buffering=1), int(params["cursor"] or 0)
        tell(id=call["id"], result={"name": "echo", "capabilities": {"send": True, "edit": True, "approve": True}})
        threading.Thread(target=read_inbox, args=(params["config"]["inbox"], at), daemon=True).start()
    elif method in ("send", "edit"):
        print(json.dumps({"method": method, **params}), file=outbox)
        tell(id=call["id"], result={"message_id": params.get("message_id") or params["outbox_id"]})
    elif method is None:
        waits.put(call.get("error", {}).get("data", {}).get("retry_after", 0))
