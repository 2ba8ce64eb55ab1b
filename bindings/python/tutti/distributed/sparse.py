"""Sums of torch's sparse tensors: what ranks hold differs in place and number."""

from typing import Any

from tutti.distributed.operators import RedOpType, plain
from tutti.distributed.process_group import ProcessGroup
from tutti.distributed.work import Work, wait_all
from tutti.errors import InvalidArgument


def is_sparse(tensor: Any) -> bool:
    """A torch tensor in coordinate form."""
    return getattr(tensor, "is_sparse", False) is True


def all_reduce_sparse(pg: ProcessGroup, tensor: Any, op: Any, timeout: Any, async_op: bool) -> Work | None:
    """Add up the tensors of all ranks, in place, before it returns; ranks tell each other first how many elements they
    have."""
    import torch
    if plain(op) is not RedOpType.SUM:
        raise InvalidArgument("all_reduce of sparse tensors only works with ReduceOp.SUM")
    own = tensor.detach().coalesce()
    size = len(pg._ranks)
    counts = torch.empty(size, dtype=torch.int64)
    pg._low.all_gather(counts, torch.tensor([own._nnz()]), timeout=timeout)
    indices = [torch.empty((own.sparse_dim(), int(count)), dtype=torch.int64) for count in counts]
    values = [torch.empty((int(count), *own.shape[own.sparse_dim():]), dtype=own.dtype) for count in counts]
    works = [pg._low.all_gather_list(indices, own.indices().contiguous(), timeout=timeout, async_op=True),
             pg._low.all_gather_list(values, own.values().contiguous(), timeout=timeout, async_op=True)]
    wait_all(works)
    # Checked, since the indices of others lead into our memory.
    whole = torch.sparse_coo_tensor(torch.cat(indices, 1), torch.cat(values), own.shape, check_invariants=True).coalesce()
    with torch.no_grad():
        tensor.copy_(whole)
    return Work(works[-1], [tensor]) if async_op else None
