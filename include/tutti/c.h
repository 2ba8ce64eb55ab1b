/* The library for C, and for languages that call C: libtutti_c.so. docs/reference/semantics.md says what each operation
 * promises, docs/reference/c.md what C++ has and C has not.
 *
 * Sections: results; constants; the world; groups; options of calls; collectives; reduce ops of the program; messages;
 *           operations that were started; the store; the log.
 * Results:  every function that can fail returns an int, one of tutti_result. After an error tutti_error_text() says
 *           what went wrong, which rank is to blame, after how long and what to try. NULL and negative numbers give
 *           TUTTI_INVALID_ARGUMENT where nothing else is said. Out parameters come last.
 * Buffers:  are the caller's, contiguous, in CPU memory or that of tutti_with; `count` is a number of elements. Buffers
 *           must not be touched until the operation is done. An input and an output may be one memory where
 *           docs/reference/semantics.md says so.
 * Work:     the last parameter of an operation. NULL: it returns when the operation is done. Else it starts only, and
 *           gives a handle, which tutti_wait must end. Ranks are those of the group.
 * Order:    all ranks call a group's collectives in the same order; messages have no order with them.
 * Strings:  UTF-8, with a zero at the end. The library copies those that it gets.
 * Threads:  any, but one at a time for a tutti_work and for a tutti_message.
 * Stable:   functions, constants and members at the end of structs with a struct_size are only added. */
#ifndef TUTTI_C_H
#define TUTTI_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TUTTI_C_API __attribute__((visibility("default")))
#else
#define TUTTI_C_API
#endif

/* Handles: a group of ranks, an operation that was started, a message that a probe found, a table that ranks share. */
typedef struct tutti_group tutti_group;
typedef struct tutti_work tutti_work;
typedef struct tutti_message tutti_message;
typedef struct tutti_store tutti_store;

/* ---- Results */
/* The result of a call. Most errors of an operation break its group, whose later operations then give the same error.
 * These do not: TUTTI_INVALID_ARGUMENT, TUTTI_ABORTED by an op of the program that failed, and TUTTI_UNSUPPORTED unless
 * its text says so. tutti_health() tells whether the group is broken. */
enum tutti_result {
  TUTTI_OK = 0,
  TUTTI_INVALID_ARGUMENT = 1, /* the caller's mistake: nothing was sent, the group is usable */
  TUTTI_DISAGREEMENT = 2,     /* ranks called different things */
  TUTTI_TIMEOUT = 3,          /* the timeout of the call has passed */
  TUTTI_PEER_LOST = 4,        /* a process died, or its connection broke */
  TUTTI_PEER_LEFT = 5,        /* a process left its group before it had served this one */
  TUTTI_REFUSED = 6,          /* no connection, or another secret or job */
  TUTTI_STORE = 7,            /* the store is gone */
  TUTTI_INTERRUPTED = 8,      /* a rank was interrupted in a call */
  TUTTI_ABORTED = 9,          /* a rank has aborted the group, or an op of the program failed */
  TUTTI_RESOURCE = 10,        /* no memory, descriptors or threads */
  TUTTI_UNSUPPORTED = 11,     /* the backend cannot do it */
  TUTTI_INTERNAL = 12,        /* a bug of the library */
  TUTTI_EXCLUDED = 13,        /* reserved: the others went on without this rank */
  TUTTI_NO_QUORUM = 14        /* reserved: too few ranks are left to go on */
};

/* The text of the last error of this thread, "" where there was none; valid until the thread's next call. */
TUTTI_C_API const char *tutti_error_text(void);
/* The rank that is to blame for it; -1: none. */
TUTTI_C_API int tutti_error_rank(void);

/* ---- Constants */
/* Types of elements; the numbers are those of tutti::DType. */
enum tutti_dtype {
  TUTTI_BOOL = 0, TUTTI_UINT8 = 1, TUTTI_INT8 = 2, TUTTI_UINT16 = 3, TUTTI_INT16 = 4, TUTTI_UINT32 = 5,
  TUTTI_INT32 = 6, TUTTI_UINT64 = 7, TUTTI_INT64 = 8, TUTTI_FLOAT16 = 9, TUTTI_BFLOAT16 = 10, TUTTI_FLOAT32 = 11,
  TUTTI_FLOAT64 = 12, TUTTI_FLOAT8_E4M3 = 13, TUTTI_FLOAT8_E5M2 = 14, TUTTI_COMPLEX64 = 15, TUTTI_COMPLEX128 = 16
};

/* Ops that combine the values of different ranks; the numbers are those of tutti::ReduceOp. */
enum tutti_op {
  TUTTI_SUM = 0, TUTTI_AVG = 1, TUTTI_PRODUCT = 2, TUTTI_MIN = 3, TUTTI_MAX = 4, TUTTI_BAND = 5, TUTTI_BOR = 6,
  TUTTI_BXOR = 7
};

/* As the sender of a recv: the one whose message comes first. As its tag: any. As the peer of a send or recv: nobody;
 * the call moves nothing and succeeds. */
enum { TUTTI_ANY_SOURCE = -1, TUTTI_ANY_TAG = -1073741824, TUTTI_NO_RANK = -536870912 };
/* As the colour of a split: none, so this rank is in no new group. */
enum { TUTTI_NO_COLOR = -2147483647 - 1 };

/* ---- The world */
/* The version of the library, such as "0.2.0". */
TUTTI_C_API const char *tutti_version(void);
/* Makes the group of all processes of the job; blocks until all have joined.
 * `init_method`: NULL or "env://" (RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as tuttirun, mpirun and srun set
 * them), "tcp://host:port" or "file:///path". `rank` and `size`: -1 for those of the environment. `timeout`: seconds,
 * of this call and of the group's operations; 0: as the environment variable TUTTI_TIMEOUT says, or 30 minutes. */
TUTTI_C_API int tutti_init(const char *init_method, int rank, int size, double timeout, tutti_group **world);
/* Further options of the world; all other members 0: as tutti_init. Read during the call only. */
typedef struct tutti_init_options {
  size_t struct_size;        /* sizeof(tutti_init_options) */
  const char *backend;       /* "native", "mpi", ...; NULL: that of the environment variable TUTTI_BACKEND */
  const char *const *config; /* settings of docs/reference/configuration.md that precede the environment, as
                              * "TUTTI_TRANSPORT=tcp", with a NULL at the end; NULL: those of the environment alone */
  tutti_store *store;        /* where the ranks meet, in place of `init_method`; kept as long as the world lives */
  const char *job_name;      /* only processes with the same name find each other; NULL: "" */
  const void *secret;        /* of the job, 32 to 4096 bytes; NULL: as docs/reference/security.md says */
  size_t secret_size;        /* its bytes */
  int or_alone;              /* 1: a program that no launcher has started makes a world of one */
} tutti_init_options;
/* tutti_init with options; NULL: none. */
TUTTI_C_API int tutti_init_with(const char *init_method, int rank, int size, double timeout,
                                const tutti_init_options *options, tutti_group **world);
/* 1 if a world of this process lives, else 0. */
TUTTI_C_API int tutti_is_initialized(void);
/* Tells why there is no backend of this name, and what to do; "": there is. Valid until the thread's next call. */
TUTTI_C_API const char *tutti_why_unavailable(const char *backend);

/* ---- Groups */
/* A group of some ranks of `parent`, in that order; every rank of `parent` calls it. NULL on a rank not in it. */
TUTTI_C_API int tutti_new_group(tutti_group *parent, const int *ranks, int count, tutti_group **group);
/* Divides a group: ranks of one colour (any number) make a group, ordered by key, then by rank. Every rank of `parent`
 * calls it. With TUTTI_NO_COLOR the group is NULL. */
TUTTI_C_API int tutti_split(tutti_group *parent, int color, int key, tutti_group **group);
/* Divides a group into groups of `group_size` ranks that follow each other; gives the one that this rank is in. */
TUTTI_C_API int tutti_new_subgroups(tutti_group *parent, int group_size, tutti_group **group);
/* Lets go of a group, NULL too. Local; operations that were started keep what they need. Letting go of the last group
 * of a world leaves it, which may take up to a second. */
TUTTI_C_API void tutti_free(tutti_group *group);
TUTTI_C_API int tutti_rank(const tutti_group *group); /* of this process, 0 to size - 1; -1 for NULL */
TUTTI_C_API int tutti_size(const tutti_group *group); /* the number of ranks; -1 for NULL */
/* As error texts show the group, and "native", "mpi", ...; "" for NULL. Valid until tutti_free of this handle. */
TUTTI_C_API const char *tutti_name(const tutti_group *group);
TUTTI_C_API const char *tutti_backend(const tutti_group *group);
/* The rank of the world for a rank of the group. */
TUTTI_C_API int tutti_global_rank(const tutti_group *group, int rank, int *global);
/* The rank of the group for a rank of the world; -1 for a rank that is not in it. */
TUTTI_C_API int tutti_group_rank(const tutti_group *group, int global, int *rank);
/* Seconds that operations of this handle may take. */
TUTTI_C_API int tutti_timeout(const tutti_group *group, double *seconds);
/* Of operations that this rank starts from now on; more than 0 seconds. A handle with a timeout of its own
 * (tutti_with) keeps it for itself; no other thread may use that handle meanwhile. */
TUTTI_C_API int tutti_set_timeout(tutti_group *group, double seconds);
/* 1 if every rank of the world has proved that it belongs to the job (docs/reference/security.md), else 0. */
TUTTI_C_API int tutti_authenticated(const tutti_group *group);
/* Breaks the group on all ranks, which are told the reason. Does not block. */
TUTTI_C_API int tutti_abort(tutti_group *group, const char *reason);
/* TUTTI_OK, or what broke the group, here or on another rank. Does not block. */
TUTTI_C_API int tutti_health(const tutti_group *group);
/* A barrier that names the ranks that have not come: rank 0 waits for the others, at most for the timeout, and then
 * its error names the first of them, or with `wait_all_ranks` all. For finding out where a program hangs. */
TUTTI_C_API int tutti_monitored_barrier(tutti_group *group, int wait_all_ranks);

/* ---- Options of calls: a second handle of a group, whose calls have them */
/* Places of buffers. */
enum tutti_device_type { TUTTI_CPU = 0, TUTTI_CUDA = 1 };

/* Options shared by all calls of a handle; all other members 0: as a group without options. */
typedef struct tutti_options {
  size_t struct_size; /* sizeof(tutti_options) */
  double timeout;     /* seconds, of one call; 0: the group's */
  int device_type;    /* TUTTI_CUDA: the buffers are in memory of an NVIDIA GPU */
  int device;         /* which GPU, as this process counts them */
  void *stream;       /* the CUDA stream (cudaStream_t) in whose order the calls are; NULL: the default stream */
  const char *name;   /* of groups that are made of this handle, for messages; NULL: made from their ranks */
} tutti_options;
/* A handle of the same group, whose calls have these options (NULL: none); tutti_free frees it. Local and cheap. Groups
 * that are made of it have its timeout as theirs, and its name; they are on the CPU. */
TUTTI_C_API int tutti_with(tutti_group *group, const tutti_options *options, tutti_group **handle);

/* ---- Collectives */
/* `count` is the number of elements of `buffer`, `own`, `output` and `input`; `all`, and both buffers of an all_to_all,
 * have a block of so many for each rank. With a root, `all` counts on that rank only; elsewhere it may be NULL.
 * `..._coalesced` are one operation on `tensors` buffers of one dtype: `counts[t]` for buffer t. The lists are read
 * during the call only. */
/* Made from the headers by tools/made.py --write. */
/* Combines the buffers of all ranks, element by element, into each of them. */
TUTTI_C_API int tutti_all_reduce(tutti_group *group, void *buffer, size_t count, int dtype, int op, tutti_work **work);
/* tutti_all_reduce from an input, which stays as it is, into an output. */
TUTTI_C_API int tutti_all_reduce_into(tutti_group *group, void *output, const void *input, size_t count, int dtype,
                                      int op, tutti_work **work);
/* Copies the root's buffer to every other rank's. */
TUTTI_C_API int tutti_broadcast(tutti_group *group, void *buffer, size_t count, int dtype, int root, tutti_work **work);
/* Combines the buffers of all ranks into the root's; the others' stay as they are. */
TUTTI_C_API int tutti_reduce(tutti_group *group, void *buffer, size_t count, int dtype, int op, int root,
                             tutti_work **work);
/* tutti_reduce from an input, which stays as it is, into an output on the root; elsewhere the output may be NULL. */
TUTTI_C_API int tutti_reduce_into(tutti_group *group, void *output, const void *input, size_t count, int dtype, int op,
                                  int root, tutti_work **work);
/* Combines on rank r the buffers of the ranks 0 to r; with `exclusive`, of the ranks 0 to r - 1: then rank 0's buffer
 * stays as it is. AVG divides by the number of ranks that are combined. */
TUTTI_C_API int tutti_scan(tutti_group *group, void *buffer, size_t count, int dtype, int op, int exclusive,
                           tutti_work **work);
/* tutti_scan from an input, which stays as it is, into an output. */
TUTTI_C_API int tutti_scan_into(tutti_group *group, void *output, const void *input, size_t count, int dtype, int op,
                                int exclusive, tutti_work **work);
/* Puts the inputs of all ranks, in the order of the ranks, into everybody's output. */
TUTTI_C_API int tutti_all_gather(tutti_group *group, void *all, const void *own, size_t count, int dtype,
                                 tutti_work **work);
/* tutti_all_gather of blocks that differ in size. `count`: the elements of this rank's; `counts`: of each rank's, the
 * same numbers on every rank. Counts are read during the call only. */
TUTTI_C_API int tutti_all_gather_v(tutti_group *group, void *all, const void *own, size_t count, const size_t *counts,
                                   int dtype, tutti_work **work);
/* Puts the inputs of all ranks, in the order of the ranks, into the root's output. The others' output is not looked
 * at. */
TUTTI_C_API int tutti_gather(tutti_group *group, void *all, const void *own, size_t count, int dtype, int root,
                             tutti_work **work);
/* tutti_gather of blocks that differ in size. `count`: the elements of this rank's; `counts`: of each rank's, on the
 * root; others may give NULL. Counts are read during the call only. */
TUTTI_C_API int tutti_gather_v(tutti_group *group, void *all, const void *own, size_t count, const size_t *counts,
                               int dtype, int root, tutti_work **work);
/* Hands out the root's input: block r goes to rank r's output. The others' input is not looked at. */
TUTTI_C_API int tutti_scatter(tutti_group *group, void *own, const void *all, size_t count, int dtype, int root,
                              tutti_work **work);
/* tutti_scatter of blocks that differ in size. `count`: the elements of this rank's; `counts`: of each rank's, on the
 * root; others may give NULL. Counts are read during the call only. */
TUTTI_C_API int tutti_scatter_v(tutti_group *group, void *own, const void *all, size_t count, const size_t *counts,
                                int dtype, int root, tutti_work **work);
/* Combines the inputs of all ranks, element by element, and gives block r of the result to rank r. */
TUTTI_C_API int tutti_reduce_scatter(tutti_group *group, void *own, const void *all, size_t count, int dtype, int op,
                                     tutti_work **work);
/* tutti_reduce_scatter of blocks that differ in size. `count`: the elements of this rank's; `counts`: of each rank's,
 * the same numbers on every rank. Counts are read during the call only. */
TUTTI_C_API int tutti_reduce_scatter_v(tutti_group *group, void *own, const void *all, size_t count,
                                       const size_t *counts, int dtype, int op, tutti_work **work);
/* Sends block r of the input to rank r, and gets the block from rank r as block r of the output. */
TUTTI_C_API int tutti_all_to_all(tutti_group *group, void *output, const void *input, size_t count, int dtype,
                                 tutti_work **work);
/* tutti_all_to_all of blocks that differ in size. `output_counts`: the elements from each rank; `input_counts`: those
 * for each rank. Counts are read during the call only. */
TUTTI_C_API int tutti_all_to_all_v(tutti_group *group, void *output, const size_t *output_counts, const void *input,
                                   const size_t *input_counts, int dtype, tutti_work **work);
/* tutti_all_reduce of several buffers in one operation. */
TUTTI_C_API int tutti_all_reduce_coalesced(tutti_group *group, void *const *buffers, const size_t *counts, int tensors,
                                           int dtype, int op, tutti_work **work);
/* tutti_broadcast of several buffers in one operation. */
TUTTI_C_API int tutti_broadcast_coalesced(tutti_group *group, void *const *buffers, const size_t *counts, int tensors,
                                          int dtype, int root, tutti_work **work);
/* tutti_all_gather of several buffers in one operation: all[t] has counts[t] elements for each rank. */
TUTTI_C_API int tutti_all_gather_coalesced(tutti_group *group, void *const *all, void *const *own, const size_t *counts,
                                           int tensors, int dtype, tutti_work **work);
/* tutti_reduce_scatter of several buffers in one operation: all[t] has counts[t] elements for each rank. */
TUTTI_C_API int tutti_reduce_scatter_coalesced(tutti_group *group, void *const *own, void *const *all,
                                               const size_t *counts, int tensors, int dtype, int op, tutti_work **work);
/* Done when every rank has called it. */
TUTTI_C_API int tutti_barrier(tutti_group *group, tutti_work **work);
/* The end of what is made. */
/* Makes the memory for blocks of counts[0], counts[1], ... elements, one for each of `ranks` ranks, and returns it; the
 * operation then writes to it. It is called during the call, on its thread. NULL for any element breaks the group. */
typedef void *(*tutti_make_blocks)(void *context, const size_t *counts, int ranks);
/* tutti_all_gather_v whose counts every rank learns: each gives `count` elements of its own. */
TUTTI_C_API int tutti_all_gather_v_make(tutti_group *group, const void *own, size_t count, int dtype,
                                        tutti_make_blocks make, void *context, tutti_work **work);
/* tutti_gather_v whose counts the root learns; `make` is called there only, and may be NULL elsewhere. */
TUTTI_C_API int tutti_gather_v_make(tutti_group *group, const void *own, size_t count, int dtype, int root,
                                    tutti_make_blocks make, void *context, tutti_work **work);
/* tutti_all_to_all_v whose receivers learn the counts: sends the first send_counts[0] elements to rank 0, ... */
TUTTI_C_API int tutti_all_to_all_v_make(tutti_group *group, const void *input, const size_t *send_counts, int dtype,
                                        tutti_make_blocks make, void *context, tutti_work **work);

/* ---- Reduce ops of the program: numbers that stand where a tutti_op does */
/* Makes result[i] = result[i] op next[i] for `count` elements: `result` has the values of the lower ranks. 0: well; any
 * other number fails the operation on this rank (TUTTI_ABORTED), and the group goes on. It runs on the thread that
 * waits for the operation, or else on one of the library's. */
typedef int (*tutti_op_function)(void *context, void *result, const void *next, size_t count, int dtype);
/* An op for all_reduce, reduce, scan and reduce_scatter, not for their `_v` and `_coalesced` forms. All ranks give the
 * same name. `block`: so many elements that follow each other are never divided: 1, or for structs, as TUTTI_UINT8,
 * their size. The function and its context must live until tutti_op_free and the end of the operations. */
TUTTI_C_API int tutti_op_create(const char *name, tutti_op_function function, void *context, size_t block, int *op);
/* PREMUL_SUM: the sum of the inputs, each multiplied by its rank's factor. */
TUTTI_C_API int tutti_op_premul_sum(double factor, int *op);
/* Takes the number back. Operations that were started keep the op. */
TUTTI_C_API int tutti_op_free(int op);

/* ---- Messages */
/* A message to one rank. A recv gets only what was sent with its tag, which is not negative. */
TUTTI_C_API int tutti_send(tutti_group *group, const void *buffer, size_t count, int dtype, int dst, int tag,
                           tutti_work **work);
/* `src` may be TUTTI_ANY_SOURCE, `tag` TUTTI_ANY_TAG. `source`: NULL, or gets the sender if `work` is NULL. */
TUTTI_C_API int tutti_recv(tutti_group *group, void *buffer, size_t count, int dtype, int src, int tag, int *source,
                           tutti_work **work);
/* Receives one buffer and sends another, both at once, so that ranks which all call it do not block each other.
 * `source`: NULL, or gets the rank that sent. */
TUTTI_C_API int tutti_sendrecv(tutti_group *group, void *output, size_t output_count, int src, int recv_tag,
                               const void *input, size_t input_count, int dst, int send_tag, int dtype, int *source);
/* One send or recv of a batch. */
typedef struct tutti_p2p_op {
  int is_send; /* 1: only reads the buffer; 0: receives into it */
  int dtype;
  void *buffer;
  size_t count;
  int peer; /* to whom, or from whom */
  int tag;
} tutti_p2p_op;
/* Starts all of them; `works[i]` is the handle of ops[i]. If one is wrong none is started, and the handles are NULL. */
TUTTI_C_API int tutti_batch_isend_irecv(tutti_group *group, const tutti_p2p_op *ops, int count, tutti_work **works);
/* Waits for a message, as tutti_recv does, and takes it without its bytes: no other recv or probe gets it.
 * tutti_message_free ends the handle. */
TUTTI_C_API int tutti_probe(tutti_group *group, int source, int tag, tutti_message **message);
/* The same without waiting: NULL if no such message has come. */
TUTTI_C_API int tutti_try_probe(tutti_group *group, int source, int tag, tutti_message **message);
/* Tells about a message; any pointer may be NULL. On the backend 'mpi' the dtype is TUTTI_UINT8. */
TUTTI_C_API int tutti_message_info(const tutti_message *message, int *source, int *tag, int *dtype, size_t *count);
/* Receives it, once, with its dtype and count. After TUTTI_INVALID_ARGUMENT it can still be received. */
TUTTI_C_API int tutti_message_recv(tutti_message *message, void *buffer, size_t count, int dtype, tutti_work **work);
/* Frees the handle, NULL too. A message that was not received is put back: a later recv or probe gets it. */
TUTTI_C_API void tutti_message_free(tutti_message *message);

/* ---- Operations that were started. A limit is a number of seconds: 0 only looks, HUGE_VAL waits without a limit */
/* Returns when the operation is done, and frees its handle, however it ended. `source`: NULL, or gets the sender of a
 * recv's message, -1 for other operations. A `work` that is NULL is done. */
TUTTI_C_API int tutti_wait(tutti_work *work, int *source);
/* As tutti_wait, but waits for the GPU, too: tutti_wait may only order the work before later work of the stream. */
TUTTI_C_API int tutti_synchronize(tutti_work *work);
/* Sets `done` to 1 if the operation is done, well or badly, else to 0. The handle stays: tutti_wait ends it. */
TUTTI_C_API int tutti_test(tutti_work *work, int *done);
/* As tutti_test, but waits, at most for the limit. */
TUTTI_C_API int tutti_wait_for(tutti_work *work, double limit, int *done);
/* The failure, or TUTTI_OK, also while it is not done. The handle stays. */
TUTTI_C_API int tutti_work_error(tutti_work *work);
/* Rank and tag of the message that a recv got; -1: there is none yet, or it is no recv. Either pointer may be NULL. The
 * handle stays, so call it after tutti_wait_for and before tutti_wait. */
TUTTI_C_API int tutti_received(const tutti_work *work, int *source, int *tag);
/* Called once when an operation is done, with its result; tutti_error_text() then tells its error there. On a thread of
 * the library, or at once; it may start operations. */
typedef void (*tutti_callback)(void *context, int result);
/* Calls back when the operation is done. The handle stays. Keep the group until the callback has run. Not for NULL. */
TUTTI_C_API int tutti_on_done(tutti_work *work, tutti_callback callback, void *context);
/* Takes back a recv that no message has matched: `cancelled` is 1, and the buffer is the caller's. Callbacks then get
 * TUTTI_ABORTED, while tutti_wait, which ends the handle, gives TUTTI_OK at once. Else `cancelled` is 0, and nothing
 * changes. Never blocks. Not for NULL, nor on every backend. */
TUTTI_C_API int tutti_cancel(tutti_work *work, int *cancelled);
/* Frees the handle, NULL too, and lets the operation go on: the buffers must outlive it. */
TUTTI_C_API void tutti_detach(tutti_work *work);
/* Waits for all, frees the handles and sets them to NULL; the result is the first error in the order of the list. */
TUTTI_C_API int tutti_wait_all(tutti_work **works, int count);
/* Waits until one is done, well or badly, and tells its place and its result. Later calls skip it; tutti_wait ends its
 * handle. Place -1: none is left, the limit has passed, or the call is wrong. */
TUTTI_C_API int tutti_wait_any(tutti_work *const *works, int count, double limit, int *place);
/* The same for all that are done: `places` has room for `count` of them, `done` gets their number. The result is the
 * first error in the order of the list; tutti_work_error gives that of each. */
TUTTI_C_API int tutti_wait_some(tutti_work *const *works, int count, double limit, int *places, int *done);

/* ---- The store: a table of byte strings that ranks share. Any thread. Calls wait at most for its timeout. */
/* The part of the world's store for the program's own keys; NULL if the rendezvous had none. To be freed. */
TUTTI_C_API int tutti_store_of(tutti_group *group, tutti_store **store);
/* A store that one process serves (`serve` is 1) and others reach. `port` 0: the server takes a free one. The server
 * serves until `users` processes have used it and left; 0: not known. `timeout` 0: 5 minutes. */
TUTTI_C_API int tutti_tcp_store(const char *host, int port, int serve, int users, double timeout, tutti_store **store);
/* The port of a store that tutti_tcp_store has made. */
TUTTI_C_API int tutti_tcp_store_port(tutti_store *store, int *port);
/* A store in a file, which is made if it is not there; the last of `users` removes it. */
TUTTI_C_API int tutti_file_store(const char *path, int users, double timeout, tutti_store **store);
/* A part of another store, whose key k is "<prefix>/k" there. */
TUTTI_C_API int tutti_prefix_store(const char *prefix, tutti_store *store, tutti_store **part);
/* Lets go of a store, NULL too. A world that uses it keeps it. */
TUTTI_C_API void tutti_store_free(tutti_store *store);
/* Frees a value that the next functions give, NULL too. A zero stands behind its `size` bytes; `size` may be NULL. */
TUTTI_C_API void tutti_free_bytes(char *bytes);
/* Of later calls; more than 0 seconds. */
TUTTI_C_API int tutti_store_set_timeout(tutti_store *store, double seconds);
/* Stores a value, and wakes the calls that wait for the key. */
TUTTI_C_API int tutti_store_set(tutti_store *store, const char *key, const void *value, size_t size);
/* The value; waits until the key is there. */
TUTTI_C_API int tutti_store_get(tutti_store *store, const char *key, char **value, size_t *size);
/* Adds to a number, which is 0 if it is not there. The value is decimal text. `sum` may be NULL. */
TUTTI_C_API int tutti_store_add(tutti_store *store, const char *key, int64_t amount, int64_t *sum);
/* Sets `there` to 1 if the key is there, else to 0. */
TUTTI_C_API int tutti_store_check(tutti_store *store, const char *key, int *there);
/* Waits until the key is there. */
TUTTI_C_API int tutti_store_wait(tutti_store *store, const char *key);
/* Sets the key to `desired` if its value is `expected`, or if it is absent and `expected` is empty. Gives the value
 * that stands afterwards; `expected` if the key is absent and stays so. */
TUTTI_C_API int tutti_store_compare_set(tutti_store *store, const char *key, const void *expected, size_t expected_size,
                                        const void *desired, size_t desired_size, char **value, size_t *size);
/* Appends to the value, which is empty if it is not there. */
TUTTI_C_API int tutti_store_append(tutti_store *store, const char *key, const void *value, size_t size);
/* Removes the key. `was_there` may be NULL. */
TUTTI_C_API int tutti_store_delete_key(tutti_store *store, const char *key, int *was_there);
/* The number of keys; queues are not counted. */
TUTTI_C_API int tutti_store_num_keys(tutti_store *store, int64_t *count);
/* Puts a value at the end of a queue. Queues and keys have separate names. */
TUTTI_C_API int tutti_store_queue_push(tutti_store *store, const char *queue, const void *value, size_t size);
/* Takes the first value of a queue; waits until there is one. */
TUTTI_C_API int tutti_store_queue_pop(tutti_store *store, const char *queue, char **value, size_t *size);
/* The number of values in the queue. */
TUTTI_C_API int tutti_store_queue_len(tutti_store *store, const char *queue, int64_t *length);

/* ---- The log */
/* Levels of lines. */
enum tutti_log_level {
  TUTTI_LOG_DEBUG = 0, TUTTI_LOG_INFO = 1, TUTTI_LOG_WARNING = 2, TUTTI_LOG_ERROR = 3, TUTTI_LOG_OFF = 4
};
/* Gets a line of the library, which ends with the call. From any thread; must not call the library. */
typedef void (*tutti_log_sink)(void *context, int level, const char *line);
/* Gives the library's own lines of at least this level to `sink`; NULL: to standard error, as at the start. It waits
 * for calls of the previous sink that still run, at most for 1 second: one that takes longer ends later. */
TUTTI_C_API int tutti_set_log_sink(tutti_log_sink sink, void *context, int least);

#ifdef __cplusplus
}
#endif

#endif
