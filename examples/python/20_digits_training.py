"""Data-parallel training with NumPy: every rank holds the whole model and takes its share of each batch;
the gradients are added with all_reduce, so all replicas make the same step. Softmax regression on
handwritten digits (see ../data/README.md).

    tuttirun --nproc-per-node 4 20_digits_training.py [digits.csv]

tutti adds in one fixed order, ((0+1)+(2+3))+..., whatever the algorithm. Each batch is therefore cut into 8
blocks that are added in that same order inside a rank: on 1, 2, 4 or 8 processes the model then ends with
the same bits.
"""

import datetime
import hashlib
import pathlib
import sys

import numpy as np

import tutti.distributed as dist

EPOCHS = 60
BATCH = 128
BLOCKS = 8
LEARNING_RATE = np.float32(0.5)
ENOUGH = 0.93
CLASSES = 10
DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "digits.csv"


class Digits:
    """Images (64 pixels from 0 to 1, and a constant) and the digits that they show."""

    def __init__(self, rows: np.ndarray) -> None:
        ones = np.ones((len(rows), 1), np.float32)
        self.pixels = np.hstack([rows[:, :64].astype(np.float32) / 16, ones])
        self.labels = rows[:, 64]


def read_digits(file: pathlib.Path) -> tuple[Digits, Digits]:
    """To train on, and held out: every fifth row."""
    rows = np.loadtxt(file, delimiter=",", dtype=np.int64)
    held_out = np.arange(len(rows)) % 5 == 4
    return Digits(rows[~held_out]), Digits(rows[held_out])


def gradient(model: np.ndarray, pixels: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Summed over the rows; behind it the summed loss, so that one all_reduce carries both."""
    scores = pixels @ model
    scores -= scores.max(axis=1, keepdims=True)
    p = np.exp(scores)
    p /= p.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -np.log(p[rows, labels]).sum()
    p[rows, labels] -= 1
    return np.append((pixels.T @ p).ravel(), loss).astype(np.float32)


def add_pairwise(blocks: list[np.ndarray]) -> np.ndarray:
    """As tutti adds ranks."""
    step = 1
    while step < len(blocks):
        for at in range(0, len(blocks) - step, 2 * step):
            blocks[at] += blocks[at + step]
        step *= 2
    return blocks[0]


class Trainer:
    def __init__(self, digits: Digits) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.digits = digits
        # Rank 0 decides where the model starts.
        self.model = np.zeros((65, CLASSES), np.float32)
        if self.rank == 0:
            self.model[:] = np.random.default_rng(1).uniform(-0.01, 0.01, self.model.shape)
        dist.broadcast(self.model, src=0)
        # The same numbers on every rank: they all shuffle alike.
        self.random = np.random.default_rng(2)

    def epoch(self) -> float:
        """One pass over all rows. The mean loss."""
        order = self.random.permutation(len(self.digits.labels))
        loss = sum(self.step(order[at:at + BATCH]) for at in range(0, len(order), BATCH))
        return loss / len(order)

    def step(self, batch: np.ndarray) -> float:
        """One step down the slope of one batch, which all ranks share. The batch's summed loss."""
        cuts = [len(batch) * block // BLOCKS for block in range(BLOCKS + 1)]
        ours = range(BLOCKS * self.rank // self.size, BLOCKS * (self.rank + 1) // self.size)
        blocks = []
        for block in ours:
            rows = batch[cuts[block]:cuts[block + 1]]
            blocks.append(gradient(self.model, self.digits.pixels[rows], self.digits.labels[rows]))
        total = add_pairwise(blocks) if blocks else np.zeros(self.model.size + 1, np.float32)
        dist.all_reduce(total)
        self.model -= LEARNING_RATE / np.float32(len(batch)) * total[:-1].reshape(self.model.shape)
        return float(total[-1])

    def accuracy(self, digits: Digits) -> float:
        """The part of the images that the model sees right; each rank looks at its share."""
        mine = slice(self.rank, None, self.size)
        seen = (digits.pixels[mine] @ self.model).argmax(axis=1)
        right = np.array([(seen == digits.labels[mine]).sum()])
        dist.all_reduce(right)
        return float(right[0]) / len(digits.labels)

    def checksum(self) -> str:
        return hashlib.sha256(self.model.tobytes()).hexdigest()[:16]


def main() -> None:
    train, held_out = read_digits(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else DATA)
    dist.init_process_group(timeout=datetime.timedelta(seconds=60))
    talks = dist.get_rank() == 0
    if talks:
        print(f"{dist.get_world_size()} rank(s), {len(train.labels)} rows to train on, "
              f"{len(held_out.labels)} held out")
    trainer = Trainer(train)
    accuracy = 0.0
    for epoch in range(1, EPOCHS + 1):
        loss = trainer.epoch()
        if epoch == 1 or epoch % 10 == 0:
            accuracy = trainer.accuracy(held_out)
            if talks:
                print(f"epoch {epoch:2}  loss {loss:.4f}  held-out accuracy {accuracy:.4f}")
    checksums: list[object] = [None] * dist.get_world_size()
    dist.all_gather_object(checksums, trainer.checksum())
    assert len(set(checksums)) == 1, f"the replicas differ: {checksums}"
    if talks:
        print(f"all replicas are bit-identical, checksum {checksums[0]}")
        print(f"held-out accuracy {accuracy:.4f}")
    dist.destroy_process_group()
    if accuracy <= ENOUGH:
        sys.exit(f"that is too little: more than {ENOUGH} is due")


if __name__ == "__main__":
    main()
