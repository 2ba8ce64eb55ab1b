"""Programs of ranks that join the job by themselves."""

import textwrap

import ranks

PRELUDE = """
import datetime
import tutti.distributed as dist
SIZE = int(os.environ["WORLD_SIZE"])
limit = datetime.timedelta(seconds=20)

def check(group=None, count=SIZE):  # each of so many ranks gives a bit of its own
    x = np.full(3, 1 << RANK)
    dist.all_reduce(x, group=group)
    assert x.tolist() == [x[0]] * 3 and bin(x[0]).count("1") == count, x
"""


def run(body, size, folder, **options):
    return ranks.run(PRELUDE + textwrap.dedent(body), size, folder, init=False, **options)
