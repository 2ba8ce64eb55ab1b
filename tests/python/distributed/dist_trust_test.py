"""Objects of other ranks are unpickled where all ranks have proved that they belong to the job, and where TUTTI_INSECURE
says "pickle" on all of them. Elsewhere each object operation is refused at its call, on every rank alike."""

import socket

import pytest

import ranks
import tutti

from init_programs import run
from tutti.multiprocessing import run_threads

OBJECTS = """
class Attack:
    def __reduce__(self):
        return (open, (os.path.join(FOLDER, "ran"), "w"))

def operations(group):  # by name; together they are a program that ends
    root = RANK == 0
    return {
        "all_gather_object": lambda **how: dist.all_gather_object([None] * SIZE, Attack(), group, **how),
        "all_to_all_object": lambda **how: dist.all_to_all_object([None] * SIZE, [Attack()] * SIZE, group, **how),
        "gather_object": lambda **how: dist.gather_object(Attack(), [None] * SIZE if root else None, 0, group, **how),
        "broadcast_object_list": lambda **how: dist.broadcast_object_list([Attack() if root else None], 0, group, **how),
        "scatter_object_list":
            lambda **how: dist.scatter_object_list([None], [Attack()] * SIZE if root else None, 0, group, **how),
        **({"send_object_list": lambda: dist.send_object_list([Attack()], 1, group)} if root else
           {"recv_object_list": lambda **how: dist.recv_object_list([None], 0, group, **how)})}

def refused(*groups):
    # Rank 1 asks first and alone: nothing is sent, so that nobody waits for the other.
    for rank in (1, 0):
        for group in (None, *groups) if RANK == rank else ():
            assert not (group or dist.group.WORLD)._low.authenticated
            for name, call in {**operations(group), "breakpoint": dist.breakpoint}.items():
                error = raises(tutti.InvalidArgument, name + " in group", call)
                for text in ("not every rank has proved that it belongs to the job", "TUTTI_SECRET_FILE", "TUTTI_INSECURE=pickle"):
                    assert text in str(error), error
        check()
    assert not os.path.exists(os.path.join(FOLDER, "ran")), "the other rank's code has run here"

def allowed(group):
    for call in operations(group).values():
        call()
        dist.barrier(group=group)
        if RANK:
            os.remove(os.path.join(FOLDER, "ran"))  # rank 1 has read each
        dist.barrier(group=group)
"""
# Groups of every kind that the world gives.
GROUPS = """
ours = [dist.new_group([1, 0]), dist.new_group([0, 1], use_local_synchronization=True), dist.split_group(split_ranks=[[0, 1]]),
        dist.init_device_mesh("cpu", (2,)).get_group()]
"""
# Stores that tell nobody who else can read or write them.
STORES = {
    "python": "StoreOfPython(dist.FileStore(os.path.join(FOLDER, 'store'), 2))",
    "a part of one of python": "dist.PrefixStore('x', StoreOfPython(dist.FileStore(os.path.join(FOLDER, 'store'), 2)))",
    "a file that others may read": "dist.FileStore(os.path.join(FOLDER, 'open'), 2)",
}


def test_objects_are_read_where_ranks_have_proved_to_belong_to_the_job(tmp_path):
    run(OBJECTS + """
dist.init_process_group()
group = dist.new_group([0, 1], use_local_synchronization=True)
assert dist.group.WORLD._low.authenticated and group._low.authenticated
for name, call in operations(None).items():
    if name != "send_object_list":
        raises(ValueError, f"{name}: weights_only=True is refused", lambda: call(weights_only=True))
assert not os.path.exists(os.path.join(FOLDER, "ran"))
for each in (None, group):
    got = [None] * 2
    dist.all_gather_object(got, {"rank": RANK, "kind": Attack}, each)
    assert got[1] == {"rank": 1, "kind": Attack}
""", 2, tmp_path)


def test_without_a_secret_every_object_operation_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("TUTTI_INSECURE", "1")
    run(OBJECTS + """
dist.init_process_group()
""" + GROUPS + """
refused(*ours)
""", 2, tmp_path)


@pytest.mark.parametrize("store", STORES)
def test_a_secret_that_came_through_an_open_store_counts_for_nothing(store, tmp_path):
    (tmp_path / "open").touch()
    (tmp_path / "open").chmod(0o666)
    run(OBJECTS + f"""
dist.init_process_group(store={STORES[store]}, rank=RANK, world_size=SIZE)
refused(dist.new_group([0, 1]))
""", 2, tmp_path)


def test_a_group_that_meets_by_an_unproven_world_proves_itself_by_the_users_key(tmp_path):
    run(OBJECTS + f"""
dist.init_process_group(store={STORES["python"]}, rank=RANK, world_size=SIZE)
group = dist.new_group([0, 1], use_local_synchronization=True)
assert group._low.authenticated
got = [None] * 2
dist.all_gather_object(got, RANK, group)
assert got == [0, 1]
dist.destroy_process_group()
""", 2, tmp_path)


@pytest.mark.parametrize("store", ["None", STORES["python"]], ids=["environment", "python"])
def test_in_a_closed_network_all_ranks_may_ask_for_objects(store, tmp_path, monkeypatch):
    monkeypatch.setenv("TUTTI_INSECURE", "pickle")
    run(OBJECTS + f"""
dist.init_process_group(store={store}, rank=RANK, world_size=SIZE)
""" + GROUPS + """
for group in (None, *ours):
    assert not (group or dist.group.WORLD)._low.authenticated
    allowed(group)
raises(ValueError, "breakpoint(rank=0): rank 0 has no standard input", dist.breakpoint)
dist.destroy_process_group()
""", 2, tmp_path)


@pytest.mark.parametrize("words", [("1", "pickle"), ("pickle", "1")], ids="-".join)
def test_one_rank_cannot_ask_for_all(words, tmp_path):
    run(OBJECTS + f"""
os.environ["TUTTI_INSECURE"] = {words}[RANK]
dist.init_process_group()
refused(dist.new_group([0, 1]))
""", 2, tmp_path)


def test_the_variable_takes_no_other_word(monkeypatch):
    for wrong in ("yes", "Pickle", "2", "1 0"):
        monkeypatch.setenv("TUTTI_INSECURE", wrong)
        with pytest.raises(tutti.InvalidArgument, match="it must be 0, 1 or pickle"):
            tutti.job_secret()
    for right in ("pickle", " 1\n"):
        monkeypatch.setenv("TUTTI_INSECURE", right)
        assert tutti.job_secret() == b""


def test_ranks_that_are_threads_are_this_process(monkeypatch):
    monkeypatch.setenv("TUTTI_INSECURE", "1")
    proven = []

    def rank(world):
        world.check_objects("anything")
        proven.append(world.authenticated)
    run_threads(rank, 2)
    assert proven == [True, True]


@pytest.mark.parametrize("below", ["FileStore(os.path.join(FOLDER, 'store'), SIZE)", "HashStore()"])
def test_methods_of_python_may_carry_what_is_drawn_anywhere(tmp_path, below):
    name, arguments = below.split("(", 1)
    run(f"""
class Mirrored(dist.{name}):
    def get(self, key):  # may as well come from another host
        return super().get(key)
dist.init_process_group(store=Mirrored({arguments}, rank=RANK, world_size=SIZE)
assert not dist.group.WORLD._low.authenticated
""", 1, tmp_path)


def test_a_secret_of_a_store_counts_where_python_replaces_its_methods(tmp_path):
    run("""
class Mirrored(dist.TCPStore):
    def get(self, key):
        return super().get(key)
store = Mirrored("127.0.0.1", int(os.environ["MASTER_PORT"]), SIZE, RANK == 0)
dist.init_process_group(store=store, rank=RANK, world_size=SIZE)
assert dist.group.WORLD._low.authenticated
check()
""", 2, tmp_path)


def test_a_listener_does_not_learn_the_secret_of_a_group_of_members_alone(tmp_path, monkeypatch):
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM).close()
    except PermissionError:
        pytest.skip("a raw socket needs CAP_NET_RAW")
    monkeypatch.setenv("TUTTI_TRANSPORT", "tcp")
    run("""
import hashlib, hmac, re, socket
dist.init_process_group()
if RANK == 1:
    listener = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
    listener.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)  # SO_RCVBUFFORCE
    listener.bind(("lo", 0))
dist.barrier()
group = dist.new_group([0, 1], use_local_synchronization=True)
dist.barrier()
assert group._low.authenticated
if RANK == 1:
    heard = b""
    listener.setblocking(False)
    try:
        while True:
            heard += listener.recv(1 << 17)
    except BlockingIOError:
        pass
    drawn = set(re.findall(rb"(?:[0-9]{1,10} ){8}", heard))
    assert drawn, "what rank 0 has drawn"
    for text in drawn:
        assert hmac.new(text, b"tutti secret probe", hashlib.sha256).digest() != group._low.derive_secret("probe")
""", 2, tmp_path)
