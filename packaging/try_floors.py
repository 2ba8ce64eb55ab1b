#!/usr/bin/env python3
"""Tries wheels of tutti, or its sources, in Debians that debootstrap makes, and prints a row of a table for each.

    try_floors.py [--folder FOLDER] [--sources] [WHEEL ...] [--releases debian:12,debian:13]

Needs root and debootstrap. Wheels: each release installs the one for its Python into a new environment, two ranks add
up an array, and `tutti doctor` looks at the machine. Debian 11 is too old: pip must say that it has no wheel for it.
--sources: the library, tuttirun and an example are compiled by the compiler of the release, and two ranks run it.
The rows go into docs/design/dependencies.md by hand.
"""

import argparse
import datetime
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tools"))

import run_dockerfile  # noqa: E402

RELEASES = ("debian:11", "debian:12", "debian:13", "debian:testing", "debian:sid")
TOO_OLD = ("debian:11",)
APT = "apt-get update -q && apt-get install -y -q --no-install-recommends "
FACTS = "ldd --version | sed -n '1s/.* //p'; {} --version | sed -n '1s/.* //p'"
WHEEL = f"""
RUN {APT} ca-certificates libstdc++6 python3 python3-venv
RUN ({FACTS.format("python3")}) >/facts
RUN python3 -m venv /opt/tutti && /opt/tutti/bin/pip install -q numpy
COPY {{wheels}} /wheels
"""
INSTALL = """
RUN /opt/tutti/bin/pip install -q --no-index --find-links /wheels tutti
COPY examples/python /examples
ENV PATH=/opt/tutti/bin:/usr/bin:/bin
RUN timeout 60 tuttirun --nproc-per-node 2 /examples/02_all_reduce.py
RUN timeout 60 tutti doctor
"""
REFUSED = """
RUN if /opt/tutti/bin/pip install -q --no-index /wheels/*.whl >/said 2>&1; then exit 3; fi
"""
SOURCES = f"""
RUN {APT} ca-certificates cmake g++ libcli11-dev libfmt-dev libhwy-dev libssl-dev ninja-build nlohmann-json3-dev
RUN ({FACTS.format("g++")}) >/facts
RUN dpkg-query -W libfmt-dev libhwy-dev nlohmann-json3-dev libcli11-dev libssl-dev cmake
COPY . /tutti
WORKDIR /tutti
RUN cmake -G Ninja -S . -B build -DTUTTI_UNITY=ON -DTUTTI_TESTS=OFF -DTUTTI_BENCH=OFF -DCMAKE_BUILD_TYPE=Release
RUN cmake --build build --target tutti tuttirun 02_all_reduce
RUN timeout 60 build/bin/tuttirun --nproc-per-node 2 build/bin/02_all_reduce
"""


def attempt(builder, image, text, where):
    """The facts of the release (versions) and what came out, in words; `where`: the root of the release is kept there."""
    stage = run_dockerfile.stages(f"FROM {image}\n{text}")[0]
    try:
        root = builder.make(image.replace(":", "-"), stage)[0]
        outcome = "works"
    except subprocess.CalledProcessError as error:
        root, outcome = where / f"stage{image.replace(':', '-')}", f"FAILED: {error.cmd[-1].splitlines()[-1][-80:]}"
    facts = root / "facts"
    said = root / "said"
    if outcome == "works" and said.exists():
        outcome = f"pip refuses: {said.read_text(encoding='utf-8').strip().splitlines()[0]}"
    return facts.read_text(encoding="utf-8").split() if facts.exists() else ["?", "?"], outcome


def text_for(image, wheels):
    """The commands that run in that release."""
    if not wheels:
        return SOURCES
    return WHEEL.format(wheels=wheels) + (REFUSED if image in TOO_OLD else INSTALL)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, help="where the Debians go [a new one for temporary files]")
    parser.add_argument("--releases", type=lambda given: given.split(","), default=RELEASES, help="with commas")
    parser.add_argument("--sources", action="store_true", help="compile the sources in place of trying wheels")
    parser.add_argument("wheels", nargs="*", type=pathlib.Path)
    args = parser.parse_args()
    if args.sources == bool(args.wheels):
        parser.error("either wheels or --sources")
    if unknown := [image for image in args.releases if image not in run_dockerfile.RELEASES]:
        parser.error(f"no such release: {' '.join(unknown)}; there are {' '.join(run_dockerfile.RELEASES)}")
    rows = []
    for image in args.releases:
        with tempfile.TemporaryDirectory(prefix="tutti-floors-", dir=args.folder) as folder:
            where = pathlib.Path(folder)
            wheels = where / "wheels" if args.wheels else None
            if wheels:
                wheels.mkdir()
                for wheel in args.wheels:
                    shutil.copy(wheel, wheels)
            facts, outcome = attempt(run_dockerfile.Builder(where), image, text_for(image, wheels), where)
        rows.append((image, *facts, outcome, datetime.date.today().isoformat()))
        print(f"==> {rows[-1]}", flush=True)
    print("\n".join(f"| {' | '.join(row)} |" for row in rows))
    return any("FAILED" in outcome for *_, outcome, _ in rows)


if __name__ == "__main__":
    sys.exit(main())
