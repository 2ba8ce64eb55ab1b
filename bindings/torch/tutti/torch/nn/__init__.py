"""Collectives with a gradient, on tensors of torch and the groups of torch.distributed.

    import tutti.torch.nn

    embeddings = tutti.torch.nn.all_gather_single(model(batch))
    contrastive_loss(embeddings).backward()

They return new tensors and leave their inputs as they are. They can be differentiated again, take complex tensors, and
torch.compile keeps each as one node of its graph. A backward is communication too: every rank runs the same backwards
in the same order, also through results that are zeros. So the tensors of all ranks require a gradient, or none does.
"""

from .lists import all_gather, all_to_all, gather, reduce_scatter, scatter
from .singles import all_gather_single, all_reduce, all_to_all_single, broadcast, reduce, reduce_scatter_single

__all__ = ["all_gather", "all_gather_single", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather",
           "reduce", "reduce_scatter", "reduce_scatter_single", "scatter"]
