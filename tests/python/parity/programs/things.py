"""Operations on objects: what arrives is what was sent, tensors with their strides and flags."""

import collections
import datetime
import fractions

import numpy
from arrays import HAS_TORCH, torch
from inputs import LAYOUTS, bits

Point = collections.namedtuple("Point", ["x", "y"])


class Node:
    """Something that a program made."""

    def __init__(self, value, below=None):
        self.value, self.below = value, below

    def parts(self):
        return type(self).__name__, self.value, self.below and self.below.parts()


def objects():
    """By name: what is sent."""
    yield "nested", {"a": [1, (2, {"b": None})], 3: {1.5: "x"}, (1, 2): [[[]]]}
    yield "numbers", [0, -1, 2**70, -2.5, float("inf"), 1e-320, 1 + 2j, True]
    yield "texts", ["", "ä€𝄞", "a\0b", b"", b"\xff\0", "x" * 5000]
    yield "moments", [datetime.timedelta(seconds=3), str(datetime.date(2020, 2, 29)), str(fractions.Fraction(1, 3))]
    yield "sets", [set(), {1, 2}, frozenset({3})]
    yield "named", [Point(1, 2)._asdict(), dict(collections.OrderedDict(b=1, a=2)), list(collections.deque([1, 2]))]
    yield "devices", [torch.float32, torch.device("cpu"), torch.Size([2, 3])]
    yield "arrays", [numpy.arange(6).reshape(2, 3), numpy.zeros((0, 2)), numpy.float32(2.5).item()]
    yield "large_array", numpy.arange(30000, dtype=numpy.int16)
    yield "large_text", "word " * 30000
    for name, make in LAYOUTS.items():
        yield f"tensor_{name}", make(1)
    for name in ("bool", "uint8", "int16", "uint16", "uint64", "float16", "bfloat16", "complex64", "float8_e4m3fn",
                 "float8_e5m2fnuz"):
        yield f"of_{name}", bits(name, 8)
    yield "expanded", torch.arange(3.0)[:, None].expand(3, 4)
    yield "expanded_rows", torch.arange(3.0).expand(4, 3)
    yield "expanded_scalar", torch.tensor(2.0).expand(2, 2)
    yield "expanded_nothing", torch.zeros(1, 0).expand(3, 0)
    yield "empty_transposed", torch.zeros(0, 3).t()
    yield "empty_permuted", torch.zeros(2, 0, 3).permute(2, 0, 1)
    yield "empty_strided", torch.empty_strided((0, 3), (7, 2))
    yield "one_strided", torch.empty_strided((1, 1), (7, 3)).fill_(2)
    yield "diagonal", torch.arange(9.0).reshape(3, 3).diagonal()
    yield "flipped", torch.arange(4.0).flip(0)
    yield "windows", torch.arange(5.0).unfold(0, 3, 1)
    yield "views_of_one", (lambda base: [base, base[2:], base.view(2, 3)])(torch.arange(6.0))
    yield "large_tensor", torch.arange(40000)
    yield "large_transposed", torch.arange(40000).reshape(200, 200).t()
    yield "state", {"weight": torch.ones(2, 2)}
    if HAS_TORCH:
        yield "of_complex32", bits("complex32", 8)
        yield "conjugate", torch.tensor([1 + 2j]).conj()
        yield "imaginary_part", torch.tensor([1 + 2j, 3 - 1j]).conj().imag
        yield "parameter", torch.nn.Parameter(torch.ones(2))
        yield "requires_grad", torch.ones(2, requires_grad=True)
        yield "sparse", torch.eye(2).to_sparse()


# Of these elements lie between, or torch cannot send them: what arrives is known.
KNOWN = {"tensor_stepped", "tensor_inside", "tensor_column", "diagonal", "windows", "conjugate", "imaginary_part",
         "of_uint16", "of_uint64", "of_float8_e4m3fn", "of_float8_e5m2fnuz", "of_complex32"}


def known(name, arrived):
    return {"exactly": arrived} if name in KNOWN else {}


def alone(value):
    """A tensor with memory of its own."""
    return value.resolve_conj().resolve_neg().clone() if isinstance(value, torch.Tensor) else value


def moved(at, step):
    d, last = at.dist, at.size - 1
    for name, value in objects():
        step(f"all_gather/{name}", lambda: d.all_gather_object(out := [None] * at.size, value) or out,
             **known(name, [alone(value)] * at.size))
        # The last rank keeps what it has.
        step(f"broadcast/{name}",
             lambda: d.broadcast_object_list(out := [value, 1] if at.rank == last else [None] * 2, last) or out[1:] + (
                 [] if at.rank == last else out[:1]), **known(name, [1] if at.rank == last else [1, alone(value)]))


def others(at, step):
    """The rest of these operations, with fewer objects."""
    d, last = at.dist, at.size - 1
    chosen = {"nested", "tensor_stepped", "expanded", "parameter", "large_tensor", "tensor_no_rows"}
    for name, value in objects():
        if name not in chosen:
            continue
        step(f"gather/{name}", lambda: d.gather_object(value, out := [0] * at.size if at.rank == last else None, last) or out,
             **known(name, [alone(value)] * at.size if at.rank == last else None))
        step(f"scatter/{name}", lambda: d.scatter_object_list(
            out := [None], [(value, r) for r in range(at.size)] if at.rank == last else None, last) or out,
             **known(name, [(alone(value), at.rank)]))
        step(f"send/{name}", lambda: handed_over(at, [value, at.rank]),
             **known(name, (0, [alone(value), 0]) if 0 < at.rank == last else None))
    def gathered(value):
        d.all_gather_object(out := [None] * at.size, value)
        return out

    step("made", lambda: [each.parts() for each in gathered(Node(at.rank, Node("below")))])
    step("error", lambda: [(type(each).__name__, str(each)) for each in gathered(KeyError(at.rank))])
    step("function", lambda: [each(3) for each in gathered(abs)])
    step("uneven", lambda: d.all_gather_object(out := [None] * at.size, "x" * (1000 * at.rank)) or out)
    step("cannot", lambda: d.all_gather_object([None] * at.size, lambda: 0))
    step("too_long_list", lambda: d.all_gather_object(out := [None] * (at.size + 2), 1) or out)
    step("keywords", lambda: d.all_gather_object(object_list=(out := [None] * at.size), obj=at.rank, group=None) or out)
    step("broadcast_device", lambda: d.broadcast_object_list(out := [at.rank], src=0, device=torch.device("cpu")) or out)


def handed_over(at, objects):
    if at.size == 1:
        return None
    if at.rank == 0:
        return at.dist.send_object_list(objects, at.size - 1)
    if at.rank == at.size - 1:
        return at.dist.recv_object_list(out := [None] * len(objects), 0), out
    return None


PROGRAMS = [moved, others]
