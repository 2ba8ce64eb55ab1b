"""Which tests may be skipped: the table of tools/allowed_skips.toml, and what a run made of it."""

import pathlib
import re
import subprocess
import tomllib

TABLE = pathlib.Path(__file__).with_suffix(".toml")
ROOT = TABLE.parents[1]
KEYS = {"reason", "most", "in", "unless"}
PROBE_SECONDS = 30.0


class AllowedSkip:
    """One entry of the table."""

    def __init__(self, entry):
        if not {"reason", "most"} <= set(entry) <= KEYS:
            raise ValueError(f"an allowed skip has reason, most and perhaps in and unless, not {sorted(entry)}")
        self.reason = re.compile(entry["reason"])
        self.most = entry["most"]
        self.results = entry.get("in")
        self.unless = entry.get("unless")
        self.possible = None  # whether the machine can run the test after all
        self.counts = {}  # by file

    def objection(self, result, file):
        """Why one more skip in this file of results is not allowed, or None."""
        if self.results is not None and result not in self.results:
            return f"this skip is allowed in {', '.join(self.results)} only"
        if self.unless is not None and self.machine_can():
            return f"this machine can run it: `{self.unless.strip()}` succeeds"
        self.counts[file] = self.counts.get(file, 0) + 1
        if self.counts[file] > self.most:
            return f"only {self.most} such skips are allowed"
        return None

    def machine_can(self):
        if self.possible is None:
            try:
                done = subprocess.run(["sh", "-c", self.unless], cwd=ROOT, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                      timeout=PROBE_SECONDS, check=False)
                self.possible = done.returncode == 0
            except subprocess.TimeoutExpired:
                self.possible = False
        return self.possible


class AllowedSkips:
    """The table; it counts the skips that it is asked about."""

    def __init__(self, path=TABLE):
        with open(path, "rb") as file:
            self.entries = [AllowedSkip(entry) for entry in tomllib.load(file).get("skip", [])]

    def objection(self, result, file, reason):
        """Why a test in this file of results must not be skipped with this reason, or None if it may."""
        for entry in self.entries:
            if entry.reason.search(reason):
                return entry.objection(result, file)
        return f"{TABLE.name} does not list this reason"
