"""Programs under torchrun that use tutti alone: its agent has MASTER_PORT."""

import os

import stacks

PROGRAM = """
import array, os, sys
import tutti.distributed as dist
assert os.environ["TORCHELASTIC_USE_AGENT_STORE"] == "True"
dist.init_process_group()
x = array.array("d", [dist.get_rank() + 1.0])
dist.all_reduce(x)
dist.barrier()
assert "torch" not in sys.modules
if os.environ.get("FAILS") and dist.get_rank() == 1:
    raise LookupError("my bug")
dist.destroy_process_group()
sys.stdout.write(f"sum {x[0]}\\n")  # print writes its parts one by one where nothing is buffered, as under torchrun
"""


def torchrun(script, *options, **environment):
    return stacks.python("-m", "torch.distributed.run", "--nproc-per-node", "3", *options, script(PROGRAM), limit=120,
                         env=dict(os.environ, OMP_NUM_THREADS="1", **environment))


def test_ranks_meet_beside_the_agents_store(script):
    for options in (["--standalone"], ["--master-port", "0", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]):
        done = torchrun(script, *options)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("sum 6.0") == 3


def test_its_report_has_the_error_of_the_program(script):
    done = torchrun(script, "--standalone", FAILS="1")
    assert done.returncode != 0
    report = done.stderr[done.stderr.index("Root Cause"):]
    assert "LookupError: my bug" in report, done.stderr
