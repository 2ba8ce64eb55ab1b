"""A look at the calls of LightGBM's library, before they run.

LightGBM keeps its network by thread, and trains a model of this rank alone where it finds none: in another thread, behind
the block, or with parameters that ask for one machine. So the functions of its C API that begin a training are replaced by
ones that look at thread, parameters and Dataset first. All of LightGBM's Python goes through them, scikit-learn's classes
too.
"""

import ctypes
import functools
import hashlib
import threading
from typing import Any, Callable

TESTED = ("4.6", "4.7")  # all of their 4.6.x and 4.7.x
HOW = "pass the parameters that tutti.lightgbm.network gives"
SERIAL = ("serial",)
DISTRIBUTED = ("data", "data_parallel", "voting", "voting_parallel")

# The place of the parameters among the arguments, and of the Dataset from which the bins are taken.
DATASETS: dict[str, tuple[int | None, int | None]] = {
    "LGBM_DatasetCreateByReference": (None, 0),
    "LGBM_DatasetCreateFromArrow": (-3, -2),
    "LGBM_DatasetCreateFromArrowStream": (-3, -2),
    "LGBM_DatasetCreateFromCSC": (-3, -2),
    "LGBM_DatasetCreateFromCSR": (-3, -2),
    "LGBM_DatasetCreateFromFile": (-3, -2),
    "LGBM_DatasetCreateFromMat": (-3, -2),
    "LGBM_DatasetCreateFromMats": (-3, -2),
    "LGBM_DatasetCreateFromSampledColumn": (-2, None),
    "LGBM_DatasetGetSubset": (-2, 0),
}
# These have been checked when their Booster was made; they are wrapped for Ctrl-C.
OF_BOOSTERS = ("LGBM_BoosterUpdateOneIter", "LGBM_BoosterUpdateOneIterCustom")


class Open:
    """The network that a thread has open."""

    def __init__(self, callbacks: Any, group: Any) -> None:
        self.callbacks = callbacks
        self.group = group
        self.size = group.size


class Thread(threading.local):
    """The network that a thread has open, of ours or of LightGBM."""

    ours: Open | None = None
    sockets = False  # LightGBM's own network


class Calls:
    """The functions of LightGBM's library, replaced as long as the process lives."""

    def __init__(self, lightgbm: Any) -> None:
        self.here = Thread()
        # Handles of Datasets whose bins the ranks of a network have found together. Each creation, in any thread, writes
        # or deletes its entry, because LightGBM uses addresses again.
        self.owners: dict[int | None, Open] = {}
        self.lib = lightgbm.basic._LIB
        self.error = lightgbm.basic.LightGBMError
        self.safe_call = lightgbm.basic._safe_call
        self.names = {name: lightgbm.basic._ConfigAliases.get(name)
                      for name in ("linear_tree", "machine_list_filename", "machines", "num_machines", "tree_learner")}
        for name, (params, source) in DATASETS.items():
            self.replace(name, functools.partial(self.create_dataset, params=params, source=source))
        for name in OF_BOOSTERS:
            self.replace(name, self.call)
        self.replace("LGBM_BoosterCreate", self.create_booster)
        self.replace("LGBM_BoosterRefit", self.refit)
        self.replace("LGBM_BoosterResetTrainingData", self.reset_training_data)
        self.replace("LGBM_NetworkInit", self.init_sockets)
        self.replace("LGBM_NetworkFree", self.free)
        self.replace_fit(lightgbm.LGBMClassifier)

    def replace(self, name: str, by: Callable[..., int]) -> None:
        """`by` gets the function first."""
        if hasattr(self.lib, name):  # Arrow's has another name in each version
            setattr(self.lib, name, functools.partial(by, getattr(self.lib, name)))

    def replace_fit(self, classifier: Any) -> None:
        """The class numbers the labels that it finds on this rank, which the library does not see."""
        original = classifier.fit

        @functools.wraps(original)
        def fit(model: Any, X: Any, y: Any, *arguments: Any, **options: Any) -> Any:
            self.check_classes(y)
            return original(model, X, y, *arguments, **options)
        classifier.fit = fit

    def refuse_second(self) -> None:
        """RuntimeError where this thread has a network already."""
        if self.here.ours is not None:
            raise RuntimeError("tutti.lightgbm.network: this thread is in such a block already; LightGBM has one network in "
                               "a thread")
        if self.here.sockets:
            raise RuntimeError("tutti.lightgbm.network: LightGBM's own network (parameter machines) is open in this thread; "
                               "end it first by free_network() of its Booster")

    def open(self, group: Any) -> Open:
        """Gives LightGBM's calls in this thread the group."""
        from tutti import _lightgbm
        callbacks = _lightgbm.Network(group)
        callbacks.open()
        self.safe_call(self.lib.LGBM_NetworkInitWithFunctions(group.size, group.rank, ctypes.c_void_p(_lightgbm.reduce_scatter),
                                                              ctypes.c_void_p(_lightgbm.all_gather)))
        self.here.ours = Open(callbacks, group)
        return self.here.ours

    def close(self) -> None:
        """Ends what `open` began, in the same thread."""
        ours, self.here.ours = self.here.ours, None
        for handle in [handle for handle, owner in list(self.owners.items()) if owner is ours]:
            self.owners.pop(handle, None)
        self.safe_call(self.lib.LGBM_NetworkFree())

    # In place of LightGBM's functions

    def call(self, function: Any, *arguments: Any) -> int:
        """The function, after which Ctrl-C is KeyboardInterrupt again."""
        failed: int = function(*arguments)
        if failed and self.here.ours is not None:
            self.here.ours.callbacks.raise_interrupt()
        return failed

    def create_dataset(self, function: Any, *arguments: Any, params: int | None, source: int | None) -> int:
        """Notes the handle if all ranks have found the bins."""
        origin = None if source is None else handle_of(arguments[source])
        if params is not None and origin is None:
            self.check(arguments[params])
        failed = self.call(function, *arguments)
        if not failed:
            handle, ours = handle_of(arguments[-1]._obj), self.here.ours
            if ours is not None and (origin is None or self.owners.get(origin) is ours):
                self.owners[handle] = ours
            else:
                self.owners.pop(handle, None)
        return failed

    def create_booster(self, function: Any, dataset: Any, params: Any, *arguments: Any) -> int:
        """Refuses to train what would be a model of this rank alone."""
        self.check(params, to_train=True)
        self.check_dataset(dataset)
        return self.call(function, dataset, params, *arguments)

    def refit(self, function: Any, *arguments: Any) -> int:
        """LightGBM takes the new leaves from the rows of this rank alone, on sockets, too."""
        if self.here.ours is not None and self.here.ours.size > 1:
            raise self.error("tutti.lightgbm: refit makes a model of each rank alone, which LightGBM does not synchronise: call "
                             "it outside of the block of tutti.lightgbm.network")
        failed: int = function(*arguments)
        return failed

    def reset_training_data(self, function: Any, booster: Any, dataset: Any) -> int:
        """The same for other data."""
        self.check_dataset(dataset)
        return self.call(function, booster, dataset)

    def init_sockets(self, function: Any, *arguments: Any) -> int:
        """LightGBM's own network: parameter `machines`."""
        if self.here.ours is not None:
            raise self.error("tutti.lightgbm: the parameter machines asks for LightGBM's own sockets, but this thread is in a "
                             f"block of tutti.lightgbm.network: leave it out; {HOW}")
        failed: int = function(*arguments)
        self.here.sockets = not failed
        return failed

    def free(self, function: Any) -> int:
        """The end of LightGBM's own network."""
        if self.here.ours is not None:
            raise self.error("tutti.lightgbm: leave the block of tutti.lightgbm.network to end its network")
        self.here.sockets = False
        result: int = function()
        return result

    # Checks

    def check(self, params: Any, to_train: bool = False) -> None:
        """Raises LightGBMError where these parameters do not go with this thread's network. With `to_train` they are
        complete."""
        given = [item.partition("=")[::2] for item in params.value.decode().split()]
        values = {name: [value for key, value in given if key in self.names[name] and value] for name in self.names}
        ours = self.here.ours
        if ours is None:
            self.check_alone(values)
        elif values["machines"] or values["machine_list_filename"]:
            raise self.error("tutti.lightgbm: the parameter machines, or machine_list_filename, is for LightGBM's own sockets: "
                             f"leave it out in a block of tutti.lightgbm.network; {HOW}")
        else:
            self.check_in_network(values, ours.size, to_train)

    def check_alone(self, values: dict[str, list[str]]) -> None:
        """In a thread without a network of ours."""
        several = any(is_above_one(value) for value in values["num_machines"])
        if several and not self.here.sockets and not values["machines"] and set(values["tree_learner"]) - {*SERIAL}:
            raise self.error(f"tutti.lightgbm: num_machines={values['num_machines'][0]} in thread "
                             f"'{threading.current_thread().name}', which is in no block of tutti.lightgbm.network: LightGBM "
                             "would train a model of this rank alone. Call it in the block, and in the thread that has "
                             "entered it")

    def check_in_network(self, values: dict[str, list[str]], size: int, to_train: bool) -> None:
        """In a block."""
        for value in values["num_machines"] or (["1"] if to_train else []):
            if value != str(size):
                raise self.error(f"tutti.lightgbm: num_machines is {value}, but the network has {size} "
                                 f"{'rank' if size == 1 else 'ranks'}: {HOW}")
        if size == 1:
            return
        for value in values["tree_learner"] or (["serial"] if to_train else []):
            if value.lower() not in DISTRIBUTED:
                raise self.error(f"tutti.lightgbm: tree_learner is '{value}', but only 'data' and 'voting' train one model on "
                                 f"{size} ranks through LightGBM's Python: {HOW}")
        if any(value.lower() in ("true", "+") for value in values["linear_tree"]):
            raise self.error("tutti.lightgbm: linear_tree=True makes a model of each rank alone, which LightGBM does not "
                             "synchronise: leave it out in a block of tutti.lightgbm.network")

    def check_classes(self, labels: Any) -> None:
        """Raises LightGBMError on every rank where two ranks would give one number to different classes. Collective."""
        ours = self.here.ours
        if ours is None or ours.size == 1:
            return
        import numpy as np
        classes = np.unique(labels)
        text = classes.astype(float).tobytes() if classes.dtype.kind in "biuf" else repr(classes.tolist()).encode()
        mine = np.frombuffer(hashlib.sha256(text).digest(), np.uint8)
        everybodys = np.zeros((ours.size, mine.size), np.uint8)
        try:
            ours.group.all_gather(everybodys, mine)
        except RuntimeError as problem:
            raise self.error(str(problem)) from problem
        others = [str(rank) for rank in range(ours.size) if (everybodys[rank] != mine).any()]
        if others:
            raise self.error(f"tutti.lightgbm: this rank has rows of {len(classes)} classes, and rank {', '.join(others)} has rows "
                             "of other classes. LGBMClassifier numbers them by the rank's own rows: give every rank rows of all "
                             "classes")

    def check_dataset(self, dataset: Any) -> None:
        """Raises LightGBMError for data to train on whose bins this rank has found alone."""
        ours = self.here.ours
        if ours is not None and ours.size > 1 and self.owners.get(handle_of(dataset)) is not ours:
            raise self.error("tutti.lightgbm: the Dataset was constructed outside of this block of tutti.lightgbm.network, so "
                             "that its bins differ from the other ranks': make it in the block, and in its thread")


def handle_of(pointer: Any) -> int | None:
    """The address, of a c_void_p or None."""
    return None if pointer is None else pointer.value


def is_above_one(text: str) -> bool:
    """True for a number above 1. Other text is left to LightGBM."""
    try:
        return int(text) > 1
    except ValueError:
        return False


_making = threading.Lock()
_calls: Calls | None = None


def prepared() -> Calls:
    """LightGBM with its functions replaced. ImportError where it is absent, or where its version has not been tried."""
    global _calls
    with _making:
        if _calls is None:
            try:
                import lightgbm
            except ImportError as problem:
                raise ImportError("tutti.lightgbm needs LightGBM: pip install 'lightgbm>=4.6,<4.8'") from problem
            if ".".join(lightgbm.__version__.split(".")[:2]) not in TESTED:
                raise ImportError(f"tutti.lightgbm has run with LightGBM {' and '.join(TESTED)}, and {lightgbm.__version__} is "
                                  "installed: pip install 'lightgbm>=4.6,<4.8'")
            _calls = Calls(lightgbm)
    return _calls
