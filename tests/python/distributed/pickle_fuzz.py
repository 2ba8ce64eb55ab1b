"""Runs pickles through weights_only: `pickle_fuzz.py seed count` begins with all attacks that are known
(hostile_pickles.py), each of which must be refused; then come pickles that were changed, attacks among them, or made
up. It prints what became of them, or ends with the first that did what it must not. A process of its own, since it may
crash or fill its memory. `pickle_fuzz.py planted` takes out one check after the other, and ends well if each is missed:
so the fuzzer sees what it is for."""

import collections
import datetime
import decimal
import faulthandler
import fractions
import gc
import importlib.util
import os
import pickle
import pickletools
import random
import resource
import signal
import sys
import uuid

import numpy as np

import hostile_pickles
import pickle_faults
from tutti.distributed import safe
from tutti.distributed.pickling import Packed, unpack

MEMORY = 512 << 20  # bytes beyond what is there when all is imported; the pickles are small
SECONDS = 20  # of this process, for one pickle; each takes some milliseconds

STRUCTURE = np.dtype([("a", "O"), ("b", ">U3"), ("c", [("x", "f4"), ("y", "O", (2,))])])
VALUES = [
    None, True, 5, -(10**40), 1.5, "text", b"bytes", bytearray(b"abc"), [1, [2, []]], (1, (2, ()), [3]), {1: {2: "a"}},
    {1, (2, 3)}, frozenset([1, frozenset()]), 1 + 2j, slice(1, None), range(10**30), object,
    collections.OrderedDict(a=1), collections.deque([1, [2]], 5), collections.Counter("aab"),
    collections.defaultdict(list, a=[1]),
    datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone.utc), datetime.date(1, 1, 1), datetime.time(1, 2),
    datetime.timedelta(3, 4, 5), datetime.timezone(datetime.timedelta(hours=1), "x"), decimal.Decimal("1.5e7"),
    fractions.Fraction(3, 4), uuid.UUID(int=5), np.arange(5), np.zeros((2, 3), ">i4"), np.array(["a", "bc"]),
    np.arange(6).reshape(2, 3)[:, ::2], np.array([1, "a", None, [2]], object), np.zeros(2, STRUCTURE),
    np.zeros(2, STRUCTURE)[0], np.float32(2), np.zeros(1, "M8[ns]"), np.datetime64(1, "7D"), STRUCTURE,
    np.zeros(3, [("a", "i1"), ("b", "f8")]), np.dtype("f8", metadata={"a": 1}), np.array(3.0), np.zeros(20_000),
    np.dtype({"names": ["a", "b"], "formats": ["i4", "O"], "offsets": [16, 0], "itemsize": 40}),
]
# Those that attacks are made of.
HOT = [np.array([["a"]], object), np.zeros(1, "i8"), np.zeros(1, "O"), [1, 2], [], slice(None), slice(0, 1), 0, 1, 8,
       range(10**12), 10**14, "O", "C", np.dtype("O"), np.dtype("i8"), b"\1" * 8, bytearray(8),
       collections.deque([1]), (1,), {}, bytes, np.ndarray, decimal.Decimal("1e99999999"), fractions.Fraction(1, 3),
       STRUCTURE, np.zeros(1, STRUCTURE)]
GLOBALS = sorted(set(safe._CALLS) | {(module, name) for module, names in safe._NAMES.items() for name in names}
                 | {("numpy.dtypes", "StringDType"), ("numpy.dtypes", "ObjectDType")})
GLOBALS = [each for each in GLOBALS if each[0].partition(".")[0] != "torch" and each[0] not in (
    "numpy.core.multiarray", "numpy.core.numeric", "tutti.distributed.tensor_pickles")]  # which import torch
FORBIDDEN = [("os", "system"), ("builtins", "eval"), ("builtins", "getattr"), ("numpy", "load"),
             ("numpy", "frombuffer"), ("builtins", "list.append"), ("operator", "attrgetter"), ("functools", "partial"),
             ("copyreg", "_reconstructor")]
INTEGERS = [0, 1, 2, 3, 7, 8, 64, 255, 256, 65535, 1 << 20, (1 << 31) - 1, -1, -8, -(1 << 31)]


def split(pickled):
    """Each opcode with its argument."""
    places = [position for _, _, position in pickletools.genops(pickled)]
    return [pickled[a:b] for a, b in zip(places, [*places[1:], len(pickled)])]


def opcodes_of(value):
    """Its pickle as it travels, without frames, as opcodes; and the buffers beside it."""
    packed = Packed(value)
    opcodes = split(packed.body[8 * len(packed.buffers):])
    return ([each for each in opcodes if each[:1] not in (pickle.FRAME, pickle.PROTO, pickle.STOP)],
            [bytes(each) for each in packed.buffers])


def integer(draw):
    value = draw.choice(INTEGERS) if draw.random() < 0.9 else draw.getrandbits(draw.choice([40, 63, 64, 2000]))
    return pickle.dumps(value, 2)[2:-1]


def text(draw):
    value = draw.choice(["a", "b", "C", "F", "K", "<", ">", "|", "O", "O8", "i8", "U3", "V8", "V16", "M8", "S100000000",
                         "T", "1e999999999", "3/4", "int", "is_safe", "int64", "bool", "é" * 3])
    return pickle.dumps(value, 2)[2:-1].rpartition(b"q\x00")[0]


def name(draw):
    module, what = draw.choice(GLOBALS) if draw.random() < 0.95 else draw.choice(FORBIDDEN)
    return f"c{module}\n{what}\n".encode()


FIXED = [*(bytes([each]) for each in b"N\x88\x89)]}\x8f((t\x85\x86\x87RR\x81\x92bbaesu\x90\x91\x94\x94012ldo\x97\x98"),
         b"C\x08\x01\x00\x00\x00\x00\x00\x00\x00", b"\x96\x08\x00\x00\x00\x00\x00\x00\x00abcdefgh", b"Q",
         b"\x82\x01", b"G\x3f\xf0\x00\x00\x00\x00\x00\x00"]


def opcode(draw, pool):
    how = draw.random()
    if how < 0.35:
        return draw.choice(FIXED)
    if how < 0.5:
        return name(draw)
    if how < 0.6:
        return integer(draw)
    if how < 0.7:
        return text(draw)
    if how < 0.85:
        return draw.choice([b"h", b"h", b"q"]) + bytes([draw.randrange(12)])
    return draw.choice(draw.choice(pool)[0])


GETS = (pickle.BINGET, pickle.LONG_BINGET)
PUSHES = {*b"NKMJGCBXhj])}(", 0x88, 0x89, 0x8a, 0x8b, 0x8c, 0x8f, 0x96, 0x97}
# How many values they take, and what takes them; 0: those since a mark.
ENDS = [(1, b"a"), (1, b"b"), (1, b"R"), (1, b"\x98"), (1, b"\x85R"), (2, b"s"), (2, b"s"), (2, b"\x86R"), (0, b"e"),
        (0, b"u"), (0, b"\x90"), (0, b"tR"), (0, b"\x91")]


def moved(opcodes, first, by):
    """The same, where places of the memo from `first` on have gone up."""
    found = []
    for each in opcodes:
        if each[:1] in GETS:
            place = int.from_bytes(each[1:], "little")
            each = pickle.LONG_BINGET + (place + by if place >= first else place).to_bytes(4, "little")
        found.append(each)
    return found


def put(opcodes, at, gone, fragment):
    """`fragment`, which counts its memo from 0, in the place of `gone` opcodes."""
    first = opcodes[:at].count(pickle.MEMOIZE)
    more = fragment.count(pickle.MEMOIZE)
    opcodes[at:] = moved(fragment, 0, first) + moved(opcodes[at + gone:], first, more)


def fragment_of(draw):
    return opcodes_of(draw.choice(HOT if draw.random() < 0.7 else VALUES))[0]


def recomposed(draw, pool):
    """Some values in a row, some of which are changed into others, or into what stood before; or get elements, a state,
    or are called."""
    values = [draw.choice(HOT if draw.random() < 0.6 else VALUES) for _ in range(draw.choice([1, 2, 2, 3]))]
    opcodes, buffers = opcodes_of(values)
    for _ in range(draw.choice([1, 1, 2, 3])):
        how = draw.random()
        pushes = [at for at, each in enumerate(opcodes) if each[0] in PUSHES]
        data = [at for at in pushes
                if opcodes[at][:1] in (pickle.BYTEARRAY8, pickle.SHORT_BINBYTES, pickle.EMPTY_TUPLE)]
        at = draw.choice(data if data and draw.random() < 0.4 else pushes)
        if how < 0.5:
            made = [b for b, each in zip([b"", *opcodes], opcodes[:at]) if each == pickle.MEMOIZE]
            whole = [place for place, b in enumerate(made) if b in (b"R", b"]", b"}")]
            if made:
                place = draw.choice(whole) if whole and draw.random() < 0.7 else draw.randrange(len(made))
                opcodes[at] = pickle.LONG_BINGET + place.to_bytes(4, "little")
        elif how < 0.65:
            put(opcodes, at, 1, fragment_of(draw))
        else:
            whole = [at + 1 for at, each in enumerate(opcodes) if each in (b"R", b"b", b"]", b"}", b"\x8f")]
            at = draw.choice(whole or [len(opcodes)])
            count, end = draw.choice(ENDS)
            fragments = [fragment_of(draw) for _ in range(count or draw.randrange(4))]
            if end == b"s" and draw.random() < 0.3:
                fragments[1] = opcodes_of(slice(None))[0]  # the key: the last is put first
            put(opcodes, at, 0, [end])
            for each in fragments:
                put(opcodes, at, 0, each)
            if count == 0:
                put(opcodes, at, 0, [pickle.MARK])
    return b"\x80\x05" + b"".join(opcodes) + b".", buffers


def changed(draw, pool):
    """A valid pickle, or two in a row, with some opcodes gone, doubled, swapped, replaced or new."""
    opcodes, buffers = draw.choice(pool)
    opcodes = list(opcodes)
    if draw.random() < 0.3:
        more, others = draw.choice(pool)
        put(opcodes, draw.randrange(len(opcodes) + 1), 0, more)
        buffers = buffers + others
    for _ in range(draw.choice([1, 1, 2, 3, 8])):
        at = draw.randrange(len(opcodes) + 1)
        how = draw.randrange(6)
        if how == 0:
            del opcodes[at:at + draw.randrange(1, 3)]
        elif how == 1:
            opcodes[at:at] = opcodes[at:at + 1] * draw.choice([1, 1, 2, 1000])
        elif how == 2 and opcodes:
            other = draw.randrange(len(opcodes))
            opcodes[at:at + 1], opcodes[other] = [opcodes[other]], (opcodes[at:at + 1] or [b"N"])[0]
        elif how == 3:
            opcodes[at:at + 1] = [opcode(draw, pool)]
        elif how == 4:
            opcodes[at:at] = [opcode(draw, pool)]
        else:
            whole = b"".join(opcodes)
            if whole:
                place = draw.randrange(len(whole))
                opcodes = [whole[:place], bytes([draw.randrange(256)]), whole[place + 1:]]
    return b"\x80\x05" + b"".join(opcodes) + b".", buffers


def value(draw, pool, depth=0):
    """Opcodes that push one value: a constant, something of the pool, a container, or a call with some arguments."""
    how = draw.random() if depth < 4 else 0.1
    if how < 0.25:
        return draw.choice([integer(draw), text(draw), b"N", b"\x88", b")", b"C\x08" + bytes(8),
                            b"h" + bytes([draw.randrange(8)])])
    if how < 0.4:
        return b"".join(draw.choice(pool)[0])
    parts = b"".join(value(draw, pool, depth + 1) for _ in range(draw.randrange(4)))
    if how < 0.6:
        made = draw.choice([b"(" + parts + b"t", b"](" + parts + b"e", b"(" + parts + b"\x91",
                            b"}" + value(draw, pool, depth + 1) + value(draw, pool, depth + 1) + b"s"])
    else:
        made = name(draw) + b"(" + parts + b"t" + draw.choice([b"R", b"R", b"R", b"\x81"])
    after = draw.random()
    if after < 0.2:
        made += value(draw, pool, depth + 1) + b"b"
    elif after < 0.35:
        made += draw.choice([value(draw, pool, depth + 1) + b"a", b"(" + value(draw, pool, depth + 1) + b"e",
                             value(draw, pool, depth + 1) + value(draw, pool, depth + 1) + b"s"])
    return made + (b"q" + bytes([draw.randrange(8)]) if draw.random() < 0.3 else b"")


def made_up(draw, pool):
    if draw.random() < 0.5:
        return b"\x80\x05" + value(draw, pool) + b".", []
    return b"\x80\x05" + b"".join(opcode(draw, pool) for _ in range(draw.randrange(1, 40))) + b".", []


def addresses_in(value):
    """An array of numbers over the memory of an array of objects, if there is one."""
    left, seen = [value], set()
    while left:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, dict):
            left += [*each.keys(), *each.values()]
        elif isinstance(each, (list, tuple, set, frozenset, collections.deque)):
            left += each
        elif isinstance(each, np.ndarray) and each.dtype.hasobject:
            left += each.ravel().tolist()
        elif isinstance(each, np.ndarray):
            below = each.base
            while below is not None:
                if isinstance(below, np.ndarray) and below.dtype.hasobject:
                    return each
                below = below.obj if isinstance(below, memoryview) else getattr(below, "base", None)
    return None


class Watch:
    """What the interpreter tells of while a pickle is read."""

    HARMLESS = {"builtins.id", "object.__getattr__"}

    def __init__(self):
        self.on = False
        self.seen = []
        self.found = set()
        sys.addaudithook(self.hear)

    def hear(self, event, args):
        if not self.on:
            return
        if event == "pickle.find_class":
            self.found.add(args)
            if (args not in safe._CALLS and args[1] not in safe._NAMES.get(args[0], ())
                    and args[0] not in safe._CLASSES_OF):
                self.seen.append((event, args))
        elif event not in self.HARMLESS:
            self.seen.append((event, str(args)[:200]))


def parts_of_attacks():
    """The attacks as opcodes, to be changed; those that are no whole pickles, or very long, are left out."""
    found = []
    for pickled in hostile_pickles.ALL.values():
        try:
            opcodes = split(pickled)
        except ValueError:
            continue
        if len(opcodes) < 2000 and len(pickled) < 100_000 and b"tensor_pickles" not in pickled:
            found.append(([each for each in opcodes if each[:1] not in (pickle.PROTO, pickle.STOP)], []))
    return found


def limit_time(seconds=None):
    """Ends the process when it has worked for so long; how long it was kept waiting does not count."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS if seconds is None else seconds)


class Bad(Exception):
    """A pickle did what it must not."""


def attacks():
    """Each is refused, and in time. The small ones first: they are read at once."""
    for name, pickled in sorted(hostile_pickles.ALL.items(), key=lambda item: len(item[1])):
        limit_time()
        try:
            unpack(pickled, [], True)
        except pickle.UnpicklingError as refusal:
            if "weights_only" not in str(refusal) or "MemoryError" in str(refusal):
                raise Bad(f"{name}: {refusal}") from None
        except ImportError:
            pass  # torch may not be here
        else:
            raise Bad(f"what {name} was read")
    limit_time(0)


def look_at(watch, outcomes, pickled, buffers):
    """Reads one pickle."""
    body = b"".join(len(each).to_bytes(8, "little") for each in buffers) + pickled
    rooms = [bytearray(each) for each in buffers]
    limit_time()
    watch.on = True
    got = problem = None
    try:
        got = unpack(body, rooms, True)
    except (pickle.UnpicklingError, ImportError) as refusal:
        problem = refusal
    finally:
        watch.on = False
    outcomes["read" if problem is None else "refused"] += 1
    if watch.seen or "MemoryError" in str(problem):
        raise Bad(f"{watch.seen} {problem}: {body[:2000]!r}")
    if problem is None:
        if address := addresses_in(got):
            raise Bad(f"{address!r} is made of addresses: {body[:2000]!r}")
        try:  # touches every element
            pickle.dumps(got, 5)
        except Exception:  # noqa: BLE001: what nests too deep for pickle, for example
            outcomes["not written again"] += 1


def prepare(pool):
    """Whatever is imported late is imported now; then memory is limited."""
    for opcodes, buffers in pool:
        unpack(b"".join(len(each).to_bytes(8, "little") for each in buffers) + b"\x80\x05" + b"".join(opcodes) + b".",
               [bytearray(each) for each in buffers], True)
    for module in {module for module, _ in GLOBALS} | ({"torch"} if importlib.util.find_spec("torch") else set()):
        __import__(module)
    with open("/proc/self/statm", encoding="ascii") as file:
        there = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (there + MEMORY, there + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main(seed, count):
    faulthandler.enable()
    pool = [opcodes_of(value) for value in VALUES + HOT]
    watch = Watch()
    prepare(pool)
    attacks()
    pool += parts_of_attacks()
    outcomes = collections.Counter()
    for number in range(count):
        draw = random.Random(f"{seed}.{number}")
        try:
            look_at(watch, outcomes, *draw.choice([recomposed, recomposed, changed, made_up])(draw, pool))
        except Bad as found:
            raise SystemExit(f"seed {seed}, number {number}: {found}") from None
        if number % 500 == 0:
            gc.collect()
            print(number, file=sys.stderr, flush=True)  # where it was, should it crash
    limit_time(0)
    print(f"{len(hostile_pickles.ALL)} attacks,", dict(outcomes), f"{len(watch.found)} names found,", "well")


def planted():
    """Each fault in a process of its own, which is expected to tell of it, to crash or not to end in time."""
    prepare([opcodes_of(value) for value in VALUES + HOT])
    attacks()
    unseen = []
    for name, plant in pickle_faults.FAULTS.items():
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            try:
                plant()
                global SECONDS
                SECONDS = 1  # a pickle that is refused takes milliseconds
                attacks()
            except BaseException:  # noqa: BLE001: seen
                os._exit(1)
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            unseen.append(name)
    if unseen:
        raise SystemExit(f"without these checks all attacks are refused: {unseen}")
    print(f"{len(pickle_faults.FAULTS)} faults seen, well")


if __name__ == "__main__":
    if sys.argv[1] == "planted":
        planted()
    else:
        main(int(sys.argv[1]), int(sys.argv[2]))
