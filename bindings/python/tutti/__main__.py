"""`python -m tutti run ...` is tuttirun; `bench`, `doctor`, `version` and options are the command `tutti`."""

import sys

from tutti._programs import start

if sys.argv[1:2] == ["run"]:
    start("tuttirun", sys.argv[2:])
start("tutti", sys.argv[1:])
