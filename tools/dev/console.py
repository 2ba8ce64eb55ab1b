"""What every command of ./dev needs: to say something, to fail, to run a program, to tell the time that a phase took."""

import contextlib
import fcntl
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

import stacks  # noqa: E402

BUILD = ROOT / "build"
JOBS = int(os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or os.cpu_count() or 1)


class Failed(Exception):
    """A command cannot go on; its text is for the user."""


def say(text):
    print(f"\n==> {text}", flush=True)


def end(process):
    """Tells a program and all that it has started to end: cmake and ctest would leave compilers and tests behind."""
    for pid in [process.pid, *stacks.living_below(process.pid)] if process.poll() is None else []:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGTERM)


@contextlib.contextmanager
def started(*command, **options):
    """A program in the root of the tree. It is told to end where we are interrupted, and waited for."""
    options = {"cwd": ROOT, "stdin": subprocess.DEVNULL} | options
    with subprocess.Popen([str(word) for word in command], **options) as process:
        try:
            yield process
        except BaseException:
            end(process)
            raise


def run(*command, log=None, **options):
    """Runs a program in the root of the tree; True if it succeeds. With `log` its output goes there, and is shown if
    the program fails."""
    if log is None:
        with started(*command, **options) as process:
            return process.wait() == 0
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "w", encoding="utf-8") as file, started(*command, stdout=file, stderr=subprocess.STDOUT, **options) as process:
        well = process.wait() == 0
    if not well:
        print(log.read_text(encoding="utf-8", errors="replace"), flush=True)
    return well


def output_of(*command, cwd=None):
    """What a program prints; None if it fails."""
    try:
        done = subprocess.run([str(word) for word in command], cwd=cwd or ROOT, capture_output=True, text=True, check=False,
                              errors="replace")
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def need(*sections):
    """Installs these sections of tools/apt-packages.txt and tools/pip-packages.txt, as far as they are missing."""
    if not run(ROOT / "dev", "deps", *sections):
        raise Failed(f"cannot install the packages of {' '.join(sections)}")


def pip_packages(section):
    """A section of tools/pip-packages.txt that `need` does not install, because its files would be in the way of others."""
    text = (ROOT / "tools" / "pip-packages.txt").read_text(encoding="utf-8")
    return text.partition(f"[{section}]\n")[2].split("\n\n")[0].split()


def only_once():
    """Two runs of the tests would build in the same folders. The lock lasts as long as this process."""
    BUILD.mkdir(exist_ok=True)
    lock = os.open(BUILD / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Failed("tests of this tree run already") from None


class Background:
    """A function that runs in a child process, idle as far as the CPUs are busy with other work."""

    def __init__(self, function, log):
        sys.stdout.flush()
        self.log = log
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                os.setpgid(0, 0)
                with contextlib.suppress(OSError):  # a sandbox may not know it
                    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
                log.parent.mkdir(parents=True, exist_ok=True)
                output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
                os.dup2(output, 1)
                os.dup2(output, 2)
                status = 0 if function() else 1
            except BaseException as error:  # a child must not go on as its parent would
                print(f"{type(error).__name__}: {error}")
            finally:
                sys.stdout.flush()
                os._exit(status)
        with contextlib.suppress(OSError):
            os.setpgid(self.pid, self.pid)

    def finish(self):
        """Waits for its end; True if the function succeeded, else its output is shown."""
        if self.pid is None:
            return True
        _, status = os.waitpid(self.pid, 0)
        self.pid = None
        if status != 0:
            print(self.log.read_text(encoding="utf-8", errors="replace"), flush=True)
        return status == 0

    def stop(self):
        if self.pid is not None:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGTERM)
            os.waitpid(self.pid, 0)
            self.pid = None


class Phases:
    """Adds up wall and CPU seconds by phase. CPU seconds count the programs that have ended."""

    def __init__(self):
        self.spent = {}
        self.begin = time.monotonic()
        self.cpu_begin = self.cpu()

    @staticmethod
    def cpu():
        return sum(usage.ru_utime + usage.ru_stime
                   for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))

    @contextlib.contextmanager
    def phase(self, name):
        wall, cpu = time.monotonic(), self.cpu()
        try:
            yield
        finally:
            before = self.spent.get(name, (0.0, 0.0))
            self.spent[name] = (before[0] + time.monotonic() - wall, before[1] + self.cpu() - cpu)

    def report(self):
        """The time of each phase; a phase that works in the background counts where it is waited for."""
        say("time")
        print("  wall s   CPU s")
        for name, (wall, cpu) in self.spent.items():
            print(f"{wall:8.0f}{cpu:8.0f}  {name}")
        print(f"{time.monotonic() - self.begin:8.0f}{self.cpu() - self.cpu_begin:8.0f}  in all", flush=True)
