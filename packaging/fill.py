#!/usr/bin/env python3
"""Copies the recipes of packaging/ with the version of CMakeLists.txt, the date, and the hashes of an archive.

    fill.py [--archive dist/tutti-1.2.3.tar.gz] FOLDER [NAME ...]     names: conda-forge, debian, spack, vcpkg [all]
    fill.py --version                                                 prints the version

Without an archive the hashes are left as they stand.
"""

import argparse
import email.utils
import hashlib
import pathlib
import re
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
RECIPES = ("conda-forge", "debian", "spack", "vcpkg")
WORD = re.compile(r"@([A-Z0-9]+)@")


def version():
    """The version that CMakeLists.txt gives the project."""
    return re.search(r"^\s+VERSION (\d+\.\d+\.\d+)", (HERE.parent / "CMakeLists.txt").read_text(encoding="utf-8"), re.MULTILINE)[1]


def words(archive):
    """The text for each @WORD@ of a recipe."""
    found = {"VERSION": version(), "DATE": email.utils.formatdate(localtime=True)}
    if archive:
        data = archive.read_bytes()
        found |= {"SHA256": hashlib.sha256(data).hexdigest(), "SHA512": hashlib.sha512(data).hexdigest()}
    return found


def fill(name, folder, values):
    """A copy of the recipe in folder/NAME; a word without a value stays."""
    target = folder / name
    shutil.copytree(HERE / name, target, dirs_exist_ok=True)
    for path in target.rglob("*"):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            path.write_text(WORD.sub(lambda match: values.get(match[1], match[0]), text), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", action="version", version=version())
    parser.add_argument("--archive", type=pathlib.Path, help="the sdist that the recipes name")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"recipes [{' '.join(RECIPES)}]")
    args = parser.parse_args()
    if unknown := sorted({*args.names} - {*RECIPES}):
        parser.error(f"no recipe {' '.join(unknown)}; there are {' '.join(RECIPES)}")
    if args.archive and not args.archive.is_file():
        parser.error(f"no file {args.archive}")
    for name in args.names or RECIPES:
        fill(name, args.folder, words(args.archive))
    return 0


if __name__ == "__main__":
    sys.exit(main())
