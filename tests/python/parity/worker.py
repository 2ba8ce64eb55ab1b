"""One rank: runs every cell under torch.distributed, then under tutti.distributed; writes what came out.

    worker.py <port for torch> <port for tutti> <file>
"""

import datetime
import faulthandler
import gc
import itertools
import logging
import os
import pickle
import sys
import time
import warnings

LIMIT = 300  # seconds for everything; then the stacks are shown


def frozen(value):
    """A value that can be compared and pickled without torch."""
    import torch
    if isinstance(value, torch.Tensor):
        plain = value.detach().resolve_conj().resolve_neg().contiguous()
        octets = plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""
        return ("tensor", str(plain.dtype), tuple(plain.shape), octets)
    if isinstance(value, (list, tuple)):
        return [frozen(each) for each in value]
    if isinstance(value, dict):
        return {key: frozen(each) for key, each in value.items()}
    if value is None or isinstance(value, (bool, int, float, str, bytes, datetime.timedelta)):
        return value
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return f"<{type(value).__name__}>"


def outcome(cell, place):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            result = ("value", frozen(cell(place)))
        except Exception as problem:
            result = ("error", [kind.__name__ for kind in type(problem).__mro__], str(problem))
    said = sorted(str(each.message) for each in heard if issubclass(each.category, UserWarning))
    return (*result, [text for text in said if text.startswith("Running ")])


def all_cells():
    import cells
    import errors
    return itertools.chain(
        errors.questions(), cells.reductions(), cells.moves(), cells.forms(), cells.coalesced(), cells.objects(),
        cells.groups(), cells.works(), errors.calls(), errors.strangers(), errors.meshes(), errors.lives())


def run(dist, port, place_of):
    os.environ["MASTER_PORT"] = port
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    place = place_of(dist, dist.get_rank(), dist.get_world_size())
    results = {}
    for name, cell in all_cells():
        if "--trace" in sys.argv:
            print(name, file=sys.stderr, flush=True)
        assert name not in results, f"two cells are called {name}"
        results[name] = outcome(cell, place)
    return results


def main():
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    import torch
    import torch.distributed

    import tutti.distributed
    from cells import Place
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)  # what fails on purpose is not news
    begin = time.monotonic()
    theirs = run(torch.distributed, sys.argv[1], Place)
    middle = time.monotonic()
    ours = run(tutti.distributed, sys.argv[2], Place)
    times = (middle - begin, time.monotonic() - middle)
    with open(sys.argv[3], "wb") as file:
        pickle.dump((theirs, ours, times), file)
    gc.collect()
    sys.stdout.flush()
    os._exit(0)  # torch's threads have been seen to abort at exit


main()
