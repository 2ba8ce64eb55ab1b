"""Objects of a group in which ranks have not proved that they belong to the job: nothing is unpickled that may run
code."""

import ranks

from init_programs import PRELUDE

GATHER = PRELUDE + """
import pickle
from decimal import Decimal

class Attack:
    def __reduce__(self):
        return (open, (os.path.join(FOLDER, "ran"), "w"))

def gathered(value):
    out = [None] * SIZE
    dist.all_gather_object(out, value)
    return out

def only_plain():
    assert not dist.group.WORLD._low.authenticated
    assert gathered({"rank": [RANK, 1.5, None]})[1] == {"rank": [1, 1.5, None]}
    raises(pickle.UnpicklingError, "not authenticated", lambda: gathered(Attack() if RANK else 0))
    assert not os.path.exists(os.path.join(FOLDER, "ran")), "the other rank's code has run here"
"""


def test_a_pickle_is_read_where_ranks_have_proved_to_belong_to_the_job(tmp_path):
    ranks.run(GATHER + """
dist.init_process_group()
assert dist.group.WORLD._low.authenticated
assert gathered(Decimal(RANK)) == [Decimal(0), Decimal(1)]
""", 2, tmp_path, init=False)


def test_without_a_secret_objects_are_plain(tmp_path, monkeypatch):
    monkeypatch.setenv("TUTTI_INSECURE", "1")
    ranks.run(GATHER + """
dist.init_process_group()
only_plain()
""", 2, tmp_path, init=False)


def test_a_secret_that_came_through_an_open_store_counts_for_nothing(tmp_path):
    ranks.run(GATHER + """
# Written in Python: nobody knows who can write to it.
dist.init_process_group(store=store_of_python(dist.FileStore(os.path.join(FOLDER, "store"), SIZE)), rank=RANK, world_size=SIZE)
only_plain()
""", 2, tmp_path, init=False)
