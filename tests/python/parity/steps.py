"""The steps of a program: functions that are called one after the other, and what came of each."""

import inspect

from differences import needs_torch
from frozen import frozen, outcome


class Steps:
    """`step(name, call, *tensors)` calls, keeps what comes back and what is in these tensors then, and gives what came
    back; None where it raised. `known` is what must come where torch cannot do it, or does it wrongly; `exactly` is the
    same with strides and flags."""

    def __init__(self, place):
        self.place = place
        self.results = {}
        self.known, self.exactly = {}, {}
        self.program = None

    def run(self, program):
        """Calls it with what its parameters name: the place, these steps, the package and the number of ranks."""
        self.program = f"{program.__module__.removeprefix('programs.')}/{program.__name__}"
        if not needs_torch(f"{self.program}/"):
            given = {"at": self.place, "step": self, "d": self.place.dist, "n": self.place.size}
            program(*map(given.get, inspect.signature(program).parameters))

    def cell(self, name, call):
        assert name not in self.results, f"two cells are called {name}"
        if needs_torch(name):
            return
        self.results[name] = outcome(call, self.place.dist)

    def __call__(self, name, call, *tensors, **known):
        back = None

        def whole():
            nonlocal back
            back = call()
            return (back, *tensors) if tensors else back

        cell = f"{self.program}/{name}"
        self.cell(cell, whole)
        if "known" in known:
            self.known[cell] = frozen(known["known"])
        if "exactly" in known:
            self.exactly[cell] = frozen(known["exactly"])
        return back
