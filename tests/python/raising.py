"""For functions and texts that run on ranks, where pytest is not imported."""

import os
import traceback

import tutti


def raises(kind, part, call):
    """The error of this kind, or of one of these, that the call must raise, with `part` in its text."""
    try:
        call()
    except kind as problem:
        assert part in str(problem), problem
        return problem
    raise AssertionError(f"no {kind} was raised")


def in_fork(body, *arguments, fork=os.fork):
    """The exit code of a child that runs this."""
    child = fork()
    if child == 0:
        try:
            body(*arguments)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class StoreOfPython(tutti.Store):
    """A store of one's own, over another one: only what must be defined. It notes the types that it is called with."""

    def __init__(self, under):
        super().__init__()
        self.under, self.calls = under, set()


for _verb in ("set", "get", "add", "check", "wait", "compare_set", "delete_key", "list_keys"):
    def _method(self, *arguments, verb=_verb):
        self.calls.add((verb, *map(type, arguments)))
        return getattr(self.under, verb)(*arguments)
    setattr(StoreOfPython, _verb, _method)
