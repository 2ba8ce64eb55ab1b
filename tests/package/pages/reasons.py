"""Blocks of code that blocks_test.py does not test, each by some of its words, and why."""

# Programs of Python that import these are compiled, not run.
PACKAGES = {
    "torch": "needs torch and tutti-torch; tests/python/torch_backend runs the like",
    "jax": "integrations/check.sh jax runs its example",
    "lightgbm": "integrations/check.sh lightgbm runs its example",
    "ray": "integrations/check.sh ray runs its example",
    "vllm": "integrations/check.sh vllm runs its example",
    "mpi4py": "tests/python/examples/mpi4py_page_test.py runs it by a real mpirun",
    "deepspeed": "needs a package of others",
}

NOT_TESTED = {
    "// Trains a small network": "needs LibTorch; tests/python/torch_backend/cpp_test.py runs it",
    "#include <mpi.h>": "needs the headers of an MPI; examples/peers has such a program that is built",
    "ProcessGroup group = init_process_group(": "calls of two languages, a line each",
    "init_process_group({.backend = \"cpu:native,cuda:nccl\"})": "calls of both languages, with remarks beside them",
    "init_process_group()                       # TUTTI_BACKEND": "calls of both languages, with remarks beside them",
    "project(first CXX)": "a CMakeLists.txt; tests/package/consumer builds a project like it",
    "worker_process_setup_hook": "one line of a program that needs Ray",
    "#include \"base/fnv.hpp\"": "an example of a test of tutti's own, with headers that are not public",
    "raise ValueError(\"my bug\")": "fails on purpose",
    "os.kill(os.getpid(), 9)": "fails on purpose",
    "time.sleep(3600)": "hangs on purpose",
}
