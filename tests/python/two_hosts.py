"""Runs a program as ranks on two hosts, which are network namespaces with a link between them.

    python two_hosts.py SIZE PROGRAM [ARGUMENT...]

Even ranks run on host 1, odd ones on host 2. The program finds RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, and HOST_ADDR,
the address of its own host. All of it ends with this program, which must run in a namespace of its own (`command`).
"""

import os
import subprocess
import sys
import time

SECONDS = 20  # for one command of ip


def alone():
    """What starts a program in a network namespace of its own; None where the machine does not permit that."""
    for words in (["unshare", "-n"], ["unshare", "-Urn"]):
        try:
            ended = subprocess.run([*words, "ip", "link"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(),
                                   timeout=SECONDS, check=False)
        except OSError:
            return None
        if ended.returncode == 0:
            return words
    return None


REASON = "neither `unshare -n ip link` nor `unshare -Urn ip link` works here, which two hosts on one machine need"


def command(size, *program):
    """The command that runs a program in this way; None as above."""
    words = alone()
    return None if words is None else [*words, sys.executable, __file__, str(size), *map(str, program)]


def environment(**more):
    """For the command: programs of Debian's administrators are found, too."""
    return dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin:/sbin", **more)


def ip(*words, enter=()):
    subprocess.run([*enter, "ip", *words], check=True, timeout=SECONDS)


def main(size, program):
    """Host 1 is the namespace of this process, host 2 that of a process which ends when its input does, so with this one."""
    keeper = subprocess.Popen(["unshare", "-n", "cat"], stdin=subprocess.PIPE)
    ranks = []
    try:
        end = time.monotonic() + SECONDS
        while os.readlink(f"/proc/{keeper.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            assert time.monotonic() < end and keeper.poll() is None, "no second namespace"
            time.sleep(0.005)
        enter = ("nsenter", "-n", "-t", str(keeper.pid), "--")
        ip("link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", str(keeper.pid))
        for number, inside in enumerate(((), enter), 1):
            ip("link", "set", "lo", "up", enter=inside)
            ip("addr", "add", f"10.78.0.{number}/24", "dev", "eth0", enter=inside)
            ip("link", "set", "eth0", "up", enter=inside)
            ip("route", "add", "default", "dev", "eth0", enter=inside)
        for rank in range(size):
            place = dict(RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="10.78.0.1", MASTER_PORT="29523",
                         HOST_ADDR=f"10.78.0.{rank % 2 + 1}")
            ranks.append(subprocess.Popen([*(enter if rank % 2 else ()), *program], env={**os.environ, **place}))
        codes = [rank.wait() for rank in ranks]
        if codes != [0] * size:
            sys.exit(f"the ranks ended with {codes}")
    finally:
        for process in (*ranks, keeper):
            process.kill()
            process.wait()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
