#!/usr/bin/env python3
"""A channel of codex-bridge in two files: people append lines of JSON to one, and read what is said in the other.

{"room": "lab", "from": "ada", "text": "hello"} is a message; {"action": "approve/…", "from": "ada"} taps a button.
"""
import json
import queue
import sys
import threading
import time

writing, answers = threading.Lock(), {}


def write(message):
    with writing:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def ask(call_id, method, params):
    """Asks codex-bridge for something; an inbound message is durable once this returns."""
    answers[call_id] = queue.Queue()
    write({"id": call_id, "method": method, "params": params})
    return answers[call_id].get()


def read_inbox(path, at):
    while True:
        with open(path, "rb") as inbox:
            inbox.seek(at)
            line = inbox.readline()
        if not line.endswith(b"\n"):
            time.sleep(0.05)
            continue
        said, call_id = json.loads(line), f"line-{at}"
        at += len(line)
        if "action" in said:
            ask(call_id, "action", {"action_id": said["action"], "user": {"id": said["from"]}})
        else:
            ask(call_id, "inbound", {"id": call_id, "conversation": said["room"], "sender": {"id": said["from"]},
                                     "text": said["text"], "cursor": str(at)})


for line in sys.stdin:
    call = json.loads(line)
    method, params = call.get("method"), call.get("params", {})
    if method == "initialize":
        files = params["config"]
        can = {"inbox": True, "send": True, "edit": True, "approve": True, "max_text": 4096, "text_unit": "chars"}
        write({"id": call["id"], "result": {"name": "echo", "capabilities": can}})
        arguments = (files["inbox"], int(params["cursor"] or 0))
        threading.Thread(target=read_inbox, args=arguments, daemon=True).start()
    elif method in ("send", "edit"):
        with open(files["outbox"], "a") as outbox:
            outbox.write(json.dumps({"method": method, **params}) + "\n")
        write({"id": call["id"], "result": {"message_id": params.get("message_id") or params["outbox_id"]}})
    elif method == "shutdown":
        break
    elif method is None:
        answers.pop(call["id"]).put(call.get("result") or call.get("error"))
