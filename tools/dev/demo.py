"""./dev demo: the library's tour of its operations, then a model that is trained on 1, 2 and 4 processes."""

import re
import subprocess
import time

from building import configure_and_build
from console import BUILD, Failed, run, say

# What README's first program needs is built with it, so that its command does not wait.
TARGETS = ("tuttirun", "10_every_operation", "digits_training")
ACCURACY = re.compile(r"accuracy\D*(\d+\.\d+)", re.IGNORECASE)


def train(binaries, ranks):
    """The final accuracy, as text, so that equal means equal to the last digit."""
    say(f"digits_training on {ranks} process(es)")
    done = subprocess.run([binaries / "tuttirun", "--nproc-per-node", str(ranks), binaries / "digits_training"], text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    print(done.stdout, end="", flush=True)
    found = ACCURACY.findall(done.stdout)
    if done.returncode != 0 or not found:
        raise Failed(f"the run on {ranks} process(es) failed, or printed no final accuracy")
    return found[-1]


def demo():
    begin = time.monotonic()
    if not configure_and_build("release", *TARGETS):
        raise Failed("the build failed")
    binaries = BUILD / "release" / "bin"
    say("every operation once, on 4 processes")
    if not run(binaries / "tuttirun", "--nproc-per-node", "4", binaries / "10_every_operation"):
        raise Failed("the tour of the operations failed")
    accuracies = {ranks: train(binaries, ranks) for ranks in (1, 2, 4)}
    if len(set(accuracies.values())) != 1:
        raise Failed(f"the accuracy depends on the number of processes: {accuracies}")
    say(f"1, 2 and 4 processes reached the same accuracy: {accuracies[1]} ({time.monotonic() - begin:.0f} s)")
