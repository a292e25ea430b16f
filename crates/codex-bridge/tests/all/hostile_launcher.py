"""A launcher that was taken over: with each answer comes a socket whose closing blocks for an hour."""
import array, os, socket, struct, sys, threading

path = sys.argv[1]
if os.path.exists(path):
    os.unlink(path)
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
os.chmod(path, 0o660)
listener.listen(64)
print("listens", flush=True)
kept = []


def trap():
    """A TCP connection with a full buffer that lingers. Nobody reads its other end."""
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(1)
    client = socket.socket()
    client.connect(server.getsockname())
    kept.append((server, server.accept()[0]))
    client.setblocking(False)
    try:
        while True:
            client.send(b"x" * 65536)
    except BlockingIOError:
        pass
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
    return client


def serve(caller):
    caller.recv(65536)
    handed = trap()
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [handed.fileno()]))]
    caller.sendmsg([b'{"refused":{"why":"failed","message":"no"}}\n'], rights)
    handed.close()
    caller.close()


while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
