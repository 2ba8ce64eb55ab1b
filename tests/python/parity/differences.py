"""Where tutti.distributed differs from torch.distributed with gloo on purpose.

Each entry stands under the same name in docs/reference/semantics.md, "Differences from torch.distributed". A cell
whose outcomes differ must fit an entry, and each entry must be seen in some cell. An entry also says what
ours must be: a value that expected.py computes (`VALUE`), an error of a class with a text (`Raises`), or the
error that engine_texts.jsonl lists for the cell (`LISTED`).
"""

import re

from arrays import HAS_TORCH

# What gloo or the C++ below torch's Python says, or what Python itself says there: no text to rely on.
ENGINE_TEXT = re.compile(
    r"ProcessGroupGloo|gloo/|Check failed|incompatible (function|constructor) arguments|Invalid scalar type"
    r"|Cannot use ReduceOp|invalid input tensor list|does not support.on complex|result type \w+ can't be cast"
    r"|is not iterable|has no len|list index out of range|device type at start of device string|Duplicate device type"
    r"|no larger than the world_size|Could not resolve the process group|Could not run 'c10d::|no implementation found for 'torch\.distributed"
    r"|[Ww]ait timeout|Timeout waiting for key|queue is empty|(client|server) socket has|INTERNAL ASSERT"
    r"|rank_coords\.size|expected sequence of length|new\(\): invalid data type|'<' not supported between instances"
    r"|invalid literal for int\(\)|P2POp\.__new__|init_process_group\(\) takes from")


# Steps that only torch can run: what they need that NumPy lacks, and how many they are. Without torch they are left out.
NEEDS_TORCH = [
    (r"^form/requires_grad$|^things/.*/(parameter|requires_grad)$|^(layouts/graphs|models/contrastive_loss"
     r"|algorithms/data_parallel_step)/", "gradients and layers", 35),
    (r"^form/shared_memory$", "memory that is shared with other processes", 1),
    (r"^form/sparse$|^wrong_calls/element_types/(sparse|csr)$|^things/.*/sparse$", "sparse tensors", 5),
    (r"^wrong_calls/element_types/(quantized|bits)$|^things/.*/of_complex32$", "element types that NumPy lacks", 4),
    (r"^messages/element_types/\w+/(complex32|float4_e2m1fn_x2|bits\w+|float8_e\w+(fnuz|fnu))$",
     "element types that tutti moves for torch only", 20),
    (r"^things/.*/(conjugate|imaginary_part)$", "views that conjugate or negate", 4),
    (r"^works/futures/(wait_all|collect_all|raises|raises_value_error)$", "futures of torch's", 4),
    (r"^things/.*/(tensor_channels_last|tensor_one_of_many|expanded.*|empty_(transposed|permuted|strided)|one_strided)$",
     "strides that NumPy's pickles do not keep", 23),
    (r"^mesh/lines$|^meshes/made/(square/dp|flat_cube/pp)/about$|^meshes/parts/slice/pp_tp$",
     "strides of the ranks in a part of a mesh", 4),
]


def needs_torch(cell):
    """True if torch is not there and the step, or all of a program, needs it."""
    return not HAS_TORCH and any(re.search(pattern, cell) for pattern, *_ in NEEDS_TORCH)


# Words of stored texts that are others where there is no torch; tests/python/core/error_words_test.py has the rules.
WORDS = {
    r"List\[torch\.Tensor\]": "list of arrays", r"torch\._C\._TensorMeta": "type", r"\btorch\.(?=u?int|b?float|complex)": "",
    r"torch\.Tensor": "array (NumPy, DLPack or a buffer)", r"\b([Aa]) tensor": r"\1n array", r"\btensor": "array",
    r"\bTensor": "Array",
    r"only integer .* to an index": "only integer scalar arrays can be converted to a scalar index",
}


def words(text):
    """A text of an error in the words that it has here."""
    for pattern, word in WORDS.items() if not HAS_TORCH else ():
        text = re.sub(pattern, word, text)
    return text


VALUE, LISTED = "value", "listed"


# Warnings of torch's that ours do not give, by the name of their entry.
WARNINGS = {
    "Older names": re.compile(r"FutureWarning: `?torch\.distributed\.(?!reduce_op)\w+`? .*deprecated", re.DOTALL),
    "Unknown backends": re.compile(r"UserWarning: Device capability of unknown unknown"),
}


def without_warnings(theirs):
    """An outcome without those warnings, and the names of their entries."""
    if theirs[0] == "nothing":
        return theirs, set()
    named = {text: name for text in theirs[-1] for name, pattern in WARNINGS.items() if pattern.match(text)}
    return (*theirs[:-1], [text for text in theirs[-1] if text not in named]), set(named.values())


class Raises:
    """The class of an error of ours, and its whole text as a pattern."""

    outcome = "error"

    def __init__(self, kind, text):
        self.kind, self.text = kind, re.compile(words(text))

    def is_met_by(self, ours, theirs):
        return self.kind in ours[1] and self.text.fullmatch(words(ours[2])) is not None


class Gives:
    """A value of ours, of which a condition is true."""

    outcome = "value"

    def __init__(self, condition):
        self.condition = condition

    def is_met_by(self, ours, theirs):
        return ours[2] == theirs[-1] and self.condition(ours[1])


class Difference:
    """`fits(theirs, ours)` for cells whose name matches; an outcome is ("value", v, warnings) or
    ("error", names of its classes, text, warnings)."""

    def __init__(self, name, cells, theirs, ours, text=""):
        self.name = name
        self.cells = re.compile(cells)
        self.theirs, self.ours, self.text = theirs, ours, re.compile(text)

    def fits(self, cell, theirs, ours):
        kind = {VALUE: "value", LISTED: "error"}.get(self.ours) or self.ours.outcome
        if not self.cells.search(cell) or self.theirs not in (theirs[0], "any") or ours[0] != kind:
            return False
        return theirs[0] != "error" or self.text.search(theirs[2]) is not None


DIFFERENCES = [
    Difference("Texts of the engine", "", "error", LISTED, ENGINE_TEXT.pattern),
    Difference("More element types", "", "error", VALUE, "Invalid scalar type"),
    Difference("Averages of integers", "/AVG$", "error", VALUE, "can't be cast"),
    Difference("Sums of bool", "/bool/SUM$", "value", VALUE),
    Difference("Averages of complex numbers", "/complex(64|128)/AVG$", "value", VALUE),
    Difference("Products of complex numbers", "/PRODUCT$", "error", VALUE, "does not support.*complex"),
    Difference("Stacked outputs", "^all_gather_single_stack/", "error", VALUE, "invalid tensor size"),
    Difference("Uneven sizes", "^(all_to_all/|call/all_gather/uneven|models/mixture_of_experts/lists)", "error", VALUE, "invalid tensor size"),
    Difference("Strided tensors", "^(form/strided_|layouts/(outputs|inputs)/)", "value", VALUE),
    Difference("Strided tensors", "^(layouts/(outputs|inputs)|messages/layouts)/", "error", VALUE, "contiguous"),
    Difference("Views in objects", "^things/", "value", VALUE),
    Difference("More element types", "^things/moved/.*/of_", "error", VALUE, "has no attribute 'dtype'"),
    Difference("Results of Works", "^works/answers/(reduce_scatter|all_gather_into)", "value", VALUE),
    Difference("Results of Works", "^works/answers/reduce_scatter", "error", VALUE, "not implemented"),
    Difference("Split sizes of any kind", "^wrong_calls/splits/(taken|method)/tensors$", "error", VALUE, "incompatible function"),
    Difference("Equal parts", "^wrong_calls/splits/(scalar|uneven_rows)$", "value",
               Raises("InvalidArgument", r"all_to_all_single: the output has \d+ elements, which do not divide equally across "
                                         r"\d ranks; give split sizes")),
    Difference("Lists of one tensor", "^wrong_calls/shapes/method/allreduce_two$", "value",
               Raises("InvalidArgument", "allreduce takes a list of one tensor, not of 2")),
    Difference("Groups are checked", "^wrong_calls/groups/(size|barrier|rank|backend|destroy|all_reduce)/", "error",
               Raises("ValueError", r"(?s)Process group .* is not initialized in the world group map\. Please initialize the "
                                    r"group first\.( \(`group` got this \w+: give what comes after it by name, as in tag=7\))?|"
                                    r"Group .* is not registered, please create group with .*\.new_group API|"
                                    r"Invalid process group specified or has been destroyed\.")),
    Difference("Meshes are checked", "^meshes/wrong/(duplicate|out_of_range|negative)$", "any",
               Raises("ValueError", r"ranks list must not contain duplicate entries, got \[0, 0\]|Rank -?\d is out of range\. "
                                    r"Valid ranks are 0 to \d \(world_size=\d\)")),
    Difference("Meshes are checked", "^meshes/wrong/number$", "error",
               Raises("AttributeError", 'DeviceMesh: the device type is text, such as "cpu" or "cuda", not 3')),
    Difference("Ranks are whole numbers", "^wrong_calls/(roots/|groups/(ranks_float|new_group/text))", "any",
               Raises("TypeError", r"a rank is a whole number, not .*|only integer tensors of a single element can be converted "
                                   r"to an index|new_group: (0\.5 is no rank; ranks are whole numbers|ranks are given as a list, "
                                   r"not as 'world')")),
    Difference("FileStore", "^stores/methods/file/append", "value", Gives(lambda value: value == b"wmore")),
    Difference("FileStore", "^stores/methods/file/extended", "value", Gives(lambda value: value is True)),
    Difference("As many values as keys", "^stores/wrong/multi_set$", "value",
               Raises("InvalidStoreArgument", "multi_set: 1 keys, but 2 values")),
    Difference("Seconds", "^(stores/wrong/tcp_timeout|wrong_calls/groups/(timeout|monitored)_number)$", "error",
               Gives(lambda value: value in ("<TCPStore>", "<ProcessGroup>", None)), "incompatible|Expected timeout argument"),
    Difference("Empty variables", "^lives/debug_levels/set/$", "error", Gives(lambda value: value == "OFF"),
               "The value of TORCH_DISTRIBUTED_DEBUG"),
    Difference("Stores of one's own", "^stores/own_store/prefix_get$", "value",
               Raises("BackendError", "the Table does not define wait, which a store of one's own must")),
    Difference("NaN and zeros in MIN and MAX", "^values/least_and_most/M.*/mixed/", "value", VALUE),
    Difference("Conjugate and negative views", "^form/conjugate$", "error", VALUE, "conjugate"),
    Difference("Conjugate and negative views", "^form/negative$", "value", VALUE),
    Difference("split_group on CPUs", "^call/split_group/works$", "error", VALUE, "No device associated"),
    Difference("Ranks are checked", "^call/rank/", "value",
               Raises("ValueError", r"(Global|Group) rank 99 is not part of group <tutti\.distributed\.ProcessGroup "
                                    r"'0' \(gloo\) rank \d of \d>")),
    Difference("device_ids is checked", "^(call/barrier|wrong_calls/groups)/device_ids$", "value",
               Raises("TypeError", r"Invalid function argument: device_ids type should be List\[int\]")),
    Difference("Empty lists", "^call/batch/empty$", "error", VALUE, "list index out of range"),
    Difference("Empty lists", "^call/new_group/empty$", "error",
               Raises("ValueError", "new_group: the list of ranks is empty; a group needs at least one")),
    Difference("Empty lists", "^wrong_calls/shapes/(coalesced/reduce_nothing|method/\\w+_none|all_to_all/short_list)$", "error",
               Raises("InvalidArgument", r"all_reduce_coalesced in group '.*': the list of tensors is empty|(allreduce|broadcast) "
                                         r"takes a list of one tensor, not of 0|all_to_all: the lists are empty; each has a "
                                         r"tensor for each of 1 ranks"), "There were no tensor arguments"),
    Difference("A world of one", "^end/init/alone$", "error", Gives(lambda value: value is None), "MASTER_ADDR"),
    Difference("tcp:// and the environment", "^end/init/no_WORLD_SIZE/tcp$", "error",
               Raises("ValueError", "Error initializing tutti.distributed using tcp:// rendezvous: world size parameter "
                                    "missing"), "rank parameter"),
    Difference("send outside of a group", "^stranger/(send|broadcast|reduce)$", "error", VALUE,
               "Invalid process group"),
]
