"""Gather of unlike sizes: rank 0 gets a report from every rank. Reports differ in length, and only the rank that writes
one knows how long it is.

    tuttirun --nproc-per-node 4 21_reports.py
"""

import numpy as np

import tutti.distributed as dist


def report_of(rank: int) -> np.ndarray:
    """The measurements of a rank: nothing on rank 0, one number more on each rank behind it."""
    return np.arange(rank) ** 2.0


dist.init_process_group(or_alone=True)
values, counts = dist.gather_v(report_of(dist.get_rank()), 0)
if dist.get_rank() == 0:
    for rank, report in enumerate(np.split(values, np.cumsum(counts)[:-1])):
        assert (report == report_of(rank)).all()
        print(f"rank {rank} has measured {report.tolist()}")
dist.destroy_process_group()
