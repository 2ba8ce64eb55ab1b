"""`python -m tutti run ...` is tuttirun; `bench`, `doctor`, `version` and options are the command `tutti`. `--cmake-dir`
and `--includes` tell a build of C++ where the package has the library."""

import sys

from tutti._programs import for_cpp, start

if sys.argv[1:] in (["--cmake-dir"], ["--includes"]):
    print(for_cpp(sys.argv[1]))
elif sys.argv[1:2] == ["run"]:
    start("tuttirun", sys.argv[2:])
else:
    start("tutti", sys.argv[1:])
