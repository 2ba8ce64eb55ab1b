"""Where tutti.distributed differs from torch.distributed with gloo on purpose.

Each entry stands under the same name in docs/semantics.md, "Differences from torch.distributed". A cell
whose outcomes differ must fit an entry, and each entry must be seen in some cell.
"""

import re

# What gloo or the C++ below torch's Python says, or what Python itself says there: no text to rely on.
ENGINE_TEXT = re.compile(
    r"ProcessGroupGloo|gloo/|Check failed|incompatible (function|constructor) arguments|Invalid scalar type"
    r"|Cannot use ReduceOp|invalid input tensor list|does not support.on complex|result type \w+ can't be cast"
    r"|is not iterable|has no len|list index out of range|device type at start of device string|Duplicate device type"
    r"|ProcessGrouppNCCL|Backend gloo does not|setBoundDeviceId|This Backend doesn't support|no larger than the world_size"
    r"|Could not resolve the process group")


class Difference:
    """`fits(theirs, ours)` for cells whose name matches; an outcome is ("value", v, warnings) or
    ("error", names of its classes, text, warnings)."""

    def __init__(self, name, cells, theirs, ours, text=""):
        self.name = name
        self.cells = re.compile(cells)
        self.theirs, self.ours, self.text = theirs, ours, re.compile(text)

    def fits(self, cell, theirs, ours):
        if not self.cells.search(cell) or theirs[0] != self.theirs or ours[0] != self.ours:
            return False
        return theirs[0] != "error" or self.text.search(theirs[2]) is not None


DIFFERENCES = [
    Difference("Texts of the engine", "", "error", "error", ENGINE_TEXT.pattern),
    Difference("More element types", "", "error", "value", "Invalid scalar type"),
    Difference("Averages of integers", "/AVG$", "error", "value", "can't be cast"),
    Difference("Sums of bool", "/bool/SUM$", "value", "value"),
    Difference("Averages of complex numbers", "/complex(64|128)/AVG$", "value", "value"),
    Difference("Products of complex numbers", "/PRODUCT$", "error", "value", "does not support.*complex"),
    Difference("Stacked outputs", "^all_gather_single_stack/", "error", "value", "invalid tensor size"),
    Difference("Uneven sizes", "^(all_to_all/|call/all_gather/uneven)", "error", "value", "invalid tensor size"),
    Difference("Strided tensors", "^form/strided_", "value", "value"),
    Difference("Conjugate and negative views", "^form/conjugate$", "error", "value", "conjugate"),
    Difference("Conjugate and negative views", "^form/negative$", "value", "value"),
    Difference("split_group on CPUs", "^call/split_group/works$", "error", "value", "No device associated"),
    Difference("Ranks are checked", "^call/rank/", "value", "error"),
    Difference("device_ids is checked", "^call/barrier/device_ids$", "value", "error"),
    Difference("Empty lists", "^call/(batch|new_group)/empty$", "error", "error"),
    Difference("tcp:// and the environment", "^end/init/no_WORLD_SIZE/tcp$", "error", "error", "rank parameter"),
    Difference("send outside of a group", "^stranger/(send|broadcast|reduce)$", "error", "value",
               "Invalid process group"),
    Difference("Numbers of operations", "^attribute/number$", "value", "error"),
]
