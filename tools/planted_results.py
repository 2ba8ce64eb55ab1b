"""What became of planted faults: build/planted/results.jsonl, one line for each that was planted."""

import hashlib
import json
import math

from planted_list import Tests

COMMANDS = [  # (who runs the test, as the table calls it; part of ./dev test; whose faults)
    ("./dev test: dev", True, lambda fault: fault.preset == "dev" and not fault.is_python),
    ("./dev test: Python", True, lambda fault: fault.preset == "dev" and fault.is_python),
    ("./dev test full asan", False, lambda fault: fault.preset == "asan"),
    ("./dev test full tsan", False, lambda fault: fault.preset == "tsan"),
    ("./dev test full fuzz", False, lambda fault: fault.preset == "fuzz"),
]


class Results:
    """A result holds as long as the row, the file with the fault and the sources of the test are the same."""

    def __init__(self, root):
        self.root = root
        self.tests = Tests(root)
        self.path = root / "build" / "planted" / "results.jsonl"
        self.hashes = {}  # of faults, as the files were when we first looked
        self.lines = {}
        if self.path.is_file():
            for line in self.path.read_text().splitlines():
                result = json.loads(line)
                self.lines[result["id"], result["hash"]] = result

    def hash_of(self, fault):
        if fault.id not in self.hashes:
            self.hashes[fault.id] = self._hash(fault)
        return self.hashes[fault.id]

    def _hash(self, fault):
        found = hashlib.sha256(json.dumps([fault.file, fault.change, fault.check]).encode())
        for path in [self.root / fault.file, *self.tests.sources(fault.test)]:
            found.update(hashlib.sha256(path.read_bytes()).digest())
        return found.hexdigest()[:16]

    def of(self, fault):
        return self.lines.get((fault.id, self.hash_of(fault)))

    def found(self, fault):
        result = self.of(fault)
        return result is not None and result["found"]

    def add(self, fault, told, seconds):
        result = {"id": fault.id, "hash": self.hash_of(fault), "found": told.startswith("found"), "told": told,
                  "seconds": round(seconds, 1)}
        self.lines[fault.id, result["hash"]] = result
        with open(self.path, "a") as file:
            file.write(json.dumps(result) + "\n")


def report(results, faults):
    """How many faults each command finds. A test that plants its fault itself shows that in every run."""
    lines = ["| command | faults | found | missed | not planted yet |", "|---|---|---|---|---|"]
    found_by_test = 0
    for name, in_test, has in COMMANDS:
        for runs in ("gating", "long"):
            own = [fault for fault in faults if has(fault) and fault.runs == runs]
            if not own:
                continue
            known = [results.of(fault) for fault in own if fault.is_planted]
            found = len(own) - len(known) + sum(result is not None and result["found"] for result in known)
            unknown = known.count(None)
            command = name if runs == "gating" else name.replace("test:", "test full") + ", long"
            lines.append(f"| `{command}` | {len(own)} | {found} | {len(own) - found - unknown} | {unknown} |")
            found_by_test += found if in_test and runs == "gating" else 0
    percent = math.floor(100 * found_by_test / max(1, len(faults)))
    return "\n".join([*lines, "", f"`./dev test` finds {found_by_test} of {len(faults)} faults: {percent} %."])
