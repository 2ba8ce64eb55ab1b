"""An argument of a wrong type: the error names the call, the argument and what is allowed."""

import ast
import re

import numpy as np
import pytest
import tutti
from tutti import _tutti

RAW = "incompatible function arguments"  # how the binding tells it, with all signatures
# By the types that the documentation of a function names: a value that is right.
RIGHT = {"int": 0, "str": "a", "bool": False, "bytes": b"", "collections.abc.Sequence[int]": [0], "list": [],
         "collections.abc.Sequence[bool]": [False],
         "collections.abc.Sequence": [], "object": None, "tutti._tutti.ReduceOp": tutti.ReduceOp.SUM,
         "tutti._tutti.LogLevel": tutti.LogLevel.INFO, "tutti._tutti.Config": None}
FUNCTIONS = [(_tutti, name) for name in dir(_tutti) if type(getattr(_tutti, name)).__name__ == "nb_func"]
METHODS = [(kind, name) for kind in (tutti.ProcessGroup, _tutti.TCPStore, _tutti.FileStore, _tutti.PrefixStore, _tutti.Store)
           for name in dir(kind) if type(getattr(kind, name)).__name__ == "nb_method"]


def typed_parameters(function):
    """{name: type} of all parameters but self, of what the documentation begins with."""
    line = function.__doc__.splitlines()[0]
    line = re.sub(r"= [\w.]*?(ReduceOp|LogLevel)\.\w+", "= 0", line)
    arguments = ast.parse(f"def {line}: 0").body[0].args
    return {one.arg: ast.unparse(one.annotation).replace(" | None", "")
            for one in arguments.args + arguments.kwonlyargs if one.annotation is not None}


@pytest.mark.parametrize("kind, name", FUNCTIONS + METHODS, ids=lambda each: getattr(each, "__name__", each))
def test_every_argument_is_told_by_its_name(kind, name, world):
    function = getattr(kind, name)
    first = [] if kind is _tutti else [world] if kind is tutti.ProcessGroup else [kind.__new__(kind)]
    types = typed_parameters(function)
    unknown = set(types.values()) - set(RIGHT)
    assert not unknown, f"write how these are checked: {unknown}"
    for wrong, type_of_it in types.items():
        if type_of_it == "object":  # an array, a timeout or a function: looked at by what uses it
            continue
        with pytest.raises(TypeError) as caught:
            function(*first, **{each: object() if each == wrong else RIGHT[its] for each, its in types.items()})
        called = kind.__name__ if name == "__init__" else name
        assert str(caught.value).startswith(f"{called}: {wrong} must be "), caught.value
        assert str(caught.value).endswith(", not a value of type object") and RAW not in str(caught.value)


def test_there_are_such_functions():
    assert len(METHODS) > 60 and len(FUNCTIONS) > 10


RANK = "must be a whole number (a rank of the group, 0 to 0), not "


@pytest.mark.parametrize("call, text", [
    (lambda w, x: w.send(x, 1.5), f"send: dst {RANK}1.5 (float)"),
    (lambda w, x: w.send(x, None), f"send: dst {RANK}None"),
    (lambda w, x: w.broadcast(x, True), f"broadcast: root {RANK}True (bool)"),
    (lambda w, x: w.broadcast(x, "0"), f"broadcast: root {RANK}'0' (str)"),
    (lambda w, x: w.reduce(x, np.zeros(2)), f"reduce: root {RANK}a value of type ndarray"),
    (lambda w, x: w.new_group(0), "new_group: ranks must be a list of whole numbers, not 0 (int)"),
    (lambda w, x: w.new_group("0"), "new_group: ranks must be a list of whole numbers, not '0' (str)"),
    (lambda w, x: w.new_group([0, 0.5]), f"new_group: ranks[1] {RANK}0.5 (float)"),
    (lambda w, x: w.all_reduce(x, "sum"), "all_reduce: op must be one of tutti.ReduceOp.SUM, ReduceOp.AVG"),
    (lambda w, x: w.all_reduce(x, async_op=1), "all_reduce: async_op must be True or False, not 1 (int)"),
    (lambda w, x: w.send(x, 0, tag="a" * 99), f"send: tag must be a whole number, not '{'a' * 59}... (str)"),
    (lambda w, x: w.new_group([0], name=3), "new_group: name must be text (str), not 3 (int)"),
    (lambda w, x: w.new_group([0], name="\ud800"), r"new_group: name must be text (str), not '\ud800' (str)"),
    (lambda w, x: w.barrier(timeout="soon"), "a timeout is None, a number of seconds or a timedelta, not 'soon'"),
    (lambda w, x: w.batch_isend_irecv([("send", x, 0.5, 0)]), f"batch_isend_irecv: peer {RANK}0.5 (float)"),
    (lambda w, x: w.batch_isend_irecv([("send", x, 0, "a")]), "batch_isend_irecv: tag must be a whole number, not 'a' (str)"),
    (lambda w, x: setattr(tutti.Config(), "cpus", "all"), "Config: cpus must be a whole number, not 'all' (str)"),
    (lambda w, x: setattr(tutti.Config(), "agree", None), "Config: agree must be text (str), not None"),
    (lambda w, x: setattr(tutti.Config(), "log_level", "loud"), "Config: log_level must be one of tutti.LogLevel.DEBUG"),
    (lambda w, x: tutti.PrefixStore("a", 3), "a store must be a tutti.Store, not a value of type int"),
])
def test_wrong_types(call, text, world):
    with pytest.raises(TypeError) as caught:
        call(world, np.ones(1))
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize("call, text", [
    (lambda w, x: w.send(x, 2**40), f"send: dst {RANK}1099511627776 (int)"),
    (lambda w, x: w.recv(x, -2**80), f"recv: src {RANK}-1208925819614629174706176 (int)"),
    (lambda w, x: w.send(x, 0, tag=2**31), "send: tag must be a whole number from 0 to 2147483647, not 2147483648 (int)"),
    (lambda w, x: w.all_gather(x, x, counts=[-1]), "all_gather: counts[0] must be a whole number of at least 0, not -1 (int)"),
    (lambda w, x: w.split(10**5000), "split: color must be a whole number from -2147483648 to 2147483647, not a value of type int"),
])
def test_numbers_beyond_what_there_is(call, text, world):
    with pytest.raises(tutti.InvalidArgument) as caught:
        call(world, np.ones(1))
    assert str(caught.value) == text


def test_what_is_like_a_number_or_a_list_is_taken(world):
    x = np.ones(1)
    world.broadcast(x, np.int64(0))
    for ranks in ((0,), range(1), np.zeros(1, np.int32)):
        assert world.new_group(ranks).ranks == [0]
    assert world.split(None) is None and world.health() is None
    config = tutti.Config()
    config.cpus, config.log_level, config.tls = np.int8(2), tutti.LogLevel.ERROR, True
    assert (config.cpus, config.log_level, config.tls) == (2, tutti.LogLevel.ERROR, True)
    config.cpus = None
    assert config.cpus is None
