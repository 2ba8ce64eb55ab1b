"""Starts ranks that run every cell under torch.distributed, where that is asked for, then under
tutti.distributed, and write down what came out."""

import datetime
import faulthandler
import itertools
import logging
import os
import pickle
import sys
import time
import traceback
import warnings

LIMIT = 100  # seconds for all cells; then the stacks are shown


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
    import attributes
    import cells
    import errors
    import group_cells
    return itertools.chain(
        errors.questions(), cells.reductions(), cells.moves(), cells.forms(), cells.coalesced(), cells.objects(),
        group_cells.groups(), cells.works(), errors.calls(), errors.strangers(), errors.meshes(), attributes.attributes(),
        errors.lives())


def run(dist, port, place_of):
    os.environ["MASTER_PORT"] = port
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    place = place_of(dist, dist.get_rank(), dist.get_world_size())
    results = {}
    for name, cell in all_cells():
        assert name not in results, f"two cells are called {name}"
        results[name] = outcome(cell, place)
    return results


def compare(rank, size, ours):
    """The cells whose values are known without any communication, and of them those where ours is another."""
    import expected
    known, wrong = [], []
    for cell, value, warnings in expected.all_expected(rank, size):
        known.append(cell)
        kind, found, *said = ours[cell]
        if kind != "value" or said != [warnings] or not expected.equal(frozen(value), found):
            wrong.append((cell, frozen(value), ours[cell]))
    return known, wrong


def one_rank(rank, size, ports, folder):
    """Never returns."""
    from cells import Place
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size))
    with open(os.path.join(folder, f"{rank}.err"), "wb", 0) as error:
        os.dup2(error.fileno(), 2)
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    status = 1
    try:
        import torch.distributed

        import tutti.distributed
        begin = time.monotonic()
        theirs = run(torch.distributed, ports[0], Place) if ports[0] != "-" else None
        middle = time.monotonic()
        open(os.path.join(folder, f"{rank}.torch"), "x").close()
        ours = run(tutti.distributed, ports[1], Place)
        times = (middle - begin, time.monotonic() - middle)
        with open(os.path.join(folder, f"{rank}.pickle"), "wb") as file:
            pickle.dump((theirs, ours, times, *compare(rank, size, ours)), file)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)  # torch's threads have been seen to abort at exit


def main():
    """Reads lines "<size> <port for torch> <port for tutti> <folder>"; answers with the ranks' statuses. With - as
    its port torch does not run. It is imported once, before the ranks are forked: that takes longer than the cells."""
    import torch
    import torch.distributed  # noqa: F401

    import tutti.distributed  # noqa: F401
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)  # what fails on purpose is not news
    print("ready", flush=True)
    for line in sys.stdin:
        size, *ports, folder = line.split()
        children = []
        for rank in range(int(size)):
            child = os.fork()
            if child == 0:
                one_rank(rank, int(size), ports, folder)
            children.append(child)
        statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        print(*statuses, flush=True)


main()
