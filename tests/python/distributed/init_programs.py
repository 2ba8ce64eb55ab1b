"""Programs of ranks that join the job by themselves."""

import textwrap

import ranks

PRELUDE = """
import datetime
import tutti.distributed as dist
SIZE = int(os.environ["WORLD_SIZE"])
limit = datetime.timedelta(seconds=20)

def check():
    x = np.full(3, RANK + 1)
    dist.all_reduce(x)
    assert (x == SIZE * (SIZE + 1) // 2).all()
"""


def run(body, size, folder, **options):
    return ranks.run(PRELUDE + textwrap.dedent(body), size, folder, init=False, **options)
