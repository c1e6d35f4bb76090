"""A process that listens on a port and misbehaves on request, for tests about stopping. Run as a script.

usage: stubborn.py PORT [ignore-term] [grandchild PIDFILE] [exit SECONDS STATUS] [flood]
"""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

LONER = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(120)"
MIDDLE = f"""
import subprocess, sys
quiet = subprocess.DEVNULL
print(subprocess.Popen([sys.executable, "-S", "-c", {LONER!r}], start_new_session=True, stdout=quiet, stderr=quiet).pid)
"""


def main(words: list[str]) -> None:
    port = int(words[0])
    if "ignore-term" in words:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "grandchild" in words:
        # Leaves session and process group, ignores SIGTERM, and its parent is gone: as hard to find as it gets.
        done = subprocess.run([sys.executable, "-S", "-c", MIDDLE], capture_output=True, text=True, check=True)
        path = Path(words[words.index("grandchild") + 1])
        path.with_suffix(".tmp").write_text(done.stdout)
        path.with_suffix(".tmp").rename(path)
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    sock.listen()
    print(f"listening on {port}, pid {os.getpid()}", flush=True)
    if "exit" in words:
        place = words.index("exit")
        time.sleep(float(words[place + 1]))
        print("Traceback (most recent call last):\nValueError: as asked", file=sys.stderr, flush=True)
        sys.exit(int(words[place + 2]))
    while True:
        if "flood" in words:
            print("x" * 1000, flush=True)
        time.sleep(0.05)


if __name__ == "__main__":
    main(sys.argv[1:])
