"""Configures and builds a preset, with a line that says how far it is."""

import re
import subprocess
import sys
import time

from console import BUILD, run, say, started

STEP = re.compile(r"^\[(\d+)/(\d+)\] ")
SECONDS_BETWEEN_LINES = 15  # where there is no terminal, which shows one line that changes


def configure(preset, *options):
    return run("cmake", "--preset", preset, *options, log=BUILD / f"{preset}.log")


class Progress:
    """Turns Ninja's lines into one that tells the steps done and the seconds left."""

    def __init__(self):
        self.begin = self.shown = time.monotonic()
        self.terminal = sys.stdout.isatty()

    def step(self, done, of):
        now = time.monotonic()
        if not self.terminal and now - self.shown < SECONDS_BETWEEN_LINES:
            return
        self.shown = now
        left = (now - self.begin) * (of - done) / max(done, 1)
        text = f"  {done} of {of} steps, about {left:.0f} s left"
        print(f"\r{text:<60}" if self.terminal else text, end="" if self.terminal else "\n", flush=True)

    def finish(self):
        text = f"  built in {time.monotonic() - self.begin:.0f} s"
        print(f"\r{text:<60}" if self.terminal else text, flush=True)


def build(preset, targets=None):
    """Builds these targets of a preset that is configured, None: all; True if it succeeds. Ninja's output is shown where
    it is more than steps: warnings and errors."""
    command = ["cmake", "--build", "--preset", preset]
    if targets is None:
        say(f"building {preset}")
    elif targets:
        say(f"building {preset}: " + (f"{len(targets)} targets" if len(targets) > 6 else " ".join(targets)))
        command += ["--target", *targets]
    else:
        return True  # tests of scripts need none
    progress = Progress()
    with started(*command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as process:
        for line in process.stdout:
            if found := STEP.match(line):
                progress.step(int(found[1]), int(found[2]))
            elif not line.startswith("ninja: Entering"):
                print(line, end="", flush=True)
    progress.finish()
    return process.returncode == 0


def configure_and_build(preset, *targets):
    return configure(preset) and build(preset, targets or None)
