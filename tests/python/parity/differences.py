"""Where tutti.distributed differs from torch.distributed with gloo on purpose.

Each entry stands under the same name in docs/semantics.md, "Differences from torch.distributed". A cell
whose outcomes differ must fit an entry, and each entry must be seen in some cell. An entry also says what
ours must be: a value that expected.py computes (`VALUE`), an error of a class with a text (`Raises`), or the
error that engine_texts.jsonl lists for the cell (`LISTED`).
"""

import re

# What gloo or the C++ below torch's Python says, or what Python itself says there: no text to rely on.
ENGINE_TEXT = re.compile(
    r"ProcessGroupGloo|gloo/|Check failed|incompatible (function|constructor) arguments|Invalid scalar type"
    r"|Cannot use ReduceOp|invalid input tensor list|does not support.on complex|result type \w+ can't be cast"
    r"|is not iterable|has no len|list index out of range|device type at start of device string|Duplicate device type"
    r"|ProcessGrouppNCCL|Backend gloo does not|setBoundDeviceId|This Backend doesn't support|no larger than the world_size"
    r"|Could not resolve the process group")


VALUE, LISTED = "value", "listed"


class Raises:
    """The class of an error of ours, and its whole text as a pattern."""

    def __init__(self, kind, text):
        self.kind, self.text = kind, re.compile(text)

    def is_met_by(self, ours):
        return self.kind in ours[1] and self.text.fullmatch(ours[2]) is not None


class Difference:
    """`fits(theirs, ours)` for cells whose name matches; an outcome is ("value", v, warnings) or
    ("error", names of its classes, text, warnings)."""

    def __init__(self, name, cells, theirs, ours, text=""):
        self.name = name
        self.cells = re.compile(cells)
        self.theirs, self.ours, self.text = theirs, ours, re.compile(text)

    def fits(self, cell, theirs, ours):
        kind = "value" if self.ours == VALUE else "error"
        if not self.cells.search(cell) or theirs[0] != self.theirs or ours[0] != kind:
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
    Difference("Uneven sizes", "^(all_to_all/|call/all_gather/uneven)", "error", VALUE, "invalid tensor size"),
    Difference("Strided tensors", "^form/strided_", "value", VALUE),
    Difference("Conjugate and negative views", "^form/conjugate$", "error", VALUE, "conjugate"),
    Difference("Conjugate and negative views", "^form/negative$", "value", VALUE),
    Difference("split_group on CPUs", "^call/split_group/works$", "error", VALUE, "No device associated"),
    Difference("Ranks are checked", "^call/rank/", "value",
               Raises("ValueError", r"(Global|Group) rank 99 is not part of group <tutti\.distributed\.ProcessGroup "
                                    r"'0' \(gloo\) rank \d of \d>")),
    Difference("device_ids is checked", "^call/barrier/device_ids$", "value",
               Raises("TypeError", r"Invalid function argument: device_ids type should be List\[int\]")),
    Difference("Empty lists", "^call/batch/empty$", "error", Raises("ValueError", "batch_isend_irecv: the list is empty")),
    Difference("Empty lists", "^call/new_group/empty$", "error",
               Raises("ValueError", "new_group: the list of ranks is empty; a group needs at least one")),
    Difference("tcp:// and the environment", "^end/init/no_WORLD_SIZE/tcp$", "error",
               Raises("ValueError", "Error initializing tutti.distributed using tcp:// rendezvous: world size parameter "
                                    "missing"), "rank parameter"),
    Difference("send outside of a group", "^stranger/(send|broadcast|reduce)$", "error", VALUE,
               "Invalid process group"),
    Difference("Numbers of operations", "^attribute/number$", "value",
               Raises("RuntimeError", "ProcessGroup._get_sequence_number_for_group: numbers of operations are not told; "
                                      "errors name them, and all ranks' calls are compared")),
]
