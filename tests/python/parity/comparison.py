"""Compares what came out under torch.distributed with what came out here."""

import re

import stored
from differences import DIFFERENCES, LISTED, VALUE, WARNINGS, needs_torch, without_warnings, words


def plain(text):
    text = re.sub(r"distributed\.(distributed_c10d|process_group)\.", "distributed.", re.sub(r"0x[0-9a-f]+", "0x..", text))
    return words(" ".join(text.replace("torch.distributed", "tutti.distributed").split()))


def same(theirs, ours):
    """An error of ours is-a the error of theirs, and its text begins with theirs."""
    if theirs[0] == ours[0] == "value":
        return theirs[1] == ours[1] and list(map(plain, theirs[2])) == list(map(plain, ours[2]))
    if theirs[0] != ours[0] or theirs == stored.NOT_RUN:
        return theirs == ours
    return (is_a(theirs, ours) and plain(ours[2]).startswith(plain(theirs[2]))
            and list(map(plain, theirs[3])) == list(map(plain, ours[3])))


def is_a(theirs, ours):
    return theirs[1][0] in ours[1]


def explained(cell, theirs, ours):
    """The entry of the table that fits."""
    for entry in DIFFERENCES:
        if entry.fits(cell, theirs, ours):
            if entry.ours == LISTED and not is_a(theirs, ours):
                continue  # the text is another one, the class is not
            return entry
    return None


def is_expected(entry, cell, theirs, ours, known, texts, found):
    """True if ours is as the entry says. Values that are known have been compared already."""
    if entry.ours == VALUE:
        return cell in known
    if entry.ours != LISTED:
        return entry.ours.is_met_by(ours, theirs)
    form = stored.engine_form(ours)
    found.setdefault(cell, set()).add(form)
    return stored.recording() or form in texts.get(cell, ())


def compared(size, results, every_theirs, found):
    """How many cells were compared, how often each entry of the table was needed, and a text for each wrong outcome.

    `results`: what each rank wrote; `every_theirs`: by rank, by cell, torch's outcomes as they are kept. Puts our texts of
    errors into `found`, where the text is the engine's.
    """
    texts = stored.read_engine_texts()
    wrong, listed, count = [], {}, 0
    for rank, (*_, differing) in enumerate(results):
        wrong += [f"{cell} on rank {rank} of {size}:\n  expected: {str(value)[:300]}\n  tutti: {str(ours)[:300]}"
                  for cell, value, ours in differing]
    for cell in {cell: None for rank in (*every_theirs, *(result[1] for result in results)) for cell in rank
                 if not needs_torch(cell)}:
        names = set()
        for rank, (_, all_ours, _, known, _) in enumerate(results):
            theirs = every_theirs[rank].get(cell, stored.NOT_RUN)
            outcome = all_ours.get(cell, stored.NOT_RUN)
            ours = ("value", stored.token(outcome[1]), outcome[2]) if outcome[0] == "value" else outcome
            theirs, warned = without_warnings(theirs)
            names |= warned
            if same(theirs, ours):
                continue
            entry = explained(cell, theirs, ours)
            names.add(entry and entry.name)
            if entry is None or not is_expected(entry, cell, theirs, outcome, known, texts, found):
                what = f"is not what the entry {entry.name!r} says" if entry else "differs, and no entry fits"
                wrong.append(f"{cell} on rank {rank} of {size} {what}:\n  torch: {str(theirs)[:300]}\n  tutti: "
                             f"{str(outcome)[:300]}")
        for name in names - {None}:
            listed[name] = listed.get(name, 0) + 1
        # An error of gloo's that we do not have is nothing that gloo can do.
        if names <= {"Texts of the engine", *WARNINGS}:
            count += 1
    return count, listed, wrong
