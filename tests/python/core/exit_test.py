"""What still calls back when the interpreter ends."""

import pytest

import stacks

SOURCE = """
import atexit, threading

given_up, seen, ready = threading.Event(), threading.Event(), threading.Event()

def after_the_library():
    # Registered before the library's own: it runs when that has given up waiting for a callback.
    given_up.set()
    assert seen.wait(60)

atexit.register(after_the_library)
import numpy as np
import tutti

world = tutti.init_process_group(rank=0, world_size=1, exchange=lambda name, mine: [mine])

def wait_until_ready(work):
    assert ready.wait(60)

def block(work):
    assert given_up.wait(60)

def look(work):
    assert type(work).__name__ == "Work" and work.is_completed() and work.source_rank == 0
    assert work.result[0][0] == 7
    print("seen", flush=True)
    seen.set()

def never(work):
    print("called after the end", flush=True)

works = [world.irecv(np.zeros(1), 0) for _ in range(3)]
for work, callbacks in zip(works, ([wait_until_ready], [block, look], [never])):
    for callback in callbacks:
        work.add_done_callback(callback)
for work in works:
    world.send(np.full(1, 7.0), 0)
for work in works:
    work.wait()
del work, works  # only the callbacks still hold them
ready.set()
"""


def test_a_work_lives_until_its_callbacks_have_been_called():
    """Also where the first of them takes longer than the exit waits for (5 s). The next Work's is not called then."""
    assert stacks.said("-X", "dev", "-c", SOURCE, limit=120) == "seen\n"


SENT = """
import os, sys
import numpy as np
import tutti

world = tutti.init_process_group(rank=0, world_size=1)
to_itself = world.new_group([0])
big = [np.zeros(100_000, kind) for kind in ("f8", "f4", "i4", "i2", "i1")]
received = world.isend(big[0], 0, tag=1)
world.recv(big[0].copy(), 0, tag=1)
kept = world.isend(big[0], 0, tag=2)
to_itself.isend(big[1], 0, tag=3)  # its Work is dropped
lost = to_itself.isend(big[2], 0, tag=4)
to_itself.abort("enough")
if sys.argv[1:]:
    kept.exception(), lost.exception()  # the program knows of these
    world.batch_isend_irecv([("send", each, 0, 5) for each in big])
if os.fork() == 0:
    sys.exit()  # says nothing: they are the parent's
os.wait()
print("ends", file=sys.stderr, flush=True)
"""


def test_a_message_that_nobody_received_is_told_at_the_end():
    def said(*arguments):
        done = stacks.python("-X", "dev", "-c", SENT, *arguments, limit=120)
        assert (done.returncode, done.stdout) == (0, ""), done
        return done.stderr.splitlines()

    def ends(tag, elements):
        return (f"tutti: isend(to 0, tag {tag}, {elements}) of rank 0 in group 'world' was not received before the end of this "
                "process; wait for the Work of each isend, and look where rank 0 receives it")

    first, kept, lost, dropped = said()
    assert first == "ends" and kept == ends(2, "float64 x 100000")
    for line, text in ((lost, "tag 4, int32"), (dropped, "tag 3, float32")):
        assert line.startswith(f"tutti: isend(to 0, {text} x 100000) of rank 0 in group 'world[0]' failed, and nobody waited for it: "
                               "group 'world[0]' was aborted by ") and "enough" in line, line
    assert said("batch") == ["ends", ends(2, "float64 x 100000"), ends(5, "float64 x 100000"), ends(5, "float32 x 100000"),
                             "tutti: and 4 more"]


BUSY = """
import threading
import time
import numpy as np
import tutti

world = tutti.init_process_group(rank=0, world_size=1, exchange=lambda name, mine: [mine])
inside = threading.Event()

def compute(work):
    inside.set()
    while True:
        pass

def barriers():
    inside.set()
    while True:
        world.barrier()

def meet():
    tutti.init_process_group(rank=0, world_size=1, exchange=lambda name, mine: inside.set() or time.sleep(1000))

def told(action):
    inside.set()
    action()

def call_later():
    world.irecv(np.zeros(1), 0).add_done_callback(compute)
    world.send(np.ones(1), 0)

BUSY = {
    "recv": lambda: told(lambda: world.recv(np.zeros(1), 0)),
    "wait": lambda: told(lambda: world.irecv(np.zeros(1), 0).wait()),
    "barriers": barriers,
    "store": lambda: told(lambda: tutti.HashStore().get("nothing")),
    "exchange": meet,
    "called at once": lambda: world.barrier(async_op=True).add_done_callback(compute),
    "called later": call_later,
}
where = "%s"
thread = threading.Thread(target=BUSY[where], daemon=True)
thread.start()
assert inside.wait(60)
asleep, end = 0, time.monotonic() + 60
while where in ("recv", "wait", "store", "exchange") and asleep < 5:  # those that block are inside when the thread sleeps
    state = open(f"/proc/self/task/{thread.native_id}/stat").read().rpartition(")")[2].split()[0]
    asleep = asleep + 1 if state == "S" else 0
    assert time.monotonic() < end, state
    time.sleep(0.005)
print("ends", flush=True)
"""


@pytest.mark.parametrize("where", ["recv", "wait", "barriers", "store", "exchange", "called at once", "called later"])
def test_a_thread_that_is_busy_in_the_library_does_not_spoil_the_exit(where):
    """Before Python 3.14 it is ended when it comes for the GIL, which once took the process with it (SIGABRT)."""
    assert stacks.said("-c", BUSY % where, limit=120) == "ends\n"
