// The library from Rust, without crates: a sum of all ranks, and a message to the next one. The flags are those of
// `pkg-config --libs tutti_c`.
//
//   rustc examples/rust/ring.rs -L build/dev/bindings/c -l tutti_c
//   LD_LIBRARY_PATH=build/dev/bindings/c build/dev/bin/tuttirun --nproc-per-node 2 ./ring
use std::ffi::{c_void, CStr};
use std::os::raw::{c_char, c_int};
use std::ptr::{null, null_mut};

const INT32: c_int = 6; // of tutti_dtype
const SUM: c_int = 0; // of tutti_op

extern "C" {
    fn tutti_init(method: *const c_char, rank: c_int, size: c_int, timeout: f64, world: *mut *mut c_void) -> c_int;
    fn tutti_rank(group: *const c_void) -> c_int;
    fn tutti_size(group: *const c_void) -> c_int;
    fn tutti_all_reduce(group: *mut c_void, buffer: *mut c_void, count: usize, dtype: c_int, op: c_int,
                        work: *mut *mut c_void) -> c_int;
    fn tutti_sendrecv(group: *mut c_void, output: *mut c_void, output_count: usize, src: c_int, recv_tag: c_int,
                      input: *const c_void, input_count: usize, dst: c_int, send_tag: c_int, dtype: c_int,
                      source: *mut c_int) -> c_int;
    fn tutti_free(group: *mut c_void);
    fn tutti_error_text() -> *const c_char;
}

fn check(result: c_int) {
    if result != 0 {
        panic!("{}", unsafe { CStr::from_ptr(tutti_error_text()) }.to_string_lossy());
    }
}

fn main() {
    let mut world = null_mut();
    check(unsafe { tutti_init(null(), -1, -1, 60.0, &mut world) });
    let (rank, size) = unsafe { (tutti_rank(world), tutti_size(world)) };
    let mut values = [rank + 1, 1];
    check(unsafe { tutti_all_reduce(world, values.as_mut_ptr().cast(), 2, INT32, SUM, null_mut()) });
    assert_eq!(values, [size * (size + 1) / 2, size]);
    let (next, before, mut heard) = ((rank + 1) % size, (rank + size - 1) % size, -1);
    check(unsafe {
        tutti_sendrecv(world, (&mut heard as *mut c_int).cast(), 1, before, 0, (&rank as *const c_int).cast(), 1, next, 0,
                       INT32, null_mut())
    });
    assert_eq!(heard, before);
    println!("rank {rank} of {size} heard {heard}");
    unsafe { tutti_free(world) };
}
