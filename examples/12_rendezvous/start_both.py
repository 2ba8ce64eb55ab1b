#!/usr/bin/env python3
"""Starts the two programs by hand, a second apart, in both orders and by each way to meet.

    start_both.py 12_rendezvous_leaves 12_rendezvous_stays
    start_both.py ../python/12_rendezvous/leaves.py ../python/12_rendezvous/stays.py
"""

import os
import socket
import subprocess
import sys
import tempfile
import time

APART = 1.0  # seconds between the two starts
LIMIT = 40.0  # seconds for each program


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def meet(programs: list[str], method: str, variables: dict[str, str], order: list[int]) -> None:
    """Program r is rank r; `order` says which is started first."""
    running: dict[int, subprocess.Popen[str]] = {}
    names = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
    clean = {name: value for name, value in os.environ.items() if name not in names}
    try:
        for turn, rank in enumerate(order):
            if turn > 0:
                time.sleep(APART)
            mine = {**clean, **variables, **({"RANK": str(rank)} if variables else {})}
            python = [sys.executable] if programs[rank].endswith(".py") else []
            running[rank] = subprocess.Popen([*python, programs[rank], method], env=mine, text=True,
                                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for rank, program in running.items():
            said, _ = program.communicate(timeout=LIMIT)
            print(f"{method}, rank {rank}: {said}", end="", flush=True)
            if program.returncode != 0 or "has met the other" not in said:
                sys.exit(f"rank {rank} ended with status {program.returncode}")
    finally:
        for program in running.values():
            if program.poll() is None:
                program.kill()
                program.wait()


def main() -> None:
    programs = sys.argv[1:]
    for order in ([0, 1], [1, 0]):
        port = str(free_port())
        meet(programs, "env://",
             {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}, order)
        meet(programs, f"tcp://127.0.0.1:{free_port()}", {}, order)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rendezvous")
            meet(programs, f"file://{path}", {}, order)
            if os.path.exists(path):
                sys.exit(f"{path} was not removed")


if __name__ == "__main__":
    main()
