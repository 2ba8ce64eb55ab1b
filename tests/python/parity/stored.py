"""The results of torch.distributed with gloo for each cell, in short texts, and the file of its version that keeps them.

TUTTI_PARITY_RECORD=1 makes the files anew; TUTTI_ROTATION chooses the number of ranks on which torch itself runs.
"""

import hashlib
import importlib.metadata
import json
import os
import pathlib
import re

from arrays import HAS_TORCH
from differences import ENGINE_TEXT, words

HERE = pathlib.Path(__file__).resolve().parent
SHORT = 40  # characters of a value that are kept as they are
CUT = 160  # characters that are kept of a text that no program relies on
ENGINE_FILE = HERE / "engine_texts.jsonl"
NOT_RUN = ("nothing",)  # a step that a rank does not have


def recording():
    return os.environ.get("TUTTI_PARITY_RECORD", "0") not in ("", "0")


def newest():
    """The newest version of torch whose names and results are stored."""
    found = [path.stem.removeprefix("signatures-") for path in HERE.glob("signatures-*.jsonl")]
    return max(found, key=lambda version: [int(part) for part in version.split(".")])


def version():
    return importlib.metadata.version("torch").partition("+")[0] if HAS_TORCH else newest()


def file_of_torch(suite):
    return HERE / f"torch-{version()}{'' if suite == 'cells' else '-' + suite}.jsonl"


def real_sizes(suite, sizes):
    """Numbers of ranks on which torch itself runs; on the others its stored results do."""
    if not HAS_TORCH:
        return []
    turn = os.environ.get("TUTTI_ROTATION") or "0"
    if turn == "all" or recording() or not file_of_torch(suite).exists():
        return list(sizes)
    return [sizes[int(turn) % len(sizes)]]


def token(value):
    """A short text, equal for equal values only."""
    text = repr(value)
    if len(text) <= SHORT and "tensor" not in text:
        return text
    kind = type(value).__name__
    if isinstance(value, tuple) and value[:1] == ("tensor",):
        kind = f"{value[1].removeprefix('torch.')}{list(value[2])}"
    return f"{kind} {hashlib.sha256(text.encode()).hexdigest()[:12]}"


def kept(outcome):
    """An outcome of the worker without what differs from run to run: addresses, moments, long values."""
    if outcome[0] == "value":
        return ("value", token(outcome[1]), outcome[2])
    kind, classes, text, warnings = outcome
    text = re.sub(r"0x[0-9a-f]+", "0x..", re.sub(r"\[F\d+ [\d:.]+ ", "[F ", text))
    text = re.sub(r"port: \d+", "port: ..", text)
    text = text.split("  Available functions are [")[0]  # the kernels that this build of torch has, with their files
    if ENGINE_TEXT.search(text[:CUT]):
        text = text[:CUT]
    return (kind, classes[:1], text, warnings)


def packed(outcome):
    if outcome == NOT_RUN:
        return None
    if outcome[0] == "value" and not outcome[2]:
        return outcome[1]
    keys = ("value", "warnings") if outcome[0] == "value" else ("error", "text", "warnings")
    parts = outcome[1:] if outcome[0] == "value" else (outcome[1][0], *outcome[2:])
    return {key: part for key, part in zip(keys, parts) if part}


def unpacked(form):
    if form is None:
        return NOT_RUN
    if isinstance(form, str):
        return ("value", form, [])
    if "value" in form:
        return ("value", form["value"], form.get("warnings", []))
    return ("error", [form["error"]], form.get("text", ""), form.get("warnings", []))


def single(forms):
    """A list of equal elements is one element."""
    return forms[0] if all(form == forms[0] for form in forms) else forms


def write(suite, results):
    """`results`: by size, a list of ranks' {cell: kept outcome}. One line per cell; equal results stand once."""
    sizes = sorted(results)
    cells = {cell: None for size in reversed(sizes) for rank in results[size] for cell in rank}  # in their order
    with open(file_of_torch(suite), "w", encoding="utf-8") as file:
        for cell in cells:
            by_size = {str(size): single([packed(rank.get(cell, NOT_RUN)) for rank in results[size]]) for size in sizes}
            forms = list(by_size.values())
            line = {"cell": cell, **({"all": forms[0]} if single(forms) is forms[0] and not isinstance(forms[0], list)
                                     else by_size)}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def cells(suite):
    """Names of all cells."""
    return [json.loads(text)["cell"] for text in file_of_torch(suite).read_text(encoding="utf-8").splitlines()]


def read(suite, size):
    """For each rank of so many {cell: kept outcome}."""
    ranks = [{} for _ in range(size)]
    for text in file_of_torch(suite).read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        forms = line["all"] if "all" in line else line[str(size)]
        for rank in range(size):
            outcome = unpacked(forms[rank] if isinstance(forms, list) else forms)
            if outcome != NOT_RUN:
                ranks[rank][line["cell"]] = outcome
    return ranks


def engine_form(ours):
    """Class and text of an error of ours; # stands for numbers, which differ between ranks and sizes."""
    text = re.sub(r"/\S+/store\b|0x[0-9a-f]+", "..", ours[2])
    return ours[1][0], words(re.sub(r"(?<![A-Za-z_])\d+", "#", text))


def write_engine_texts(found):
    """`found`: by cell, a set of engine forms."""
    with open(ENGINE_FILE, "w", encoding="utf-8") as file:
        for cell, forms in sorted(found.items()):
            for kind, text in sorted(forms):
                file.write(json.dumps({"cell": cell, "error": kind, "text": text}, ensure_ascii=False) + "\n")


def read_engine_texts():
    found = {}
    for text in ENGINE_FILE.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        found.setdefault(line["cell"], set()).add((line["error"], words(line["text"])))
    return found
