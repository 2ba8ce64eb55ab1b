"""Programs of Python under `tuttirun` at a terminal: input() and debuggers."""

import os
import pty
import select
import subprocess
import sys
import time

import pytest

import ranks
import stacks
from tutti import _programs

LIMIT = 50
INIT = """
import os
import tutti.distributed as dist
dist.init_process_group()
rank = dist.get_rank()
"""


class Terminal:
    """A process that leads the session of a terminal, as one that a person starts."""

    def __init__(self, *command):
        self.end = time.monotonic() + LIMIT
        self.screen = ""
        self._seen = 0
        command = [str(word) for word in command]
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.environ.update(OMP_NUM_THREADS="1", PYTHON_COLORS="0", PYTHON_EXEC=sys.executable)
            os.execv(command[0], command)

    def type(self, text):
        os.write(self._fd, text.encode())

    def read_until(self, text):
        while self.screen.find(text, self._seen) < 0:
            assert self._read(), f"no {text!r} on the screen:\n{self.screen}"
        self._seen = self.screen.find(text, self._seen) + len(text)

    def wait(self):
        while self._read():
            pass
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    def _read(self):
        ready, _, _ = select.select([self._fd], [], [], max(0.0, self.end - time.monotonic()))
        if not ready and time.monotonic() >= self.end:  # Python's stacks come to the screen
            self.screen += f"\nnot done in {LIMIT} s\n{stacks.end(self.pid)}\n"
            self.end += LIMIT
            return True
        try:
            got = os.read(self._fd, 65536) if ready else b""
        except OSError:  # all have closed it
            got = b""
        self.screen += got.decode(errors="replace")
        return bool(got)

    def close(self):
        if self.pid:
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)
        os.close(self._fd)


@pytest.fixture
def at_terminal(script):
    started = []

    def start(source, *options):
        started.append(Terminal(_programs.path_of("tuttirun"), *options, script(source)))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.mark.parametrize("size", ranks.sizes(3, others=(1, 2)))
def test_the_prompt_of_input_is_answered(at_terminal, size):
    run = at_terminal(INIT + "if rank == 0: print('got <' + input('your name: ') + '>')\n"
                             "dist.barrier()\n", "-n", size)
    run.read_until("your name: ")
    run.type("Ann\n")
    assert run.wait() == 0, run.screen
    assert "got <Ann>" in run.screen


@pytest.mark.parametrize(("size", "stop", "options"), [
    (1, "breakpoint()", ()), (2, "if rank == 0: breakpoint()", ()), (2, "dist.breakpoint()", ()),
    (3, "dist.breakpoint(rank=2)", ("--stdin", 2))])
def test_a_debugger_is_used(at_terminal, size, stop, options):
    run = at_terminal(INIT + f"secret = 40 + rank\n{stop}\n"
                             "print('rank', rank, 'went on')\ndist.barrier()\n", "-n", size, *options)
    run.read_until("(Pdb) ")
    if "dist" in stop:
        run.type("up\n")
        run.read_until("(Pdb) ")
    run.type("p secret + 1000\n")
    run.read_until(str(1040 + (2 if options else 0)))
    run.read_until("(Pdb) ")
    run.type("c\n")
    assert run.wait() == 0, run.screen
    assert all(f"rank {rank} went on" in run.screen for rank in range(size))


def test_a_breakpoint_on_a_rank_without_the_terminal_is_refused(at_terminal):
    run = at_terminal(INIT + "try: dist.breakpoint(rank=1)\nexcept ValueError as error: print(error)\n", "-n", 2)
    assert run.wait() == 0, run.screen
    assert run.screen.count("the terminal is read by rank 0; start the job with tuttirun --stdin 1") == 2


@pytest.mark.parametrize("rank", [0, 1])
def test_a_breakpoint_without_standard_input_is_refused_on_all_ranks(script, rank):
    path = script(INIT + f"try: dist.breakpoint(rank={rank})\nexcept ValueError as error: print(error, flush=True)\n"
                         "dist.barrier()\n")
    said = stacks.output([_programs.path_of("tuttirun"), "-n", "2", path], LIMIT, stdin=subprocess.DEVNULL,
                         env={**os.environ, "PYTHON_EXEC": sys.executable})
    assert said.count(f"breakpoint(rank={rank}): rank {rank} has no standard input; start the job from a "
                             f"terminal, with tuttirun --stdin {rank}") == 2


def test_each_rank_has_a_bar_that_moves(at_terminal):
    pytest.importorskip("tqdm", reason="tqdm, an extra, is not installed")
    # The second bar of a rank, as programs that know the terminal's place for each rank have it.
    run = at_terminal(INIT + """
from tqdm import tqdm
for step in tqdm(range(5), desc=f"rank {rank}", position=rank, mininterval=0):
    dist.barrier()
    if step == 3 and rank == 0:
        input("go on? ")
""", "-n", 2)
    run.read_until("[1]: rank 1:  80%")
    run.read_until("[0]: go on? ")
    run.type("\n")
    assert run.wait() == 0, run.screen
    assert "[0]: rank 0: 100%" in run.screen
    assert not [line for line in run.screen.split("\r\n") if line == "[0]: "]
