"""Trains a small model on all processes: each has a part of the data, and JAX adds their gradients by tutti.

    tuttirun --nproc-per-node 2 integrations/jax/example.py
"""

import tutti.jax  # noqa: F401, I001: before jax
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

jax.distributed.initialize()
rank, size = jax.process_index(), jax.process_count()
mesh = Mesh(np.array(jax.devices()), "data")


def loss(weights, x, y):
    """Mean square error of a network with one hidden layer."""
    hidden = jnp.tanh(x @ weights["in"])
    return jnp.mean((hidden @ weights["out"] - y) ** 2)


def step(weights, x, y):
    """One step of gradient descent; the slopes are the means over all processes."""
    value, slopes = jax.value_and_grad(loss)(weights, x, y)
    value, slopes = jax.lax.pmean((value, slopes), "data")
    return jax.tree.map(lambda weight, slope: weight - 0.1 * slope, weights, slopes), value


train = jax.jit(jax.shard_map(step, mesh=mesh, in_specs=(P(), P("data"), P("data")), out_specs=(P(), P()), check_vma=False))
random = np.random.default_rng(rank)
own_x = random.standard_normal((64, 4), np.float32)
own_y = np.sin(own_x.sum(1, keepdims=True))
x, y = (jax.make_array_from_process_local_data(NamedSharding(mesh, P("data")), own) for own in (own_x, own_y))
begin, end = jax.random.split(jax.random.key(0))
weights = {"in": jax.random.normal(begin, (4, 32)) * 0.5, "out": jax.random.normal(end, (32, 1)) * 0.2}
weights = jax.device_put(weights, NamedSharding(mesh, P()))
losses = []
for _ in range(100):
    weights, value = train(weights, x, y)
    losses.append(float(value))
if rank == 0:
    print(f"{size} processes: loss {losses[0]:.4f} at the begin, {losses[-1]:.4f} at the end")
assert losses[-1] < losses[0] / 2, losses
