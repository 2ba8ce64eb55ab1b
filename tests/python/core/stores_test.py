"""Stores: what each can do, one's own in Python, rendezvous in them, Ctrl-C, fork."""

import itertools
import threading
import time
from datetime import timedelta

import pytest
import tutti

import ranks
from raising import StoreOfPython

KINDS = {
    "hash": lambda path: tutti.HashStore(), "file": lambda path: tutti.FileStore(path, 1),
    "tcp": lambda path: tutti.TCPStore("127.0.0.1", 0, 1, True),
    "prefix": lambda path: tutti.PrefixStore("some", tutti.HashStore()), "python": lambda path: StoreOfPython(tutti.HashStore()),
    "python prefix": lambda path: tutti.PrefixStore("some", StoreOfPython(tutti.HashStore()))}


@pytest.fixture(params=KINDS)
def store(request, tmp_path):
    return KINDS[request.param](str(tmp_path / "store"))


def test_what_every_store_can_do(store):
    start = 1 if isinstance(store, tutti.TCPStore) else 0  # it counts who has joined
    store.set("a", b"\x00\xff")
    assert store.get("a") == b"\x00\xff"
    assert store.add("n", 2) == 2 and store.add("n", -3) == -1 and store.get("n") == b"-1"
    assert store.check(["a", "n"]) and not store.check(["a", "b"])
    assert store.compare_set("a", b"no", b"new") == b"\x00\xff"
    assert store.compare_set("a", b"\x00\xff", b"new") == b"new"
    assert store.compare_set("c", b"", b"first") == b"first"
    assert store.compare_set("d", b"some", b"first") == b"some" and not store.check(["d"])
    assert store.num_keys() == 3 + start
    assert [key for key in store.list_keys() if key != "init/"] == ["a", "c", "n"]
    assert store.delete_key("c") and not store.delete_key("c")
    store.append("a", b"+")
    store.append("e", b"x")
    assert store.multi_get(["a", "e"]) == [b"new+", b"x"]
    store.multi_set(["f", "g"], [b"1", b"2"])
    assert store.multi_get(["g", "f"]) == [b"2", b"1"]
    store.wait(["a", "g"], timedelta(seconds=5))
    store.queue_push("q", b"1")
    store.queue_push("q", b"2")
    assert store.queue_len("q") == 2
    assert [store.queue_pop("q"), store.queue_pop("q", False)] == [b"1", b"2"]
    with pytest.raises(IndexError, match="empty"):
        store.queue_pop("q", block=False)


def test_text_bytes_and_buffers(store):
    if not isinstance(store, StoreOfPython):  # whose keys are those that it is called with
        store.set(b"k", "tex\u00e4t")
        assert store.get("k") == "tex\u00e4t".encode()
        store.set("\u00e4", memoryview(b"abc"))
        assert store.get(b"\xc3\xa4") == b"abc"
        for wrong in (3, None, 1.5):
            with pytest.raises(TypeError, match="str or bytes"):
                store.set("k", wrong)
            with pytest.raises(TypeError, match="str or bytes"):
                store.get(wrong)
        with pytest.raises(ValueError, match="1 keys, but 2"):
            store.multi_set(["a"], [b"1", b"2"])
        with pytest.raises(tutti.InvalidArgument, match="key"):
            store.set("k" * 5000, b"")


def test_errors_show_foreign_bytes(store):
    if isinstance(store, StoreOfPython):  # whose errors are its own
        return
    store.set("k", b"\x80")
    with pytest.raises(tutti.Error) as problem:
        store.add("k", 1)
    if not isinstance(problem.value, tutti.StoreError):  # that of one in Python tells Python's
        assert "\\x80" in str(problem.value)
    with pytest.raises(tutti.TimeoutError) as late:
        store.get(b"\xff", timeout=0.1)
    assert "xff" in str(late.value) or "\\udcff" in str(late.value)
    with pytest.raises(IndexError, match="empty"):
        store.queue_pop(b"q\xff", block=False)
    with pytest.raises(tutti.InvalidArgument, match="too long"):
        store.set(b"\xc3\xa4" * 5000, b"")
    with pytest.raises(tutti.InvalidArgument, match="too long"):
        store.set(b"\xff" * 5000, b"")
    # A key keeps its bytes, as os.fsdecode does it.
    store.set(b"k\xff", b"1")
    assert b"k\xff" in [key.encode("utf-8", "surrogateescape") for key in store.list_keys()]
    assert repr(tutti.PrefixStore("pr\u00e4fix", store))


def test_waiting_for_what_does_not_come(store):
    begin = time.monotonic()
    for call in (lambda: store.wait(["never"], timedelta(seconds=0.1)),
                 lambda: store.queue_pop("never", timeout=0.1) if hasattr(store, "timeout") else None,
                 lambda: store.multi_get(["never"], timeout=0.1)):
        with pytest.raises(TimeoutError):
            call()
    assert time.monotonic() - begin < 10


def test_others_run_while_one_thread_waits(store):
    told = []
    thread = threading.Thread(target=lambda: told.append(store.get("later")))
    thread.start()
    store.set("later", b"x")
    thread.join(20)
    assert told == [b"x"]


def test_timeouts(store):
    if isinstance(store, StoreOfPython):
        return
    store.set_timeout(0.05)
    assert store.timeout == timedelta(milliseconds=50)
    with pytest.raises(tutti.TimeoutError):
        store.get("never")
    store.set_timeout(timedelta(seconds=7))
    assert store.timeout == timedelta(seconds=7)
    for wrong in (-1, float("nan"), "soon", None):
        with pytest.raises((ValueError, TypeError)):
            store.set_timeout(wrong)


def test_python_gets_text_bytes_and_timedeltas():
    store = StoreOfPython(tutti.HashStore())
    under = tutti.PrefixStore("p", store)
    under.set(b"key", "value")
    assert under.get("key") == b"value" and store.under.list_keys() == ["p/key"]
    assert store.calls == {("set", str, bytes), ("wait", list, timedelta), ("get", str)}
    assert under.underlying_store is store and under.prefix == "p"


def test_what_a_store_of_ones_own_lacks_or_does_wrong():
    class Empty(tutti.Store):
        pass

    class Strange(StoreOfPython):
        def add(self, key, amount):
            return "many"

        def check(self, keys):
            raise KeyError("broken")

        def wait(self, keys, timeout):
            raise TimeoutError("the cat sleeps")

    with pytest.raises(tutti.BackendError, match="the Empty does not define"):
        Empty().set("a", b"")
    strange = tutti.PrefixStore("p", Strange(tutti.HashStore()))
    with pytest.raises(tutti.StoreError, match="add returned something else"):
        strange.add("n", 1)
    with pytest.raises(tutti.StoreError, match=r"check raised KeyError\('broken'\)"):
        strange.check(["n"])
    with pytest.raises(tutti.TimeoutError, match="the cat sleeps"):
        strange.wait(["n"], timedelta(seconds=5))


def test_a_class_may_change_a_part_of_our_stores():
    class Counted(tutti.HashStore):
        def __init__(self):
            super().__init__()
            self.count = 0

        def set(self, key, value):
            self.count += 1
            super().set(key, value + b"!")

    store = Counted()
    store.set("a", b"1")
    under = tutti.PrefixStore("p", store)
    under.set("b", b"2")
    assert (store.count, store.get("a"), under.get("b")) == (2, b"1!", b"2!")


def test_tcp_store_tells_who_is_missing_and_refuses_other_secrets():
    with pytest.raises(tutti.TimeoutError, match="1 of 2 users"):
        tutti.TCPStore("127.0.0.1", 0, 2, True, timeout=0.1)
    with pytest.raises(ValueError, match="port"):
        tutti.TCPStore("127.0.0.1", 70000)
    served = tutti.TCPStore("127.0.0.1", 0, None, True, secret=b"0123456789abcdef" * 2)
    with pytest.raises(tutti.Error):
        tutti.TCPStore("127.0.0.1", served.port, timeout=2, secret=b"another one 123456 that is long enough")
    tutti.TCPStore("127.0.0.1", served.port, timeout=5, secret=b"0123456789abcdef" * 2).set("a", "1")
    with pytest.raises(tutti.InvalidArgument, match="given to the store holds 31 bytes"):
        tutti.TCPStore("127.0.0.1", served.port, secret=b"s" * 31)
    assert served.get("a") == b"1"


def test_rendezvous_in_a_store_that_python_defines(tmp_path):
    """Each rank's store is a Python class over a file store; the world keeps it."""
    ranks.run("""
        mine = StoreOfPython(tutti.FileStore(os.path.join(FOLDER, "store"), 3))
        world = tutti.init_process_group(store=mine, rank=RANK, world_size=3, timeout=20)
        assert mine.calls
        del mine
        gc.collect()
        x = np.ones(3)
        world.all_reduce(x)
        assert (x == 3).all()
        world.close()
    """, 3, tmp_path, init=False)


def test_rendezvous_by_an_exchange(tmp_path):
    ranks.run("""
        store = tutti.FileStore(os.path.join(FOLDER, "store"), 3)
        calls = []
        def exchange(name, mine):
            calls.append(name)
            assert isinstance(mine, bytes)
            store.set(f"{name}/{RANK}", mine)
            return store.multi_get([f"{name}/{r}" for r in range(3)])
        world = tutti.init_process_group(rank=RANK, world_size=3, exchange=exchange, timeout=20)
        x = np.ones(3)
        world.all_reduce(x)
        assert (x == 3).all() and len(calls) >= 2
    """, 3, tmp_path, init=False)


STORES = ["tutti.HashStore()", "tutti.TCPStore('127.0.0.1', 0, 1, True)", "tutti.FileStore(os.path.join(FOLDER, 's'))"]
WAITS = ["store.get('never')", "store.wait(['never'])", "store.queue_pop('never')"]


@pytest.mark.parametrize("store, call", [
    *itertools.product(STORES, WAITS), ("None", "tutti.TCPStore('127.0.0.1', int(os.environ['MASTER_PORT']), 2, True)")])
def test_ctrl_c_ends_waiting_for_a_store_and_joining_one(store, call, tmp_path):
    with ranks.Job(f"""
        store = {store}
        interrupted(lambda: {call})
        os._exit(0)  # what was asked goes on alone until its timeout
    """, 1, tmp_path, init=False) as job:
        soon = job.interrupt_asleep(0)
        assert ranks.interrupted_at(job.finish()[0]) < soon


def test_a_forked_child_is_told_and_does_not_end_the_parents_store(tmp_path):
    ranks.run("""
        store = tutti.TCPStore("127.0.0.1", 0, 1, True)
        client = tutti.TCPStore("127.0.0.1", store.port)
        client.set_will("gone", b"the child said good-bye")
        def child():
            global store, client
            raises(tutti.BackendError, "fork", lambda: store.get("a", timeout=1))
            raises(tutti.BackendError, "fork", lambda: client.get("a", timeout=1))
            del store, client
        assert in_fork(child) == 0
        client.set("a", b"1")
        assert store.get("a") == b"1" and not store.check(["gone"])
    """, 1, tmp_path, init=False)
