"""The ABI of libtutti.so is that of abi.xml.xz: types, functions and variables of the public headers.

    abi_test.py --library libtutti.so --headers include build/shared/include [--write]

Programs are compiled with it. Until the first version is tagged, --write takes what is new; later a change of what was
there needs another number: TUTTI_ABI in src/CMakeLists.txt and the inline namespace of the public headers.
"""

import argparse
import lzma
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
DUMP = HERE / "abi.xml.xz"
LIMIT = 180


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--headers", nargs="+", required=True)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    headers = [word for folder in args.headers for word in ("--headers-dir", folder)]
    with tempfile.TemporaryDirectory() as folder:
        now, before = pathlib.Path(folder) / "now.xml", pathlib.Path(folder) / "before.xml"
        subprocess.run(["abidw", *headers, "--drop-private-types", "--suppressions", HERE / "abi.suppr", "--no-corpus-path",
                        "--no-comp-dir-path", "--no-show-locs", "--no-architecture", "--exported-interfaces-only", "--no-elf-needed",
                        "--no-parameter-names", "--out-file", now, args.library], check=True, timeout=LIMIT)
        if args.write:
            DUMP.write_bytes(lzma.compress(now.read_bytes(), preset=9))
            return 0
        before.write_bytes(lzma.decompress(DUMP.read_bytes()))
        told = subprocess.run(["abidiff", "--suppressions", HERE / "abi.suppr", before, now], timeout=LIMIT, check=False)
    if told.returncode != 0:
        print("the ABI is another one. Look whether it must be; abi_test.py --write takes it")
    return told.returncode


if __name__ == "__main__":
    sys.exit(main())
