"""A farm: rank 0 gives out tasks one at a time, each to the rank that asks next, so ranks that are slow get fewer. A
worker asks for its next task by sending the result of its last one.

    tuttirun --nproc-per-node 4 18_farm.py
"""

import numpy as np

import tutti.distributed as dist

TASKS, NO_TASK = 40, -1
TASK, RESULT = 1, 2  # tags


def primes_of(task: int) -> int:
    """How many of the numbers from 1000 * task on, up to the next thousand, are prime."""
    numbers = np.arange(max(2, 1000 * task), 1000 * (task + 1))
    for factor in range(2, 201):
        numbers = numbers[(numbers % factor != 0) | (numbers == factor)]
    return numbers.size


def work() -> None:
    result, task = np.array([NO_TASK, 0]), np.empty(1, int)  # of no task at first
    while True:
        dist.send(result, 0, tag=RESULT)
        dist.recv(task, 0, tag=TASK)
        if task[0] == NO_TASK:
            return
        result[:] = task[0], primes_of(task[0])


def give_out() -> int:
    primes, result, tasks = np.zeros(TASKS, int), np.empty(2, int), iter(range(TASKS))
    workers = dist.get_world_size() - 1
    while workers > 0:
        worker = dist.recv(result, tag=RESULT)  # from any rank
        if result[0] != NO_TASK:
            primes[result[0]] = result[1]
        task = next(tasks, NO_TASK)
        dist.send(np.array([task]), worker, tag=TASK)
        workers -= task == NO_TASK
    for task in tasks:  # alone in the world
        primes[task] = primes_of(task)
    return int(primes.sum())


dist.init_process_group(or_alone=True)
if dist.get_rank() == 0:
    found = give_out()
    assert found == 4203, found
    print(f"{dist.get_world_size()} ranks found {found} primes below {1000 * TASKS}")
else:
    work()
dist.destroy_process_group()
