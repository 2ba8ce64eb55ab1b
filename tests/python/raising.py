"""For functions and texts that run on ranks, where pytest is not imported."""


def raises(kind, part, call):
    """The error of this kind, or of one of these, that the call must raise, with `part` in its text."""
    try:
        call()
    except kind as problem:
        assert part in str(problem), problem
        return problem
    raise AssertionError(f"no {kind} was raised")
