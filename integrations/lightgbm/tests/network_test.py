"""The uses of the block, right and wrong, and the errors."""

import signal
import textwrap

import pytest

import ranks
from order_test import SETUP, without_info

TRAIN = """
def fails(part, call, kind=LightGBMError):
    return raises(kind, part, call)

def block():
    return tutti.lightgbm.network(world)

"""


def run(body, size, folder, **options):
    return without_info(ranks.run(SETUP + TRAIN + textwrap.dedent(body), size, folder, **options))


def test_import_loads_nothing_of_lightgbm(tmp_path):
    ranks.run("import tutti.lightgbm; assert 'lightgbm' not in sys.modules", 1, tmp_path, init=False)


def test_one_rank_trains_as_without_a_network(tmp_path):
    run("""
        with block() as given:
            inside = said(train(given, dataset(0)))
        assert inside == said(train({}, dataset(0)))
    """, 1, tmp_path)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_a_group_has_one_block_after_the_other(size, tmp_path):
    body = """
        with block() as given:
            assert given == {"num_machines": world.size, "tree_learner": "data"}
            first = said(train(given, dataset(RANK)))
        with block() as given:
            assert said(train(given, dataset(RANK))) == first
        say(first)
    """
    assert len(set(run(body, size, tmp_path))) == 1


def test_subgroups_and_tutti_distributed(tmp_path):
    said = run("""
        import tutti.distributed as dist
        dist.init_process_group()
        with tutti.lightgbm.network() as given:
            everybody = said(train(given, dataset(RANK)))
        pair = dist.new_group([0, 2])
        if RANK != 1:
            with tutti.lightgbm.network(pair) as given:
                say(said(train(given, dataset(RANK))) + " " + everybody)
        else:
            fails("no group of tutti", lambda: tutti.lightgbm.network(pair).__enter__(), TypeError)
            say(everybody)
        dist.destroy_process_group()
    """, 3, tmp_path, init=False)
    pair, everybody = said[0].split()[::2]
    assert pair != everybody
    assert [line.split()[-2] for line in said] == [everybody] * 3 and said[2] == said[0]


def test_two_threads_have_blocks_with_groups_of_their_own(tmp_path):
    run("""
        groups = [world.new_group([0, 1]) for _ in range(2)]
        models = [None, None]
        def work(number):
            with tutti.lightgbm.network(groups[number]) as given:
                models[number] = said(train({**given, "learning_rate": 0.1 + number / 10}, dataset(RANK)))
        threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        for number in range(2):
            here = models[number]
            work(number)
            assert models[number] == here
        assert models[0] != models[1]
    """, 2, tmp_path)


def test_a_killed_rank_is_named_within_a_second(tmp_path):
    body = """
        def die(env):
            if RANK == 1 and env.iteration == 3:
                open(os.path.join(FOLDER, "time"), "w").write(str(time.monotonic()))
                os.kill(os.getpid(), signal.SIGKILL)
        die.before_iteration = True
        with block() as given:
            data = dataset(RANK).construct()
            problem = fails("rank 1", lambda: train(given, data, callbacks=[die]))
            took = time.monotonic() - float(open(os.path.join(FOLDER, "time")).read())
            assert took < 1 and "died" in str(problem), (took, problem)
            fails("rank 1", lambda: train(given, data))  # and the group stays broken
        say("told")
    """
    with ranks.Job(SETUP + TRAIN + textwrap.dedent(body), 3, tmp_path) as job:
        assert without_info(job.finish({1: -signal.SIGKILL}, leaks=True)) == ["told", "", "told"]


def test_other_threads_get_an_error(tmp_path):
    """And no model of this rank alone: neither by a whole training, nor by a part of it."""
    run("""
        def in_thread(call):
            problems = []
            def work():
                try:
                    call()
                except BaseException as problem:
                    problems.append(problem)
            thread = threading.Thread(target=work, name="pool-1")
            thread.start()
            thread.join()
            if problems:
                raise problems[0]
        with block() as given:
            fails("'pool-1', which is in no block", lambda: in_thread(lambda: train(given, dataset(RANK))))
            data = dataset(RANK).construct()
            fails("'pool-1', which is in no block", lambda: in_thread(lambda: train(given, data)))
            local = dataset(RANK)
            in_thread(local.construct)
            fails("outside of this block", lambda: train(given, local))
            model = lightgbm.Booster({**PARAMS, **given}, data)
            model.update()
            fails("network", lambda: in_thread(model.update))
            in_thread(lambda: train({}, dataset(RANK)))  # asks for no other rank
    """, 2, tmp_path)


def test_behind_the_block_calls_get_an_error(tmp_path):
    run("""
        with block() as given:
            model = lightgbm.Booster({**PARAMS, **given}, dataset(RANK))
            model.update()
        fails("in no block", lambda: train(given, dataset(RANK)))
        fails("network", model.update)
        said(train({}, dataset(RANK)))
        assert len(model.predict(rows(RANK)[0])) == 300
    """, 2, tmp_path)


def test_a_thread_has_one_block(tmp_path):
    run("""
        with block() as given:
            fails("in such a block already", block().__enter__, RuntimeError)
            train(given, dataset(RANK))
        world.close()
        fails("closed", block().__enter__, tutti.InvalidArgument)
    """, 2, tmp_path)


WRONG = [
    ({"num_machines": 1}, "num_machines is 1, but the network has 2 ranks"),
    ({"num_machines": 3}, "num_machines is 3, but the network has 2 ranks"),
    ({"num_machines": None, "num_machine": 4}, "num_machines is 4, but the network has 2 ranks"),
    ({"machines": "127.0.0.1:1,127.0.0.1:2"}, "the parameter machines asks for"),
    ({"machine_list_file": "list"}, "machine_list_filename, is for LightGBM's own sockets"),
    ({"tree_learner": "feature"}, "tree_learner is 'feature', but only 'data' and 'voting'"),
    ({"tree_learner": "serial"}, "tree_learner is 'serial'"),
    ({"tree_learner": None, "tree": "feature_parallel"}, "tree_learner is 'feature_parallel'"),
    ({"linear_tree": True}, "linear_tree=True makes a model of each rank alone"),
]


@pytest.mark.parametrize("change, told", WRONG)
def test_wrong_parameters_are_told_before_anything_is_sent(change, told, tmp_path):
    """One rank has them: it does not wait, though the other one calls nothing. And the block goes on."""
    run(f"""
        with block() as given:
            wrong = {{**given, **{change!r}}}
            if RANK == 0:
                fails({told!r}, lambda: train(wrong, dataset(RANK)))
                fails({told!r}, lambda: lightgbm.Dataset(*rows(RANK)[:2], params=wrong).construct()
                      if "machines" not in {change!r} else train(wrong, dataset(RANK)))
                tell("told")
            await_told("told")
            train(given, dataset(RANK))
    """, 2, tmp_path)


def test_wrong_parameters_are_told_of_a_constructed_dataset(tmp_path):
    """Parameters that are absent, too: only here is it known that no others follow."""
    run(f"""
        with block() as given:
            data = dataset(RANK).construct()
            if RANK == 0:
                for change, told in {[case for case in WRONG if "linear_tree" not in case[0]]!r}:
                    fails(told, lambda: train({{**given, **change}}, data))
                fails("num_machines is 1, but the network has 2", lambda: train({{"tree_learner": "data"}}, data))
                fails("tree_learner is 'serial'", lambda: train({{"num_machines": 2}}, data))
                tell("told")
            await_told("told")
            train(given, data)
    """, 2, tmp_path)


def test_refit_is_refused(tmp_path):
    """It would make a model of each rank alone."""
    run("""
        with block() as given:
            model = train(given, dataset(RANK))
            fails("refit makes a model of each rank alone", lambda: model.refit(*rows(RANK)[:2]))
        alone = [world.new_group([rank]) for rank in range(2)][RANK]
        with tutti.lightgbm.network(alone) as given:
            train(given, dataset(RANK)).refit(*rows(RANK)[:2])
    """, 2, tmp_path)


def test_datasets_of_files(tmp_path):
    """With pre_partition each rank's file has rows of its own. Without, LightGBM takes the rank's share of a file of all."""
    first, second = run(f"""
        features, values, _ = rows(RANK)
        np.savetxt(f"{tmp_path}/{{RANK}}.csv", np.c_[values, features], delimiter=",", fmt="%.17g")
        with block() as given:
            file = lightgbm.Dataset(f"{tmp_path}/{{RANK}}.csv", params={{**PARAMS, "pre_partition": True}})
            say(said(train(given, file)))
            say(said(train(given, lightgbm.Dataset(features, values, params=PARAMS))))
    """, 2, tmp_path)
    of_file, of_arrays = first.splitlines()
    assert first == second and of_file == of_arrays


def test_a_dataset_of_before_is_refused(tmp_path):
    run("""
        before = dataset(RANK).construct()
        with block() as given:
            fails("outside of this block", lambda: train(given, before))
            part = before.subset(list(range(200)))
            fails("outside of this block", lambda: train(given, part))
            data = dataset(RANK).construct()
            valid = lightgbm.Dataset(*rows(5)[:2], reference=data)
            model = train(given, data.subset(list(range(200))), valid_sets=[valid], keep_training_booster=True)
            fails("outside of this block", lambda: model.update(train_set=before))
    """, 2, tmp_path)


def test_an_exception_in_the_block_is_told_to_the_others(tmp_path):
    run("""
        try:
            with block() as given:
                if RANK == 1:
                    raise KeyError("mine")
                problem = fails("rank 1", lambda: train(given, dataset(RANK)))
                assert "KeyError" in str(problem), problem
        except KeyError:
            assert RANK == 1
        with block() as given:  # the group goes on
            train(given, dataset(RANK))
    """, 3, tmp_path)


def test_an_absent_rank_is_named_after_the_timeout(tmp_path):
    run("""
        world.set_timeout(1)
        with block() as given:
            if RANK == 0:
                start = time.monotonic()
                fails("rank 1", lambda: train(given, dataset(RANK)))
                assert 0.9 < time.monotonic() - start < 3
                tell("told")
            await_told("told")
    """, 2, tmp_path)


def test_calls_that_differ_are_an_error(tmp_path):
    run("""
        with block() as given:
            data = dataset(RANK).construct()
            fails("rank", lambda: train({**given, "num_leaves": 15 if RANK else 3}, data))
    """, 2, tmp_path)


def test_ctrl_c_ends_a_call_that_waits(tmp_path):
    body = """
        with block() as given:
            data = dataset(RANK).construct()
            if RANK == 0:
                interrupted(lambda: train(given, data))
            else:
                await_told("interrupted")
                fails("Ctrl-C", lambda: train(given, data))
    """
    with ranks.Job(SETUP + TRAIN + textwrap.dedent(body), 2, tmp_path) as job:
        limit = job.interrupt_asleep(0)
        job.await_said(0, "interrupted at ")
        (tmp_path / "interrupted").touch()
        assert ranks.interrupted_at(job.finish(leaks=True)[0]) < limit


def test_sockets_and_block_do_not_meet_in_a_thread(tmp_path):
    ports = [ranks.free_port() for _ in range(2)]
    run(f"""
        machines = {{"machines": "{','.join(f'127.0.0.1:{port}' for port in ports)}", "local_listen_port": {ports}[RANK],
                    "tree_learner": "data", "num_machines": 2, "time_out": 1}}
        with block() as given:
            ours = said(train(given, dataset(RANK)))
            fails("leave the block", lightgbm.Booster.free_network.__get__(lightgbm.Booster({{**PARAMS, **given}}, dataset(RANK))))
        model = lightgbm.Booster({{**PARAMS, **machines}}, dataset(RANK))
        fails("free_network", block().__enter__, RuntimeError)
        for _ in range(10):
            model.update()
        assert said(model) == ours
        model.free_network()
        with block() as given:
            assert said(train(given, dataset(RANK))) == ours
    """, 2, tmp_path)


def test_a_block_that_is_left_in_another_thread(tmp_path):
    run("""
        entered = block()
        given = entered.__enter__()
        data = dataset(RANK).construct()
        world.barrier()     # the other rank has constructed its own before this one leaves
        def leave():
            fails("left in another thread", lambda: entered.__exit__(None, None, None), RuntimeError)
        thread = threading.Thread(target=leave)
        thread.start()
        thread.join()
        fails("was closed", lambda: train(given, data))
    """, 2, tmp_path)


def test_other_versions_and_other_groups_are_refused(tmp_path):
    run("""
        fails("int is no group", tutti.lightgbm.network(7).__enter__, TypeError)
        fails("init_process_group", tutti.lightgbm.network().__enter__, ValueError)
        lightgbm.__version__ = "5.0.0"
        fails("4.6 and 4.7, and 5.0.0 is installed", block().__enter__, ImportError)
        sys.modules["lightgbm"] = None
        fails("needs LightGBM", block().__enter__, ImportError)
    """, 1, tmp_path)
