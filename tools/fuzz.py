#!/usr/bin/env python3
"""Runs fuzzers for a bounded time, and keeps the inputs that they begin with.

    fuzz.py run --seconds 3 --long 60 --seeds tests/fuzz/seeds/url_fuzz.txt --work FOLDER PROGRAM
    fuzz.py must-find --runs 1000000 --work FOLDER PROGRAM
    fuzz.py coverage --least 90 --work FOLDER --seeds FOLDER --programs ... --sources ...
    fuzz.py keep --seconds 60 --seeds tests/fuzz/seeds/url_fuzz.txt --work FOLDER PROGRAM

A file of seeds holds one input per line, as a Python bytes literal without its quotes; # begins a
comment. `run` takes --long seconds if TUTTI_LONG_TESTS is set. `must-find` searches in the same way each
time: from one seed on, at most so many inputs, and with the program where it always is in memory. `keep` fuzzes, then writes the fewest
inputs that reach all that was reached into the file. Exit status: 0 if all is well, 1 if a fuzzer
has found something (must-find: nothing), or if fewer lines were reached.
"""

import argparse
import ast
import ctypes
import json
import os
import pathlib
import shutil
import subprocess
import sys

RSS_LIMIT_MB = 1024
ROOT = pathlib.Path(__file__).resolve().parents[1]
INPUT_SECONDS = 10  # for one input; what takes longer is a find
LEAST_SEED_BYTES = 1
SEED = 1
ADDR_NO_RANDOMIZE = 0x0040000  # personality(2)


def is_long():
    return os.environ.get("TUTTI_LONG_TESTS", "") not in ("", "0")


def read_seeds(path):
    seeds = []
    for line in path.read_text(encoding="ascii").splitlines():
        if line and not line.startswith("#"):
            seeds.append(ast.literal_eval(f'b"{line}"'))
    return seeds


def escape(data):
    text = repr(data)[2:-1]
    # repr takes ' as the quote where there is a " inside, and the other way around.
    text = text.replace("\\'", "'").replace('"', '\\"')
    return "\\x23" + text[1:] if text.startswith("#") else text


def unpack(seeds, folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for number, seed in enumerate(seeds):
        (folder / f"{number:04}").write_bytes(seed)


def keep_addresses():
    """Of this process: what a fuzzer tries next depends on them. Where a sandbox forbids it they differ."""
    ctypes.CDLL(None).personality(ADDR_NO_RANDOMIZE)


def fuzz(program, work, options, folders, profile=None, quiet=False, prepare=None):
    """Exit status of the fuzzer and what it printed. What it finds stays in `work`."""
    work.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ, LLVM_PROFILE_FILE=str(profile or os.devnull))
    command = [program, f"-rss_limit_mb={RSS_LIMIT_MB}", f"-timeout={INPUT_SECONDS}",
               f"-artifact_prefix={work}/", *options, *map(str, folders)]
    # Programs print what they are given: anything.
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
                          preexec_fn=prepare)
    if done.returncode != 0 and not quiet:
        print(done.stdout[-8000:])
    return done.returncode, done.stdout


def last_line_with(text, word):
    return next((line for line in reversed(text.splitlines()) if word in line), "")


def run(args):
    seeds = args.work / "seeds"
    corpus = args.work / "corpus"
    unpack(read_seeds(args.seeds), seeds)
    shutil.rmtree(corpus, ignore_errors=True)
    corpus.mkdir()
    seconds = args.long if is_long() else args.seconds
    status, text = fuzz(args.program, args.work, [f"-max_total_time={seconds}"], [corpus, seeds])
    print(last_line_with(text, "exec/s"))
    return 1 if status else 0


def must_find(args):
    status, text = fuzz(args.program, args.work, [f"-seed={SEED}", f"-runs={args.runs}"], [],
                        quiet=True, prepare=keep_addresses)
    if status == 0:
        print(f"nothing was found with {args.runs} inputs, but a check is missing")
        return 1
    found = [line for line in text.splitlines() if "SUMMARY:" in line or "ERROR:" in line]
    print("\n".join(found) or text[-4000:])
    print(last_line_with(text, "cov:"))
    # A fuzzer that cannot even start finds nothing.
    return 0 if last_line_with(text, "Test unit written to") else 1


def keep(args):
    old = args.work / "seeds"
    corpus = args.work / "corpus"
    kept = args.work / "kept"
    unpack(read_seeds(args.seeds) if args.seeds.exists() else [], old)
    corpus.mkdir(exist_ok=True)
    status, _ = fuzz(args.program, args.work,
                     [f"-max_total_time={args.seconds}", f"-max_len={args.most_bytes}"],
                     [corpus, old])
    if status:
        return 1
    unpack([], kept)
    status, _ = fuzz(args.program, args.work, ["-merge=1", f"-max_len={args.most_bytes}"],
                     [kept, old, corpus])
    if status:
        return 1
    comments = [line for line in (args.seeds.read_text(encoding="ascii").splitlines()
                                  if args.seeds.exists() else []) if line.startswith("#")]
    lines = sorted({escape(path.read_bytes()) for path in kept.iterdir()
                    if path.stat().st_size >= LEAST_SEED_BYTES}, key=lambda line: (len(line), line))
    args.seeds.write_text("\n".join(comments + lines) + "\n", encoding="ascii")
    print(f"{len(lines)} seeds in {args.seeds}")
    return 0


def coverage(args):
    profiles = []
    for program in args.programs:
        name = pathlib.Path(program).name
        work = args.work / "coverage" / name
        unpack(read_seeds(args.seeds / f"{name}.txt"), work / "seeds")
        profiles.append(work / "profile")
        status, _ = fuzz(program, work, ["-runs=0"], [work / "seeds"], profiles[-1])
        if status:
            return 1
    merged = args.work / "coverage" / "merged"
    subprocess.run([args.profdata, "merge", "-sparse", "-o", merged, *profiles], check=True)
    # Fuzzers are links to programs that hold several of them.
    programs = sorted({os.path.realpath(program) for program in args.programs})
    objects = [word for program in programs for word in ("-object", program)]
    report = subprocess.run([args.cov, "export", "-summary-only", f"-instr-profile={merged}",
                             *objects[1:]], check=True, stdout=subprocess.PIPE)
    wanted = {os.path.realpath(source) for source in args.sources}
    files = [file for file in json.loads(report.stdout)["data"][0]["files"]
             if os.path.realpath(file["filename"]) in wanted]
    low = []
    for file in sorted(files, key=lambda file: file["filename"]):
        lines = file["summary"]["lines"]
        name = os.path.relpath(file["filename"], ROOT)
        print(f"{lines['percent']:6.1f} %  {lines['covered']:4} of {lines['count']:4} lines  {name}")
        if lines["percent"] < args.least:
            low.append(name)
    missing = wanted - {os.path.realpath(file["filename"]) for file in files}
    total = sum(file["summary"]["lines"]["count"] for file in files)
    covered = sum(file["summary"]["lines"]["covered"] for file in files)
    print(f"{100 * covered / max(total, 1):6.1f} %  of all")
    for name in low + sorted(missing):
        print(f"too few lines of {name} are reached by the seeds; {args.least} % is the least")
    return 1 if low or missing else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, function in {"run": run, "must-find": must_find, "keep": keep,
                           "coverage": coverage}.items():
        command = commands.add_parser(name)
        command.set_defaults(function=function)
        command.add_argument("--work", type=pathlib.Path, required=True,
                             help="folder for what is found")
        if name != "must-find":
            command.add_argument("--seeds", type=pathlib.Path, required=True)
        if name == "coverage":
            command.add_argument("--least", type=float, required=True, help="per cent of each file")
            command.add_argument("--cov", default="llvm-cov-14")
            command.add_argument("--profdata", default="llvm-profdata-14")
            command.add_argument("--programs", nargs="+", required=True)
            command.add_argument("--sources", nargs="+", required=True)
            continue
        if name == "must-find":
            command.add_argument("--runs", type=int, required=True)
        else:
            command.add_argument("--seconds", type=int, required=True)
        if name == "run":
            command.add_argument("--long", type=int, required=True,
                                 help="seconds if TUTTI_LONG_TESTS is set")
        if name == "keep":
            command.add_argument("--most-bytes", type=int, default=512)
        command.add_argument("program")
    args = parser.parse_args()
    return args.function(args)


if __name__ == "__main__":
    sys.exit(main())
