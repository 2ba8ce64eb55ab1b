"""Where torch is imported, futures are torch's as well."""

import pytest

from init_programs import run

pytestmark = pytest.mark.torch


def test_torch_takes_our_futures(tmp_path):
    run("""
        import asyncio
        assert not isinstance(dist.Future(), Exception)
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
        assert type(dist.barrier(async_op=True).get_future()) is dist.Future  # torch is not imported
        import torch
        def started():
            return [dist.all_reduce(torch.full((2,), i + 1.), async_op=True) for i in range(2)]
        future = started()[1].get_future()
        assert isinstance(future, torch.futures.Future) and isinstance(future, dist.Future)
        assert future.wait()[0].tolist() == [4.0, 4.0] and future.exception() is None
        raises(RuntimeError, "'gone'", lambda: future.then(lambda f: {}["gone"]).wait())
        raises(RuntimeError, "once", lambda: future.set_result(3))
        work = dist.all_reduce(part := (torch.eye(2) * (RANK + 1)).to_sparse(), async_op=True)
        assert work.is_success() and work.get_future().wait()[0] is part and part.to_dense().tolist() == [[3, 0], [0, 3]]
        assert dist.all_reduce_coalesced([torch.ones(2)], async_op=True).wait()[0].tolist() == [2.0, 2.0]
        async def both():
            return (await started()[0])[0].tolist(), (await started()[1].get_future())[0].tolist()
        assert asyncio.run(both()) == ([2.0, 2.0], [4.0, 4.0])
        work = started()[0]
        while not work.is_completed():
            pass
        assert work.get_future().done()
        dist.barrier()
        late = dist.irecv(torch.zeros(1), 1 - RANK, timeout=datetime.timedelta(seconds=0.2)).get_future()
        raises(TimeoutError, "0.2", late.wait)
        assert isinstance(late.exception(), TimeoutError) and late.done()
        raises(TimeoutError, "0.2", lambda: torch.futures.wait_all([late]))
    """, 2, tmp_path, leaks=True)  # torch's future keeps the error for good, its frames, and their globals
