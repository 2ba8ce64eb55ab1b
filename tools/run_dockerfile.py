#!/usr/bin/env python3
"""Runs a Dockerfile without Docker: each stage in a Debian of its own below a folder, by chroot.

    run_dockerfile.py [--file Dockerfile] [--folder FOLDER] [--target STAGE] [--keep]

Needs root and debootstrap, which makes the Debian that `FROM debian:12` and `debian:12-slim` name. It knows FROM, COPY,
WORKDIR, RUN, ENV and CMD; the command of the last stage is run at the end. PIP_* and *_PROXY of the environment count
inside, and so do the name servers and certificates of this host. tests/package/tools/run_dockerfile_test.py reads the
repository's Dockerfile by `stages`.
"""

import argparse
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RELEASES = {"debian:11": "bullseye", "debian:12": "bookworm", "debian:12-slim": "bookworm", "debian:13": "trixie",
            "debian:testing": "testing", "debian:sid": "sid"}
# Files of this host, and where they lie inside. The certificates have a place of their own, because installing
# ca-certificates inside makes Debian's file anew.
CERTIFICATES = "/etc/host-certificates.crt"
HOST_FILES = {"/etc/resolv.conf": "/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt": CERTIFICATES}
LIMIT = 3600  # seconds for a RUN


def stages(text):
    """The stages: their names, what they are made from, and their instructions (name and words, or text of a RUN)."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        name, _, rest = line.strip().partition(" ")
        if not name or name.startswith("#"):
            continue
        if name == "FROM":
            words = rest.split()
            found.append((words[2] if words[1:2] == ["AS"] else "", words[0], []))
        elif name == "CMD":
            found[-1][2].append((name, json.loads(rest)))
        elif name in ("COPY", "WORKDIR", "ENV"):
            found[-1][2].append((name, shlex.split(rest)))
        elif name == "RUN":
            found[-1][2].append((name, rest))
        else:
            raise ValueError(f"an instruction that is not known here: {line}")
    return found


def wanted(all_stages, target):
    """The stages that the target (the last one unless named) is made of, in their order."""
    names = [name for name, _, _ in all_stages]
    left, kept = [names.index(target) if target else len(all_stages) - 1], set()
    while left:
        number = left.pop()
        kept.add(number)
        _, base, instructions = all_stages[number]
        others = [words[0].removeprefix("--from=") for name, words in instructions
                  if name == "COPY" and words[0].startswith("--from=")]
        left += [names.index(each) for each in (base, *others) if each in names]
    return [all_stages[number] for number in sorted(kept)]


def ignored(folder, names):
    """What .dockerignore leaves out, where it names a folder."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    return [name for name in names if f"**/{name}" in lines or (pathlib.Path(folder) == ROOT and name in lines)]


def passed(environment):
    """What counts inside of the environment of this host."""
    found = {name: value for name, value in environment.items()
             if name.startswith("PIP_") or name.lower().endswith("_proxy")}
    return {**found, "PIP_CERT": CERTIFICATES} if "PIP_CERT" in found else found


def inside(root, work, environment, command):
    """What a shell of this host runs, with this host's PATH, so that the command runs inside with that environment."""
    root, words = shlex.quote(str(root)), [f"{name}={value}" for name, value in environment.items()]
    entered = f"cd {shlex.quote(work)} && exec {shlex.join(command)}"
    return (f"mount -t proc proc {root}/proc && mount --rbind /dev {root}/dev && "
            f"exec chroot {root} {shlex.join(['/usr/bin/env', '-i', *words, '/bin/sh', '-c', entered])}")


class Builder:
    """Makes stages below a folder."""

    def __init__(self, folder):
        self.folder, self.made = folder, {}

    def base(self, image):
        """A Debian as debootstrap makes it."""
        root = self.folder / RELEASES[image]
        if not root.exists():
            subprocess.run(["debootstrap", "--variant=minbase", RELEASES[image], root], check=True, timeout=LIMIT)
        return root

    def make(self, number, stage):
        """The root of a stage, its environment and its command."""
        name, image, instructions = stage
        root = self.folder / f"stage{number}"
        _, environment, command, work = self.made.get(image, (None, {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, None, "/"))
        source = self.made[image][0] if image in self.made else self.base(image)
        subprocess.run(["cp", "-a", "--reflink=auto", source, root], check=True, timeout=LIMIT)
        environment = dict(environment)
        for file, inside in HOST_FILES.items():
            if pathlib.Path(file).exists():
                shutil.copy(file, root / inside.lstrip("/"))
        for kind, words in instructions:
            print(f"{kind} {words}", flush=True)
            if kind == "COPY":
                self.copy(root, work, words)
            elif kind == "WORKDIR":
                work = words[0]
            elif kind == "ENV":
                environment.update(word.split("=", 1) for word in words)
            elif kind == "CMD":
                command = words
            else:
                self.run(root, work, environment, ["/bin/sh", "-c", words])
        self.made[name] = root, environment, command, work
        return self.made[name]

    def copy(self, root, work, words):
        """COPY [--from=STAGE] what where."""
        stage = words[0].removeprefix("--from=") if words[0].startswith("--from=") else None
        what, where = words[-2:]
        source = (ROOT / what if stage is None else self.made[stage][0] / what.lstrip("/")).resolve()
        target = root / pathlib.Path(work, where).as_posix().lstrip("/")
        shutil.copytree(source, target, dirs_exist_ok=True, symlinks=True, ignore=None if stage else ignored)

    def run(self, root, work, environment, command):
        """A command in the stage, with its own processes."""
        subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
                        inside(root, work, {**passed(os.environ), "HOME": "/root", **environment}, command)],
                       check=True, timeout=LIMIT, stdin=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--file", type=pathlib.Path, default=ROOT / "Dockerfile")
    parser.add_argument("--folder", type=pathlib.Path, help="where the stages go, empty or new [a new one for temporary files]")
    parser.add_argument("--target", help="the stage that is wanted [the last one]")
    parser.add_argument("--keep", action="store_true", help="leave the stages there")
    args = parser.parse_args()
    folder = args.folder or pathlib.Path(tempfile.mkdtemp(prefix="tutti-dockerfile-"))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):  # it is removed in the end
        parser.error(f"{folder} is not empty")
    builder = Builder(folder)
    try:
        for number, stage in enumerate(wanted(stages(args.file.read_text(encoding="utf-8")), args.target)):
            root, environment, command, work = builder.make(number, stage)
        print(f"CMD {command}", flush=True)
        builder.run(root, work, environment, command)
    finally:
        if not args.keep:
            shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
