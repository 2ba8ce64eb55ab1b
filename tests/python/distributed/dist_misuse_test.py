"""Mistakes of a first program: each is told at the call, with what is wrong and what is allowed."""

from init_programs import run


def test_arguments(tmp_path):
    run("""
        dist.init_process_group("gloo", timeout=20)
        x = np.ones(1)
        for call in (dist.broadcast, dist.reduce, dist.send, dist.isend, dist.recv, dist.irecv,
                     lambda tensor, rank: dist.P2POp(dist.isend, tensor, rank)):
            for wrong in (True, 0.5, 0.0, "0"):
                raises(TypeError, f"a rank is a whole number, not {wrong!r}", lambda: call(x, wrong))
        raises(TypeError, "send_object_list: object_list must be a list, not <class 'int'>",
               lambda: dist.send_object_list(3, 1 - RANK))
        raises(TypeError, "as_completed: 3 is no Work", lambda: dist.as_completed([3]))
        raises(TypeError, "add_safe_globals: 3 is no class", lambda: dist.add_safe_globals([3]))
        raises(TypeError, "keys must be a list of str or bytes, not int", lambda: dist.HashStore().wait(3))
        for wrong in (0, -1, datetime.timedelta(0)):
            raises(ValueError, "the timeout must be positive", lambda: dist.new_group([0, 1], timeout=wrong))
            raises(ValueError, "the timeout must be positive", lambda: dist.new_subgroups(1, timeout=wrong))
        check()
    """, 2, tmp_path)


def test_groups_that_are_gone(tmp_path):
    run("""
        raises(AssertionError, "there is no world, or it was destroyed already", dist.destroy_process_group)
        dist.init_process_group("gloo", timeout=20)
        both, second = dist.new_group([0, 1]), dist.new_group([1])
        assert "destroyed" not in repr(both)
        dist.destroy_process_group(both)
        assert repr(both).endswith("rank %d of 2, destroyed>" % RANK)
        raises(ValueError, "destroyed", lambda: dist.all_reduce(np.ones(1), group=both))
        raises(ValueError, "destroyed> is not registered", lambda: dist.get_rank(both))
        raises(KeyError, "destroyed", lambda: dist.get_process_group_ranks(both))
        if RANK == 0:
            raises(KeyError, "this rank is not in the group", lambda: dist.get_process_group_ranks(second))
        check()
    """, 2, tmp_path)
