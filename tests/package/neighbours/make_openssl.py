"""Writes a library with all names of OpenSSL: each function ends the process.

    make_openssl.py OUT.cpp LIBRARY...
"""

import pathlib
import subprocess
import sys


def main():
    out, libraries = sys.argv[1], sys.argv[2:]
    names = set()
    for library in libraries:
        done = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True, timeout=60)
        for line in done.stdout.splitlines():
            _, kind, name = line.split()
            if kind == "T":
                names.add(name.partition("@")[0])
    assert {"SSL_new", "EVP_sha256", "CRYPTO_free"} <= names, len(names)
    text = ["#include <cstdio>", "#include <cstdlib>", "extern \"C\" {",
            "static void called(const char* name) { std::fprintf(stderr, \"tutti called the program's %s\\n\", name); std::abort(); }",
            *(f"void {name}() {{ called(\"{name}\"); }}" for name in sorted(names - {"_init", "_fini"})), "}"]
    pathlib.Path(out).write_text("\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
