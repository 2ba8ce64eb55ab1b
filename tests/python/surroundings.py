"""The environment of the tests and of all that they start. Imported for its effect, before anything that reads it."""

import atexit
import os
import resource
import shutil
import tempfile

# The first job of a user makes a key in its home: not in the developer's.
os.environ["HOME"] = tempfile.mkdtemp(prefix="tutti-home-")
atexit.register(shutil.rmtree, os.environ["HOME"], ignore_errors=True)

# Launchers put tags before lines where this is set.
os.environ.pop("CI", None)

# What tests start finds the package from any folder, and shows its stacks when a limit ends it (stacks.py).
if "PYTHONPATH" in os.environ:
    os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, os.environ["PYTHONPATH"].split(os.pathsep)))
os.environ["PYTHONFAULTHANDLER"] = "1"
resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
