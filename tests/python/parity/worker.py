"""Starts ranks that run cells and programs under torch.distributed, where that is asked for, then under
tutti.distributed, and write down what came out."""

import datetime
import faulthandler
import logging
import os
import pickle
import sys
import time
import traceback

import arrays
import suites

LIMIT = 100  # seconds for all cells; then the stacks are shown


def run(dist, suite, port, seed, folder):
    """All of a suite in one world; of the suite of lives one program, which joins a world itself."""
    from cells import Place
    from frozen import Steps
    os.environ["MASTER_PORT"] = port
    os.makedirs(folder, exist_ok=True)
    steps = Steps(Place(dist, int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), seed, folder))
    suite, _, program = suite.partition(".")
    if program:
        suites.run_life(steps, program)
        return steps
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    suites.SUITES[suite](steps)
    return steps


def compare(rank, size, suite, steps):
    """The cells whose values are known without any communication, and of them those where ours is another."""
    import expected
    from frozen import frozen
    known = {cell: (value, []) for cell, value in steps.known.items()}
    if suite == "cells":
        known |= {cell: (frozen(value), warnings) for cell, value, warnings in expected.all_expected(rank, size)}
    wrong = []
    for cell, (value, warnings) in known.items():
        kind, found, *said = steps.results[cell]
        if kind != "value" or said != [warnings] or not expected.equal(value, found):
            wrong.append((cell, value, steps.results[cell]))
    wrong += [(cell, value, steps.results[cell]) for cell, value in steps.exactly.items()
              if steps.results[cell] != ("value", value, [])]
    return {*known, *steps.exactly}, wrong


def one_rank(rank, size, suite, seed, ports, transport, folder):
    """Never returns."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), TUTTI_TRANSPORT=transport)
    with open(os.path.join(folder, f"{rank}.err"), "wb", 0) as error:
        os.dup2(error.fileno(), 2)
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    status = 1
    try:
        import tutti.distributed
        begin = time.monotonic()
        theirs = None
        if ports[0] != "-":
            import torch.distributed
            theirs = run(torch.distributed, suite, ports[0], seed, f"{folder}/of_torch").results
        middle = time.monotonic()
        open(os.path.join(folder, f"{rank}.torch"), "x").close()
        steps = run(tutti.distributed, suite, ports[1], seed, f"{folder}/of_tutti")
        times = (middle - begin, time.monotonic() - middle)
        with open(os.path.join(folder, f"{rank}.pickle"), "wb") as file:
            pickle.dump((theirs, steps.results, times, *compare(rank, size, suite, steps)), file)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)  # torch's threads have been seen to abort at exit


def main():
    """Reads lines "<suite> <seed> <size> <port for torch> <port for tutti> <transport> <folder>"; answers with the ranks'
    statuses. With - as its port torch does not run. It is imported once, before the ranks are forked: that takes longer
    than the cells."""
    if arrays.HAS_TORCH:
        import torch
        import torch.distributed  # noqa: F401
    import tutti.distributed  # noqa: F401
    if arrays.HAS_TORCH:
        torch.set_num_threads(1)
        torch.empty(0, dtype=torch.complex32)  # warns once in a process
    logging.disable(logging.CRITICAL)  # what fails on purpose is not news
    print("ready", flush=True)
    for line in sys.stdin:
        suite, seed, size, *ports, transport, folder = line.split()
        children = []
        for rank in range(int(size)):
            child = os.fork()
            if child == 0:
                one_rank(rank, int(size), suite, int(seed), ports, transport, folder)
            children.append(child)
        statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        print(*statuses, flush=True)


if __name__ == "__main__":
    main()
