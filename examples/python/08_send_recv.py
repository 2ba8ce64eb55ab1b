"""Point to point: one rank sends, another receives, the rest does nothing. Small messages may be sent
before their recv is called; what does not have to wait uses isend and irecv.

    tuttirun --nproc-per-node 3 08_send_recv.py
"""

import numpy as np

import tutti.distributed as dist

dist.init_process_group()
rank, size = dist.get_rank(), dist.get_world_size()
following, before = (rank + 1) % size, (rank - 1) % size

# Blocking: everybody sends to the right first. A few numbers need nobody's recv for that.
greeting = np.array([rank, 42])
heard = np.empty_like(greeting)
dist.send(greeting, following, tag=1)
dist.recv(heard, before, tag=1)

# Asynchronous: more than 64 KiB wait for their recv, so neither side may wait first.
block = np.full(1_000_000, rank, np.float64)
theirs = np.empty_like(block)
works = dist.batch_isend_irecv([dist.P2POp(dist.isend, block, following),
                                dist.P2POp(dist.irecv, theirs, before)])
for work in works:
    work.wait()
assert heard.tolist() == [before, 42] and (theirs == before).all()

# Rank 0 takes reports in the order in which they come.
if rank != 0:
    dist.send(heard, 0, tag=2)
else:
    for _ in range(size - 1):
        report = np.empty_like(heard)
        source = dist.recv(report, tag=2)  # from whom it may be
        assert report[0] == source - 1
    print(f"{size} ranks in a ring, all reports are in")
dist.barrier()
dist.destroy_process_group()
