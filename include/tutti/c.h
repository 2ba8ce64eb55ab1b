/* The library for C, and for languages that call C: libtutti_c.so. It holds what most programs need of
 * <tutti/process_group.hpp>; docs/reference/semantics.md says what each operation promises.
 *
 * Results:  every function that can fail returns a tutti_result. Then tutti_error_text() says what went wrong, which
 *           rank is to blame, after how long and what to try.
 * Buffers:  are the caller's, contiguous, in CPU memory; `count` is a number of elements. They must not be touched until
 *           the operation is done. An input and an output may be one memory where docs/reference/semantics.md says so.
 * Work:     the last parameter of an operation. NULL: it returns when the operation is done. Else it starts only, and
 *           gives a handle, which tutti_wait must end. Ranks are those of the group.
 * Order:    all ranks of a group call its operations in one order (send and recv have none with them).
 * Threads:  any, but one at a time for a tutti_work.
 * Stable:   functions and constants are only added. */
#ifndef TUTTI_C_H
#define TUTTI_C_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TUTTI_C_API __attribute__((visibility("default")))
#else
#define TUTTI_C_API
#endif

/* A group of ranks, and an operation that was started. */
typedef struct tutti_group tutti_group;
typedef struct tutti_work tutti_work;

/* How a call ended. After all but TUTTI_INVALID_ARGUMENT the group is broken: its operations give the same error. */
enum tutti_result {
  TUTTI_OK = 0,
  TUTTI_INVALID_ARGUMENT = 1, /* the caller's mistake: nothing was sent, the group is usable */
  TUTTI_DISAGREEMENT = 2,     /* ranks called different things */
  TUTTI_TIMEOUT = 3,          /* the group's timeout has passed */
  TUTTI_PEER_LOST = 4,        /* a process died, or its connection broke */
  TUTTI_PEER_LEFT = 5,        /* a process left its group before it had served this one */
  TUTTI_REFUSED = 6,          /* no connection, or another secret or job */
  TUTTI_STORE = 7,            /* the store is gone */
  TUTTI_INTERRUPTED = 8,      /* a rank was interrupted in a call */
  TUTTI_ABORTED = 9,          /* a rank has aborted the group */
  TUTTI_RESOURCE = 10,        /* no memory, descriptors or threads */
  TUTTI_UNSUPPORTED = 11,     /* the backend cannot do it */
  TUTTI_INTERNAL = 12,        /* a bug of the library */
  TUTTI_EXCLUDED = 13,        /* reserved: the others went on without this rank */
  TUTTI_NO_QUORUM = 14        /* reserved: too few ranks are left to go on */
};

/* Types of elements; the numbers are those of tutti::DType. */
enum tutti_dtype {
  TUTTI_BOOL = 0,
  TUTTI_UINT8 = 1,
  TUTTI_INT8 = 2,
  TUTTI_UINT16 = 3,
  TUTTI_INT16 = 4,
  TUTTI_UINT32 = 5,
  TUTTI_INT32 = 6,
  TUTTI_UINT64 = 7,
  TUTTI_INT64 = 8,
  TUTTI_FLOAT16 = 9,
  TUTTI_BFLOAT16 = 10,
  TUTTI_FLOAT32 = 11,
  TUTTI_FLOAT64 = 12,
  TUTTI_FLOAT8_E4M3 = 13,
  TUTTI_FLOAT8_E5M2 = 14,
  TUTTI_COMPLEX64 = 15,
  TUTTI_COMPLEX128 = 16
};

/* How values of different ranks are combined; the numbers are those of tutti::ReduceOp. */
enum tutti_op {
  TUTTI_SUM = 0,
  TUTTI_AVG = 1,
  TUTTI_PRODUCT = 2,
  TUTTI_MIN = 3,
  TUTTI_MAX = 4,
  TUTTI_BAND = 5,
  TUTTI_BOR = 6,
  TUTTI_BXOR = 7
};

/* As the sender of a recv: the one whose message comes first. As its tag: any. As the peer of a send or recv: nobody; it
 * moves nothing and succeeds. */
enum { TUTTI_ANY_SOURCE = -1, TUTTI_ANY_TAG = -1073741824, TUTTI_NO_RANK = -536870912 };

/* The version of the library: "0.1.0". */
TUTTI_C_API const char *tutti_version(void);

/* The text of the last error of this thread, "" where there was none; valid until the thread's next call. */
TUTTI_C_API const char *tutti_error_text(void);
/* The rank that is to blame for it; -1: none. */
TUTTI_C_API int tutti_error_rank(void);

/* Makes the group of all processes of the job; blocks until all have joined.
 * `init_method`: NULL or "env://" (RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as tuttirun, mpirun and srun set
 * them), "tcp://host:port" or "file:///path". `rank` and `size`: -1 for those of the environment. `timeout`: seconds, of
 * this call and of the group's operations; 0: TUTTI_TIMEOUT, or 30 minutes. */
TUTTI_C_API int tutti_init(const char *init_method, int rank, int size, double timeout, tutti_group **world);
/* A group of some ranks of `parent`, in that order; every rank of `parent` calls it. NULL on a rank that is not in it. */
TUTTI_C_API int tutti_new_group(tutti_group *parent, const int *ranks, int count, tutti_group **group);
/* Lets go of a group, NULL too. Local; operations that were started keep what they need. */
TUTTI_C_API void tutti_free(tutti_group *group);

TUTTI_C_API int tutti_rank(const tutti_group *group); /* of this process, 0 to size - 1 */
TUTTI_C_API int tutti_size(const tutti_group *group);
/* Of operations that this rank starts from now on; more than 0 seconds. */
TUTTI_C_API int tutti_set_timeout(tutti_group *group, double seconds);
/* Breaks the group on all ranks, which are told the reason. */
TUTTI_C_API int tutti_abort(tutti_group *group, const char *reason);

/* The collectives. `count` is the number of elements of `buffer` or `own`; `all`, `output` and `input` have a block of
 * so many for each rank. With a root, `all` counts on that rank only; elsewhere it may be NULL. */
/* Made from the headers by tools/made.py --write. */
/* Combines the buffers of all ranks, element by element, into each of them. */
TUTTI_C_API int tutti_all_reduce(tutti_group *group, void *buffer, size_t count, int dtype, int op, tutti_work **work);
/* Copies the root's buffer to every other rank's. */
TUTTI_C_API int tutti_broadcast(tutti_group *group, void *buffer, size_t count, int dtype, int root, tutti_work **work);
/* Combines the buffers of all ranks into the root's; the others' stay as they are. */
TUTTI_C_API int tutti_reduce(tutti_group *group, void *buffer, size_t count, int dtype, int op, int root,
                             tutti_work **work);
/* Combines on rank r the buffers of the ranks 0 to r; with `exclusive`, of the ranks 0 to r - 1: then rank 0's buffer
 * stays as it is. AVG divides by the number of ranks that are combined. */
TUTTI_C_API int tutti_scan(tutti_group *group, void *buffer, size_t count, int dtype, int op, int exclusive,
                           tutti_work **work);
/* Puts the inputs of all ranks, in the order of the ranks, into everybody's output. */
TUTTI_C_API int tutti_all_gather(tutti_group *group, void *all, const void *own, size_t count, int dtype,
                                 tutti_work **work);
/* tutti_all_gather of blocks that differ in size. `count`: the elements of this rank's; `counts`: of each rank's, the
 * same numbers on every rank. It is read during the call only. */
TUTTI_C_API int tutti_all_gather_v(tutti_group *group, void *all, const void *own, size_t count, const size_t *counts,
                                   int dtype, tutti_work **work);
/* Puts the inputs of all ranks, in the order of the ranks, into the root's output. The others' output is not looked
 * at. */
TUTTI_C_API int tutti_gather(tutti_group *group, void *all, const void *own, size_t count, int dtype, int root,
                             tutti_work **work);
/* tutti_gather of blocks that differ in size. `count`: the elements of this rank's; `counts`: of each rank's, on the
 * root; others may give NULL. It is read during the call only. */
TUTTI_C_API int tutti_gather_v(tutti_group *group, void *all, const void *own, size_t count, const size_t *counts,
                               int dtype, int root, tutti_work **work);
/* Hands out the root's input: block r goes to rank r's output. The others' input is not looked at. */
TUTTI_C_API int tutti_scatter(tutti_group *group, void *own, const void *all, size_t count, int dtype, int root,
                              tutti_work **work);
/* tutti_scatter of blocks that differ in size. `count`: the elements of this rank's; `counts`: of each rank's, on the
 * root; others may give NULL. It is read during the call only. */
TUTTI_C_API int tutti_scatter_v(tutti_group *group, void *own, const void *all, size_t count, const size_t *counts,
                                int dtype, int root, tutti_work **work);
/* Combines the inputs of all ranks, element by element, and gives block r of the result to rank r. */
TUTTI_C_API int tutti_reduce_scatter(tutti_group *group, void *own, const void *all, size_t count, int dtype, int op,
                                     tutti_work **work);
/* tutti_reduce_scatter of blocks that differ in size. `count`: the elements of this rank's; `counts`: of each rank's,
 * the same numbers on every rank. It is read during the call only. */
TUTTI_C_API int tutti_reduce_scatter_v(tutti_group *group, void *own, const void *all, size_t count,
                                       const size_t *counts, int dtype, int op, tutti_work **work);
/* Sends block r of the input to rank r, and gets the block from rank r as block r of the output. */
TUTTI_C_API int tutti_all_to_all(tutti_group *group, void *output, const void *input, size_t count, int dtype,
                                 tutti_work **work);
/* Done when every rank has called it. */
TUTTI_C_API int tutti_barrier(tutti_group *group, tutti_work **work);
/* The end of what is made. */

/* A message to one rank. A recv gets only what was sent with its tag, which is not negative. */
TUTTI_C_API int tutti_send(tutti_group *group, const void *buffer, size_t count, int dtype, int dst, int tag,
                           tutti_work **work);
/* `src`: a rank or TUTTI_ANY_SOURCE; `tag`: that of the send, or TUTTI_ANY_TAG. `source`, if not NULL, is told who sent,
 * unless `work` is given. */
TUTTI_C_API int tutti_recv(tutti_group *group, void *buffer, size_t count, int dtype, int src, int tag, int *source,
                           tutti_work **work);

/* Returns when the operation is done, and frees its handle, however it ended. `source`, if not NULL: who sent what was
 * received; -1 for other operations. NULL is an operation that is done. */
TUTTI_C_API int tutti_wait(tutti_work *work, int *source);
/* Sets `done` to 1 if the operation is done, well or badly, else to 0. The handle stays: tutti_wait ends it. */
TUTTI_C_API int tutti_test(tutti_work *work, int *done);

#ifdef __cplusplus
}
#endif

#endif
