"""Stores: their methods, what they answer, what they raise. Each rank has stores of its own but for `shared`."""

import datetime
import os
import tempfile

from arrays import torch
from attributes import seconds


def kinds(at):
    d = at.dist
    yield "hash", d.HashStore()
    yield "tcp", d.TCPStore("127.0.0.1", 0, 1, True, seconds(20))
    folder = tempfile.mkdtemp()
    yield "file", d.FileStore(os.path.join(folder, "store"), 1)
    yield "prefix", d.PrefixStore("p", d.HashStore())
    yield "deep", d.PrefixStore("a", d.PrefixStore("b", d.HashStore()))


def methods(at, step):
    for kind, store in kinds(at):
        calls = {
            "set": lambda: store.set("k", "v"), "get": lambda: store.get("k"), "set_octets": lambda: store.set("b", b"\0\xff"),
            "get_octets": lambda: store.get("b"), "add": lambda: store.add("n", 5), "add_again": lambda: store.add("n", -2),
            "get_number": lambda: store.get("n"), "add_to_text": lambda: store.set("t", "12") or store.add("t", 1),
            "check": lambda: store.check(["k"]), "check_absent": lambda: store.check(["k", "absent"]),
            "check_nothing": lambda: store.check([]), "wait": lambda: store.wait(["k"]),
            "wait_for": lambda: store.wait(["k"], seconds(3)), "wait_nothing": lambda: store.wait([]),
            "compare_set": lambda: store.compare_set("k", "v", "w"), "compare_set_other": lambda: store.compare_set("k", "v", "x"),
            "compare_set_absent": lambda: store.compare_set("new", "", "first"),
            "compare_set_absent_other": lambda: store.compare_set("newer", "old", "first"),
            "get_changed": lambda: store.get("k"), "empty_value": lambda: store.set("e", "") or store.get("e"),
            "long": lambda: len(store.set("l", "x" * 100000) or store.get("l")), "unicode": lambda: store.set("ä", "€") or store.get("ä"),
            "delete_key": lambda: store.delete_key("e") if kind != "file" else None,
            "timeout": lambda: store.timeout, "set_timeout": lambda: store.set_timeout(seconds(7)) or store.timeout,
            "append": lambda: store.append("k", "more") or store.get("k") if store.has_extended_api() else None,
            "extended": lambda: store.has_extended_api(), "is_store": lambda: isinstance(store, at.dist.Store),
            "multi_set": lambda: store.multi_set(["m1", "m2"], ["1", "2"]), "multi_get": lambda: store.multi_get(["m1", "m2"]),
            "multi_get_nothing": lambda: store.multi_get([]), "clone": lambda: type(store.clone()).__name__,
            "prefix_of": lambda: at.dist.PrefixStore("q", store).set("k", "inner"),
            "prefix_of_get": lambda: store.get("q/k"),
            "wait_absent": lambda: store.wait(["absent"], datetime.timedelta(milliseconds=30)),
            "get_absent": lambda: store.set_timeout(datetime.timedelta(milliseconds=30)) or store.get("absent"),
            "queue_push": lambda: kind == "file" or store.queue_push("q", b"1"),
            "queue_len": lambda: kind == "file" or store.queue_len("q"),
            "queue_pop": lambda: kind == "file" or store.queue_pop("q"),
            "queue_pop_empty": lambda: kind == "file" or store.queue_pop("q", False),
        }
        for name, call in calls.items():
            step(f"{kind}/{name}", call)


def wrong(at, step, d):
    store = d.HashStore()
    calls = {
        "set_number": lambda: store.set("k", 3), "set_none": lambda: store.set("k", None), "set_key": lambda: store.set(3, "v"),
        "get_key": lambda: store.get(3), "add_text": lambda: store.add("n", "1"), "add_float": lambda: store.add("n", 1.5),
        "check_text": lambda: store.check(3), "wait_number": lambda: store.wait(3),
        "wait_timeout": lambda: store.wait(["k"], "x"), "set_timeout": lambda: store.set_timeout("x"),
        "multi_set": lambda: store.multi_set(["a"], ["1", "2"]), "prefix_none": lambda: d.PrefixStore("p", None),
        "prefix_number": lambda: d.PrefixStore("p", 3), "prefix_text": lambda: d.PrefixStore("p", "store"),
        "prefix_missing": lambda: d.PrefixStore("p"), "prefix_key": lambda: d.PrefixStore(3, store),
        "tcp_port_70000": lambda: d.TCPStore("127.0.0.1", 70000, 1, True),
        "tcp_port_negative": lambda: d.TCPStore("127.0.0.1", -1, 1, True),
        "tcp_port_text": lambda: d.TCPStore("127.0.0.1", "x", 1, True),
        "tcp_no_port": lambda: d.TCPStore("127.0.0.1"), "tcp_nothing": lambda: d.TCPStore(),
        "tcp_host": lambda: d.TCPStore(3, 0, 1, True), "tcp_timeout": lambda: d.TCPStore("127.0.0.1", 0, 1, True, timeout=3),
        "tcp_nobody": lambda: d.TCPStore("127.0.0.1", 1, 2, False, datetime.timedelta(milliseconds=200)),
        "tcp_no_such_host": lambda: d.TCPStore("no.such.host.invalid", 1, 2, False, datetime.timedelta(milliseconds=200)),
        "file_missing": lambda: d.FileStore(),
        "file_number": lambda: d.FileStore(3, 1), "abstract": lambda: d.Store().get("k"),
        "tcp_in_use": lambda: d.TCPStore("127.0.0.1", d.TCPStore("127.0.0.1", 0, 1, True).port, 1, True) and None,
    }
    for name, call in calls.items():
        step(name, call)
    served = d.TCPStore("127.0.0.1", 0, 1, True, seconds(20))
    step("tcp_taken", lambda: d.TCPStore("127.0.0.1", served.port, 1, True, seconds(2)))
    step("tcp_attributes", lambda: (served.host, served.port > 0, served.num_keys() >= 0))


def own_store(at, step):
    """A store of the program's own, in Python, below a PrefixStore."""
    class Table(at.dist.Store):
        def __init__(self):
            super().__init__()
            self.table = {}

        def set(self, key, value):
            self.table[key] = value

        def get(self, key):
            return self.table[key]

    table = Table()
    step("set", lambda: table.set("k", b"v"))
    step("get", lambda: table.get("k"))
    step("prefix_set", lambda: at.dist.PrefixStore("p", table).set("k", b"w"))
    step("prefix_get", lambda: at.dist.PrefixStore("p", table).get("k"))
    step("keys", lambda: sorted(table.table))


def shared(at, step, d):
    """One that all ranks of the job have: rank 0 serves it."""
    place = [None]
    if at.rank == 0:
        store = d.TCPStore("127.0.0.1", 0, at.size, True, seconds(20), wait_for_workers=False)
        place = [store.port]
    d.broadcast_object_list(place, 0)
    if at.rank > 0:
        store = d.TCPStore("127.0.0.1", place[0], at.size, False, seconds(20))
    step("add", lambda: store.add("n", 2 ** at.rank) and None)
    step("set", lambda: store.set(f"key{at.rank}", str(at.rank)))
    step("wait", lambda: store.wait([f"key{r}" for r in range(at.size)]))
    step("get", lambda: [store.get(f"key{r}") for r in range(at.size)])
    d.barrier()
    step("sum", lambda: store.add("n", 0))
    step("compare_set", lambda: store.compare_set("winner", "", "somebody"))
    step("prefix", lambda: d.PrefixStore(f"of{at.rank}", store).set("k", str(at.rank)))
    d.barrier()
    step("others", lambda: [store.get(f"of{r}/k") for r in range(at.size)])
    step("keys", lambda: store.num_keys())
    d.barrier()
    step("count", lambda: store.delete_key(f"key{at.rank}"))
    d.barrier()


PROGRAMS = [methods, wrong, own_store, shared]
