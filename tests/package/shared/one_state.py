"""The program of shared_test.py: one process in which Python's module, a C++ library, the library for C and a C++ library
of another version of tutti meet.

    one_state.py USER TUTTI_C USER_OF_OTHER_VERSION first|last
"""

import ctypes
import os
import sys


def opened(path):
    """With its names shown to all that is loaded later, as the libraries of a program's are."""
    library = ctypes.CDLL(path, mode=os.RTLD_GLOBAL | os.RTLD_NOW)
    for name in ("user_backends", "tutti_why_unavailable", "tutti_error_text"):
        if hasattr(library, name):
            getattr(library, name).restype = ctypes.c_char_p
    if hasattr(library, "user_sum_of_threads"):
        library.user_sum_of_threads.restype = ctypes.c_double
        library.user_secret.restype = ctypes.c_ulong
    return library


def mapped():
    """The names of tutti's libraries in this process, each once for a file."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return sorted(os.path.basename(path) for path in {line.split()[-1] for line in maps if "/libtutti.so" in line})


def threads():
    names = [open(f"/proc/self/task/{task}/comm", encoding="utf-8").read().strip() for task in os.listdir("/proc/self/task")]
    return names.count("tutti-progress")


def main():
    user_path, c_path, other_path, order = sys.argv[1:]
    if order == "first":
        other = opened(other_path)
        other.user_sum_of_threads(2)
    import tutti
    user, c = opened(user_path), opened(c_path)
    if order == "last":
        other = opened(other_path)

    assert mapped() == ["libtutti.so.0", "libtutti.so.1"], mapped()

    # The log: C++ takes it, and lines of a world that Python makes come there.
    user.user_count_lines()
    other.user_count_lines()
    assert not tutti.is_initialized()
    world = tutti.init_process_group(or_alone=True)
    assert user.user_lines() > 0
    assert other.user_lines() == 0, "the log of another version got our lines"

    # Worlds.
    assert tutti.is_initialized()
    assert user.user_is_initialized() == 1
    assert c.tutti_is_initialized() == 1
    assert other.user_is_initialized() == 0, "another version knows our world"

    # Backends.
    tutti.register_backend("here", lambda *_: None)
    assert b"here" in user.user_backends().split()
    assert c.tutti_why_unavailable(b"here") == b""
    assert b"here" not in other.user_backends().split(), "another version knows our backends"

    # The secret of this user is one file for all of them.
    assert user.user_secret() == other.user_secret() == int.from_bytes(tutti.job_secret()[:8], sys.byteorder)

    # Operations, and the thread that makes progress: one for each version, at most.
    for each in (user, other):
        for ranks in (1, 2, 3):
            got = each.user_sum_of_threads(ranks)
            assert got == ranks * (ranks + 1) / 2, got
    values = bytearray(8)
    world.all_reduce(memoryview(values).cast("d"), async_op=True).wait()
    assert threads() <= 2, threads()

    # Errors have one class in all files of one version, and another one in another version.
    throws = ctypes.cast(user.user_throws, ctypes.c_void_p)
    assert user.user_catches(throws) == 1
    assert other.user_catches(throws) == 2
    world.close()
    print("well")


if __name__ == "__main__":
    main()
