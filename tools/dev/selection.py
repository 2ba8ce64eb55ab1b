"""Which tests of a preset run: ctest lists them, labels say what each of them is."""

import json
import os
import re

from console import BUILD, ROOT, Failed, output_of

SIZE = re.compile(r"size_(\d+)_of_(\d+)")


class Rotation:
    """The number that chooses sizes, seeds and cases; `all` takes every one of them."""

    def __init__(self, number=None):
        text = str(number) if number is not None else os.environ.get("TUTTI_ROTATION") or \
            (ROOT / ".ci" / "part").read_text(encoding="utf-8").strip()
        if not re.fullmatch(r"all|0|[1-9][0-9]{0,17}", text):
            raise Failed(f"TUTTI_ROTATION is a number or all, not '{text}'")
        self.number = text
        os.environ["TUTTI_ROTATION"] = text  # for the tests themselves

    def takes(self, labels):
        """False for a test on a number of ranks whose turn it is not."""
        found = next(filter(None, map(SIZE.fullmatch, labels)), None)
        return found is None or self.chooses(int(found[1]), int(found[2]))

    def chooses(self, place, count):
        return self.number == "all" or int(self.number) % count == place


class Test:
    """One entry of ctest's list for a preset."""

    def __init__(self, number, entry, build, outputs):
        properties = {each["name"]: each["value"] for each in entry.get("properties", [])}
        self.number = number  # ctest -I counts only the tests that the filter of the preset lets through
        self.name = entry["name"]
        self.labels = set(properties.get("LABELS", []))
        self.processes = properties.get("PROCESSORS", 1) if "ranks" in self.labels else 1
        named = [word.rpartition("=")[2] for word in entry.get("command", [])] + properties.get("REQUIRED_FILES", [])
        self.targets = outputs & {word.removeprefix(f"{build}/") for word in named}

    def is_of(self, labels):
        return not self.labels.isdisjoint(labels)


def tests_of(preset):
    """All tests that the preset runs."""
    build = BUILD / preset
    listed = output_of("ctest", "--preset", preset, "--show-only=json-v1")
    known = output_of("ninja", "-C", build, "-t", "targets", "all")
    if not listed or not known:
        raise Failed(f"ctest or Ninja cannot list what is in build/{preset}")
    # Ninja lists sources, too, by their whole paths.
    outputs = {line.rpartition(": ")[0] for line in known.splitlines() if not line.startswith("/")}
    return [Test(number, entry, build, outputs) for number, entry in enumerate(json.loads(listed)["tests"], 1)]


def targets_of(tests):
    return sorted({target for test in tests for target in test.targets})
