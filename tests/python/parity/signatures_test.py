"""Names and parameters of torch.distributed: what a new torch has that the stored ones lack, and that ours are the same."""

import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import signatures  # noqa: E402
import stored  # noqa: E402

# Functions whose parameters are others on purpose; docs/reference/torch-names.md and docs/reference/semantics.md say why.
OTHERS = set()


def differences(before, now):
    """Lines that say what is new, gone or changed."""
    lines = []
    for place in before.keys() | now.keys():
        old, new = before.get(place, {}), now.get(place, {})
        where = place or "torch.distributed"
        lines += [f"{where}: {name} is new: {new[name]}" for name in new.keys() - old.keys()]
        lines += [f"{where}: {name} is gone" for name in old.keys() - new.keys()]
        lines += [f"{where}: {name} was {old[name]}, is {new[name]}" for name in old.keys() & new.keys() if old[name] != new[name]]
    return sorted(lines)


@pytest.mark.torch
def test_torch_has_the_stored_names():
    """A new torch shows here what is new in it; TUTTI_PARITY_RECORD=1 then stores its names."""
    now = signatures.names_of("torch.distributed")
    if stored.recording():
        signatures.write(now, lacking(now))
    before = signatures.read(stored.newest())
    before.pop("lacking")
    found = differences(before, now)
    assert not found, f"torch {stored.version()} beside {stored.newest()}:\n" + "\n".join(found)


def lacking(theirs):
    """By place: names that ours do not have."""
    ours = signatures.names_of("tutti.distributed")
    found = {place: [name for name in names if name not in ours.get(place, {}) and not hasattr(owner(place), name)]
             for place, names in theirs.items() if place != "lacking"}
    return {place: names for place, names in found.items() if names}


def owner(place):
    if place in signatures.CLASSES:
        return getattr(signatures.module_of("tutti.distributed", ""), place)
    return signatures.module_of("tutti.distributed", place)


def test_what_is_lacking_is_known():
    """Of private names; docs/reference/torch-names.md has each public one."""
    theirs = signatures.read(stored.newest())
    assert lacking(theirs) == theirs["lacking"]


def name_of(parameter):
    return parameter.removeprefix("key ").partition("=")[0]


def comparable(form, known):
    """Without what is nobody's to give: private parameters, and what ours take beyond by name."""
    kept = [each for each in form if not name_of(each).startswith(("_", "**"))]
    return [each.removeprefix("key ") if name_of(each) in known else each for each in kept
            if not each.startswith("key ") or name_of(each) in known]


def test_parameters_are_theirs():
    """Same names, order and defaults; what we have beyond is keyword-only."""
    theirs, ours = signatures.read(stored.newest()), signatures.names_of("tutti.distributed")
    count, wrong = 0, []
    for place, names in theirs.items():
        for name, their in names.items() if place != "lacking" else ():
            our = ours.get(place, {}).get(name)
            if not isinstance(their, list) or not isinstance(our, list):
                continue
            count += 1
            known = {name_of(each) for each in their}
            if comparable(their, known) != comparable(our, known) and f"{place}.{name}" not in OTHERS:
                wrong.append(f"{place}.{name}:\n  {comparable(their, known)} there\n  {comparable(our, known)} here")
    assert count > 120, f"only {count} functions were found"
    assert not wrong, "\n".join(wrong)


def test_a_new_name_shows():
    """A name, a parameter and a default that the stored ones lack."""
    before = {"": {"send": ["tensor"], "recv": "value"}}
    now = {"": {"send": ["tensor=None"], "newer": "class"}}
    assert differences(before, now) == ["torch.distributed: newer is new: class", "torch.distributed: recv is gone",
                                        "torch.distributed: send was ['tensor'], is ['tensor=None']"]
