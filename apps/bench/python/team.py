"""Ranks of one program that live through a whole measurement, and sleep while it is not their turn."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Mapping, Sequence


class Team:
    """The ranks of one program. Each says a line when it is ready, and a line for each order that it gets on stdin."""

    def __init__(self, command: Sequence[str], size: int = 2, environment: Mapping[str, str] | None = None) -> None:
        """Each rank has a CPU of its own where there are as many."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        cpus = sorted(os.sched_getaffinity(0))
        self._ranks = [subprocess.Popen(
            ["taskset", "-c", str(cpus[rank % len(cpus)]), *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env={**os.environ, **(environment or {}), "RANK": str(rank), "WORLD_SIZE": str(size),
                            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TUTTI_CPUS": str(len(cpus))})
            for rank in range(size)]
        self.said = [self._line(rank) for rank in self._ranks]

    @staticmethod
    def _line(rank: subprocess.Popen[str]) -> str:
        assert rank.stdout is not None
        said = rank.stdout.readline()
        if not said:
            raise SystemExit(f"a worker ended with status {rank.wait(10)}")
        return said.rstrip("\n")

    def turn(self, order: str) -> list[str]:
        """The answer of each rank to the order."""
        for rank in self._ranks:
            assert rank.stdin is not None
            rank.stdin.write(order + "\n")
            rank.stdin.flush()
        return [self._line(rank) for rank in self._ranks]

    def end(self) -> None:
        """They end when they hear no more."""
        for rank in self._ranks:
            assert rank.stdin is not None
            rank.stdin.close()
        for rank in self._ranks:
            rank.wait(30)
