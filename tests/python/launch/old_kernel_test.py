"""Ranks on the oldest Linux that the README names: what is newer there is refused as an old kernel refuses it."""

import ranks

# A filter of seccomp, for this process and those it starts. Linux 4.18 has the system calls up to 334 (rseq).
OLD_KERNEL = """
import ctypes, errno, struct
NR, ARGUMENT_1, ARGUMENT_2 = 0, 24, 32  # offsets in seccomp_data
MEMFD_CREATE, MADVISE, POPULATE_WRITE, NOEXEC_SEAL = 319, 28, 23, 8
load = lambda offset: (0x20, 0, 0, offset)
is_equal = lambda value, yes, no: (0x15, yes, no, value)
program = [load(NR), (0x35, 7, 0, 335),          # from 335 on: ENOSYS
           is_equal(MADVISE, 0, 2), load(ARGUMENT_2), is_equal(POPULATE_WRITE, 6, 5),
           is_equal(MEMFD_CREATE, 0, 4), load(ARGUMENT_1), (0x45, 3, 0, NOEXEC_SEAL), (0x06, 0, 0, 0x7fff0000),
           (0x06, 0, 0, 0x50000 | errno.ENOSYS), (0x06, 0, 0, 0x7fff0000), (0x06, 0, 0, 0x50000 | errno.EINVAL)]
code = b"".join(struct.pack("HBBI", *one) for one in program)
buffer = ctypes.create_string_buffer(code, len(code))
class Filter(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Filter(len(program), ctypes.addressof(buffer)))) == 0
def refused(number, *arguments):
    return libc.syscall(number, *arguments) == -1 and ctypes.get_errno()
assert refused(434, 1, 0) == errno.ENOSYS and refused(319, b"x", 8) == errno.EINVAL and refused(28, None, 0, 23) == errno.EINVAL
"""
PROGRAM = """
import tutti.distributed as dist
dist.init_process_group()
rank = dist.get_rank()
for count in (3, 300_000):
    x = np.full(count, rank + 1.0)
    dist.all_reduce(x)
    assert (x == 3).all(), x
half = dist.new_group([0, 1])
objects = [None, None]
dist.all_gather_object(objects, rank, group=half)
assert objects == [0, 1]
if rank == 1:
    os._exit(0)  # its end is noticed without pidfds
try:
    dist.all_reduce(x)
except dist.DistNetworkError as error:
    assert error.culprit == 1, error
    print("told")
"""


def test_ranks_need_no_newer_system_call(tmp_path):
    done = ranks.run(OLD_KERNEL + PROGRAM, 2, tmp_path, init=False)
    assert "told" in done[0]
