"""Forks ranks that have imported NumPy and tutti already: `python -X dev fork_server.py <descriptor of a socket>`.

A rank is no child of this process: it is an orphan, which the process of the tests adopts. So that waits for it and
signals it as if it had started the rank itself.
"""

import os
import pickle
import socket
import sys

import numpy  # noqa: F401
import tutti  # noqa: F401
import tutti.distributed  # noqa: F401


def received(link, size):
    data = b""
    while len(data) < size and (part := link.recv(size - len(data))):
        data += part
    return data


def fork_orphan():
    """0 in the new process, its number here."""
    reader, writer = os.pipe()
    between = os.fork()
    if between == 0:
        child = os.fork()
        if child == 0:
            os.close(reader)
            os.close(writer)
            return 0
        os.write(writer, child.to_bytes(8, "little"))
        os._exit(0)
    os.close(writer)
    os.waitpid(between, 0)
    child = int.from_bytes(os.read(reader, 8), "little")
    os.close(reader)
    return child


def serve(link):
    """In each new process: what it shall run, and in which environment. It has the three streams that came with that."""
    while True:
        head, streams, _, _ = socket.recv_fds(link, 8, 3)
        if not head:
            os._exit(0)  # the tests are over
        order = received(link, int.from_bytes(head, "little"))
        child = fork_orphan()
        if child == 0:
            link.close()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
                os.close(stream)
            return pickle.loads(order)
        for stream in streams:
            os.close(stream)
        link.sendall(child.to_bytes(8, "little"))


source, environment = serve(socket.socket(fileno=int(sys.argv[1])))
os.environ.clear()
os.environ.update(environment)
sys.argv, sys.path[:0] = ["-c"], [""]
exec(compile(source, "<string>", "exec"))
