"""A rank that mpirun has started: python mpi_worker.py FOLDER FUNCTION...

Calls the functions one after the other, which make worlds of their own, and leaves a file for each that has ended well."""

import importlib
import os
import sys
import traceback

import torch
import torch.distributed as dist

import tutti.torch  # noqa: F401


def main(folder, *functions):
    """Each is "module.function", or "module.function(folder)". Of a test its body is meant."""
    torch.set_num_threads(1)
    number = os.environ["OMPI_COMM_WORLD_RANK"]
    for name in functions:
        module, _, function = name.removesuffix("(folder)").rpartition(".")
        arguments = [folder] if name.endswith("(folder)") else []
        try:
            called = getattr(importlib.import_module(module), function)
            getattr(called, "body", called)(*arguments)
            if dist.is_initialized():
                dist.destroy_process_group()
        except BaseException:  # noqa: BLE001: pytest's own, too
            sys.stderr.write(f"[{number}] {name}\n{traceback.format_exc()}")
            sys.stderr.flush()
            os._exit(1)  # mpirun ends the others
        with open(os.path.join(folder, f"{name} on {number}"), "x"):
            pass


if __name__ == "__main__":
    main(*sys.argv[1:])
