#!/usr/bin/env python3
"""Proves that the tests find faults: each is planted into a copy of the tree, and its test must fail.

    planted_faults.py check                         the list in tests/planted fits the sources
    planted_faults.py table                         prints the list
    planted_faults.py run [ids] [--module NAME]     plants them one after the other and runs their tests
    planted_faults.py report                        prints what each command finds, by the results of `run`

`run` keeps its results in build/planted. What it found is not planted again while the row, the file with the fault
and the sources of the test stay as they are; a run that was ended goes on where it was.
"""

import argparse
import pathlib
import sys
import time
import tomllib

sys.path.append(str(pathlib.Path(__file__).resolve().parent / "dev"))

from changed import begin_of_change, changed_files  # noqa: E402
from console import output_of  # noqa: E402
from planted_copy import Copy  # noqa: E402
from planted_list import list_files, list_troubles, parse_faults, read_faults, table  # noqa: E402
from planted_results import Results, report  # noqa: E402

LEAST_LIMIT = 60  # seconds for a test that sees its fault as a hang
TIMES_SLOWER = 8  # than without the fault


# ---- what has changed ---------------------------------------------------------------------------


def changed_faults(root, tests, faults, since):
    """The faults whose row, file or test is another one than in that commit."""
    if since and output_of("git", "rev-parse", "--verify", f"{since}^{{commit}}", cwd=root) is None:
        raise SystemExit(f"planted_faults: no such commit: {since}")
    commit = since or begin_of_change(root)
    names = changed_files(commit, root)
    if names is None:
        return faults
    changed = {root / name for name in names}
    before = [(fault.file, fault.id, fault.row) for fault in faults_at(root, commit)]
    return [fault for fault in faults if (fault.file, fault.id, fault.row) not in before or
            changed.intersection([root / fault.file, *tests.sources(fault.test)])]


def faults_at(root, commit):
    for path in list_files(root):
        try:
            yield from parse_faults(output_of("git", "show", f"{commit}:{path.relative_to(root)}", cwd=root) or "")
        except (AttributeError, tomllib.TOMLDecodeError):
            pass  # in a form that we do not know: all of its rows are new


# ---- planting -----------------------------------------------------------------------------------


def plant(copy, fault, limit):
    """(the way the fault was found, or that it was not; the output of the test or the build)."""
    path = copy.tree / fault.file
    original = path.read_text()
    try:
        path.write_text(fault.planted_in(original))
        if trouble := copy.build([fault.check]):
            return "DOES NOT BUILD", trouble
        outcome = copy.run(fault.check, limit)
    finally:
        path.write_text(original)
    if outcome.passed:
        return "NOT FOUND", outcome.output
    return f"found by {outcome.first_failure()}", outcome.output


def limit_of(copy, check):
    """(the seconds that a test may take with a fault; what is wrong with it without one)."""
    if not copy.runs_as_told(check):
        return None, "does not gate: ./dev test leaves it out"
    if trouble := copy.build([check]):
        return None, f"does not build without a fault:\n{trouble}"
    outcome = copy.run(check, 600)
    if not outcome.passed or outcome.cases_run() == 0:
        return None, f"fails, or runs nothing, without a fault:\n{outcome.output}"
    return max(LEAST_LIMIT, TIMES_SLOWER * outcome.seconds), None


def plant_all(root, faults, results, deadline):
    """How many were planted, and how many of these were not found. The first build may take all the time: one is planted
    even so."""
    copy = Copy(root)
    copy.sync()
    presets = set()
    checks = sorted(dict.fromkeys(fault.check for fault in faults), key=lambda check: check[0] != "dev")
    logs = root / "build" / "planted" / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    planted, missed = 0, 0
    for check in checks:
        if planted and time.monotonic() > deadline:
            break
        if check[0] not in presets:
            presets.add(check[0])
            copy.configure(check[0], [fault for fault in faults if fault.preset == check[0]])
        limit, trouble = limit_of(copy, check)
        if trouble:
            print(f"{' '.join(check)} {trouble}")
        for fault in [fault for fault in faults if fault.check == check]:
            if planted and time.monotonic() > deadline:
                break
            begin = time.monotonic()
            told, output = plant(copy, fault, limit) if limit else ("ITS TEST FAILS WITHOUT IT", trouble)
            seconds = time.monotonic() - begin
            results.add(fault, told, seconds)
            (logs / f"{fault.id}.log").write_text(output)
            planted += 1
            missed += not told.startswith("found")
            print(f"{fault.id:36} {seconds:6.1f} s  {told}", flush=True)
    return planted, missed


def cmd_run(root, args):
    deadline = time.monotonic() + args.limit
    faults = [fault for fault in read_faults(root, args.module) if fault.is_planted]
    if unknown := set(args.ids) - {fault.id for fault in faults}:
        raise SystemExit(f"planted_faults: no such fault: {', '.join(sorted(unknown))}")
    results = Results(root)
    faults = [fault for fault in faults if not args.ids or fault.id in args.ids]
    if args.changed:
        faults = changed_faults(root, results.tests, faults, args.since)
    todo = [fault for fault in faults if args.again or not results.found(fault)]
    if len(todo) < len(faults):
        print(f"{len(faults) - len(todo)} of {len(faults)} faults were found before (--again plants them anew)")
    if not todo:
        print(f"0 of {len(faults)} faults are left to plant")
        return 0
    planted, missed = plant_all(root, todo, results, deadline)
    print(f"{planted - missed} of {planted} planted faults were found; outputs: build/planted/logs")
    if planted < len(todo):
        print(f"{len(todo) - planted} faults were left out: the time was over")
    return 1 if missed else 0


def cmd_check(root):
    troubles = list(list_troubles(root))
    for trouble in troubles:
        print(trouble)
    return 1 if troubles else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[1])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("check", "table", "report"):
        commands.add_parser(name)
    run = commands.add_parser("run")
    run.add_argument("ids", nargs="*")
    run.add_argument("--module", help="a file of tests/planted")
    run.add_argument("--changed", action="store_true", help="only faults whose row, file or test has changed")
    run.add_argument("--since", metavar="COMMIT", help="... since then, not since the last change that landed")
    run.add_argument("--limit", type=float, default=float("inf"), metavar="SECONDS", help="then it begins no more; one is planted in any case")
    run.add_argument("--again", action="store_true", help="plants what was found before, too")
    args = parser.parse_args()
    if args.command == "check":
        return cmd_check(args.root)
    if args.command == "run":
        return cmd_run(args.root, args)
    faults = read_faults(args.root)
    print(table(faults) if args.command == "table" else report(Results(args.root), faults))
    return 0


if __name__ == "__main__":
    sys.exit(main())
