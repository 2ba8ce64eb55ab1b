/* Groups, options of calls, stores, and a second world. */
#include "ranks.h"

void groups(tutti_group *world, int rank, int size) {
  const int first = 0;
  tutti_group *alone = NULL;
  OK(tutti_new_group(world, &first, 1, &alone));
  EXPECT((alone != NULL) == (rank == 0));
  if (alone != NULL) {
    EXPECT(tutti_size(alone) == 1 && tutti_rank(alone) == 0);
    OK(tutti_barrier(alone, NULL));
  }
  tutti_free(alone);
  EXPECT(tutti_rank(NULL) == -1 && tutti_size(NULL) == -1 && size == tutti_size(world));

  /* Even and odd ranks, backwards; and a group of such a group. */
  tutti_group *half = NULL, *one = NULL, *none = NULL;
  int global = -1, place = -1;
  OK(tutti_split(world, rank % 2, -rank, &half));
  EXPECT(tutti_size(half) == (size + 1 - rank % 2) / 2);
  OK(tutti_global_rank(half, tutti_rank(half), &global));
  OK(tutti_group_rank(half, rank, &place));
  EXPECT(global == rank && place == tutti_rank(half) && place == tutti_size(half) - 1 - rank / 2);
  OK(tutti_group_rank(half, rank == 0 ? 1 : rank - 1, &place));
  EXPECT(place == -1);
  REFUSED(tutti_global_rank(half, size, &global), "rank");
  OK(tutti_new_subgroups(half, 1, &one));
  int64_t x = rank;
  OK(tutti_all_reduce(one, &x, 1, TUTTI_INT64, TUTTI_SUM, NULL));
  EXPECT(x == rank && tutti_size(one) == 1);
  tutti_free(one);
  OK(tutti_split(world, rank == 0 ? 7 : TUTTI_NO_COLOR, 0, &none));
  EXPECT((none != NULL) == (rank == 0));
  REFUSED(tutti_new_subgroups(world, size + 1, &one), "");
  EXPECT(one == NULL);
  tutti_free(none);
  tutti_free(half);

  EXPECT(strcmp(tutti_name(world), "world") == 0 && strcmp(tutti_backend(world), "native") == 0);
  EXPECT(strcmp(tutti_name(NULL), "") == 0 && strcmp(tutti_backend(NULL), "") == 0);
  EXPECT(tutti_authenticated(world) == 1 && tutti_authenticated(NULL) == 0);
  OK(tutti_health(world));

  OK(tutti_monitored_barrier(world, 1));
  tutti_group *copy = copy_of(world), *quick = hurried(copy, 0.3);
  if (size > 1 && rank < size - 1) { /* the last one is somewhere else */
    EXPECT(tutti_monitored_barrier(quick, 0) == TUTTI_TIMEOUT);
    EXPECT(tutti_error_rank() == 1 || size > 2 || rank > 0);
  }
  OK(tutti_barrier(world, NULL));
  tutti_free(quick);
  tutti_free(copy);
}

void options(tutti_group *world, int rank, int size) {
  double seconds = 0;
  tutti_group *copy = copy_of(world), *quick = hurried(copy, 20), *slow = hurried(copy, 30), *like = NULL;
  OK(tutti_timeout(copy, &seconds));
  EXPECT(seconds == 60);
  OK(tutti_set_timeout(quick, 0.2)); /* its own, not that of the group */
  OK(tutti_set_timeout(copy, 50));
  OK(tutti_timeout(copy, &seconds));
  EXPECT(seconds == 50);
  OK(tutti_timeout(quick, &seconds));
  EXPECT(seconds > 0.19 && seconds < 0.21 && tutti_rank(quick) == rank);
  like = copy_of(slow); /* has the timeout as its own */
  OK(tutti_timeout(like, &seconds));
  EXPECT(seconds == 30);
  tutti_free(like);
  float x = 1;
  OK(tutti_all_reduce(slow, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL));
  EXPECT(x == (float)size);
  OK(tutti_barrier(world, NULL));
  if (size > 1) /* each waits for a message that nobody sends */
    TOLD(tutti_recv(quick, &x, 1, TUTTI_FLOAT32, (rank + 1) % size, 0, NULL, NULL), TUTTI_TIMEOUT, "");
  OK(tutti_barrier(world, NULL));
  tutti_free(quick);
  tutti_free(slow);
  tutti_free(copy);

  tutti_options its = {0, 0, 0, 0, NULL, NULL};
  REFUSED(tutti_with(world, &its, &like), "sizeof(tutti_options)");
  its.struct_size = sizeof its + 8;
  REFUSED(tutti_with(world, &its, &like), "sizeof(tutti_options)");
  its.struct_size = offsetof(tutti_options, name) + 1; /* half a pointer */
  REFUSED(tutti_with(world, &its, &like), "sizeof(tutti_options)");
  its.struct_size = offsetof(tutti_options, device_type); /* of an older version: what it lacks is 0 */
  its.device_type = 2;
  OK(tutti_with(world, &its, &like));
  OK(tutti_barrier(like, NULL));
  tutti_free(like);
  its.struct_size = sizeof its;
  its.device_type = TUTTI_CPU;
  its.timeout = -1;
  REFUSED(tutti_with(world, &its, &like), "timeout");
  its.timeout = 0;
  its.device_type = 2;
  REFUSED(tutti_with(world, &its, &like), "device_type 2");
  its.device_type = TUTTI_CPU;
  its.stream = &its;
  REFUSED(tutti_with(world, &its, &like), "TUTTI_CPU, which has no stream");
  its.stream = NULL;
  its.device = 1;
  REFUSED(tutti_with(world, &its, &like), "no device 1 of TUTTI_CPU");
  its.device = 0;
  its.name = "rows";
  OK(tutti_with(world, &its, &copy));
  like = copy_of(copy);
  EXPECT(strcmp(tutti_name(like), "rows") == 0 && strcmp(tutti_name(copy), "world") == 0);
  tutti_free(like);
  tutti_free(copy);
  its.device_type = TUTTI_CUDA;
  its.device = -1;
  REFUSED(tutti_with(world, &its, &like), "no device -1 of TUTTI_CUDA");
  EXPECT(like == NULL);
  OK(tutti_with(world, NULL, &like));
  OK(tutti_barrier(like, NULL));
  tutti_free(like);
}

/* A function of the driver that the library loads; TUTTI_CUDA_LIBRARY names one whose GPUs are memory of the host. */
static void *of_driver(const char *name) {
  void *driver = dlopen(getenv("TUTTI_CUDA_LIBRARY"), RTLD_NOW);
  void *found = driver == NULL ? NULL : dlsym(driver, name);
  if (found == NULL) fail(__FILE__, __LINE__, name, dlerror());
  return found;
}

void gpus(tutti_group *world, int rank, int size) {
  int (*init)(unsigned), (*retain)(void **, int), (*push)(void *), (*make_stream)(void **, unsigned), (*last)(void **);
  int (*allocate)(uintptr_t *, size_t, void *), (*copy)(uintptr_t, uintptr_t, size_t, void *);
  *(void **)&init = of_driver("cuInit");
  *(void **)&retain = of_driver("cuDevicePrimaryCtxRetain");
  *(void **)&push = of_driver("cuCtxPushCurrent_v2");
  *(void **)&make_stream = of_driver("cuStreamCreate");
  *(void **)&last = of_driver("tuttiTestLastStream");
  *(void **)&allocate = of_driver("cuMemAllocAsync");
  *(void **)&copy = of_driver("cuMemcpyAsync");
  void *context = NULL, *stream = NULL, *seen = NULL;
  uintptr_t memory = 0;
  EXPECT(init(0) == 0 && retain(&context, 0) == 0 && push(context) == 0 && make_stream(&stream, 0) == 0);
  EXPECT(allocate(&memory, sizeof(float), stream) == 0);
  float x = (float)rank + 1;
  EXPECT(copy(memory, (uintptr_t)&x, sizeof x, stream) == 0);

  tutti_options its = {sizeof its, 0, TUTTI_CUDA, 0, NULL, NULL};
  its.stream = stream;
  tutti_group *on_gpu = NULL;
  tutti_work *work = NULL;
  OK(tutti_with(world, &its, &on_gpu));
  OK(tutti_all_reduce(on_gpu, (void *)memory, 1, TUTTI_FLOAT32, TUTTI_SUM, &work));
  OK(tutti_synchronize(work));
  EXPECT(copy((uintptr_t)&x, memory, sizeof x, stream) == 0 && x == (float)(size * (size + 1) / 2));
  EXPECT(last(&seen) == 0 && seen == stream);
  OK(tutti_sendrecv(on_gpu, (void *)memory, 1, TUTTI_NO_RANK, 0, NULL, 0, TUTTI_NO_RANK, 0, TUTTI_FLOAT32, NULL));
  tutti_free(on_gpu);
  its.device = 7; /* there is none */
  OK(tutti_with(world, &its, &on_gpu));
  REFUSED(tutti_all_reduce(on_gpu, (void *)memory, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL), "there is no device cuda:7");
  tutti_free(on_gpu);
}

/* A value of the store, which is this text. */
static void expect_value(char *value, size_t size, const char *text) {
  EXPECT(value != NULL && size == strlen(text) && strcmp(value, text) == 0);
  tutti_free_bytes(value);
}

/* Each function of a store; `name` tells the stores apart. */
static void use(tutti_store *store, tutti_group *world, int rank, int size) {
  char *value = NULL;
  size_t bytes = 0;
  int there = -1, was_there = -1;
  int64_t number = 0;
  OK(tutti_store_set_timeout(store, 30));
  if (rank == 0) OK(tutti_store_set(store, "key", "value", 5));
  OK(tutti_store_wait(store, "key"));
  OK(tutti_store_check(store, "key", &there));
  EXPECT(there == 1);
  OK(tutti_store_get(store, "key", &value, &bytes));
  expect_value(value, bytes, "value");
  OK(tutti_barrier(world, NULL));
  OK(tutti_store_add(store, "sum", rank + 1, NULL));
  OK(tutti_barrier(world, NULL));
  OK(tutti_store_add(store, "sum", 0, &number));
  EXPECT(number == size * (size + 1) / 2);
  if (rank == 0) {
    OK(tutti_store_append(store, "key", "s", 1));
    OK(tutti_store_compare_set(store, "key", "values", 6, "", 0, &value, &bytes));
    expect_value(value, bytes, "");
    OK(tutti_store_compare_set(store, "key", "other", 5, "new", 3, &value, &bytes));
    expect_value(value, bytes, "");
    OK(tutti_store_delete_key(store, "key", &was_there));
    EXPECT(was_there == 1);
    OK(tutti_store_delete_key(store, "key", NULL));
    OK(tutti_store_num_keys(store, &number));
    EXPECT(number == 1);
    OK(tutti_store_queue_push(store, "queue", "first", 5));
    OK(tutti_store_queue_len(store, "queue", &number));
    EXPECT(number == 1);
    OK(tutti_store_queue_pop(store, "queue", &value, &bytes));
    expect_value(value, bytes, "first");
    OK(tutti_store_set_timeout(store, 0.05));
    EXPECT(tutti_store_get(store, "absent", &value, NULL) == TUTTI_TIMEOUT && value == NULL);
    OK(tutti_store_set_timeout(store, 30));
  }
  OK(tutti_barrier(world, NULL));
  REFUSED(tutti_store_set(store, NULL, "", 0), "key is NULL");
  REFUSED(tutti_store_set(store, "key", NULL, 1), "value is NULL");
  REFUSED(tutti_store_get(store, "key", NULL, NULL), "value is NULL");
  REFUSED(tutti_store_get(NULL, "key", &value, NULL), "the store is NULL");
  REFUSED(tutti_store_set_timeout(store, 0), "timeout");
}

void stores(tutti_group *world, int rank, int size) {
  tutti_store *store = NULL, *part = NULL;
  int port = 0;
  OK(tutti_store_of(world, &store));
  EXPECT(store != NULL);
  OK(tutti_prefix_store("of-the-test", store, &part));
  use(part, world, rank, size);
  REFUSED(tutti_tcp_store_port(part, &port), "tutti_tcp_store");
  tutti_store_free(part);

  char *path = NULL, mine[] = "/tmp/tutti-c-XXXXXX";
  if (rank == 0) {
    EXPECT(close(mkstemp(mine)) == 0);
    OK(tutti_store_set(store, "path", mine, strlen(mine)));
  }
  OK(tutti_store_get(store, "path", &path, NULL));
  OK(tutti_file_store(path, size, 30, &part));
  use(part, world, rank, size);
  tutti_free_bytes(path);
  tutti_store_free(part);
  tutti_store_free(store);
  tutti_store_free(NULL);
  tutti_free_bytes(NULL);
  REFUSED(tutti_file_store(NULL, 1, 0, &part), "path is NULL");
  REFUSED(tutti_tcp_store("127.0.0.1", 65536, 1, 1, 0, &part), "port 65536");
  REFUSED(tutti_tcp_store("127.0.0.1", 0, 1, -1, 0, &part), "users");
  REFUSED(tutti_prefix_store("x", NULL, &part), "the store is NULL");
}

static void count_lines(void *context, int level, const char *line) {
  if (level <= TUTTI_LOG_ERROR && strlen(line) > 0) __sync_add_and_fetch((int *)context, 1);
}

/* By a store of its own, with settings and a log sink. */
void another_world(tutti_group *world, int rank, int size) {
  static int lines;
  tutti_store *store = NULL;
  tutti_group *other = NULL;
  int port = 0;
  double seconds = 0;
  if (rank == 0) {
    OK(tutti_tcp_store("127.0.0.1", 0, 1, size, 30, &store));
    OK(tutti_tcp_store_port(store, &port));
  }
  OK(tutti_broadcast(world, &port, 1, TUTTI_INT32, 0, NULL));
  if (rank > 0) OK(tutti_tcp_store("127.0.0.1", port, 0, size, 30, &store));

  static const char secret[32] = "of this test and nothing else ..";
  const char *settings[4] = {"TUTTI_TIMEOUT=77", "TUTTI_TRANSPORT=tcp", "TUTTI_LOG_LEVEL=debug", NULL};
  tutti_init_options its = {sizeof its, "native", NULL, NULL, "another", NULL, 0, 0};
  its.config = settings;
  its.store = store;
  its.secret = secret;
  its.secret_size = sizeof secret;
  OK(tutti_set_log_sink(count_lines, &lines, TUTTI_LOG_DEBUG));
  OK(tutti_init_with(NULL, rank, size, 0, &its, &other));
  OK(tutti_set_log_sink(NULL, NULL, TUTTI_LOG_WARNING));
  EXPECT(__sync_add_and_fetch(&lines, 0) > 0);
  OK(tutti_timeout(other, &seconds));
  EXPECT(seconds == 77 && strcmp(tutti_backend(other), "native") == 0);
  int64_t x = 1;
  OK(tutti_all_reduce(other, &x, 1, TUTTI_INT64, TUTTI_SUM, NULL));
  EXPECT(x == size);
  tutti_free(other);
  tutti_store_free(store);

  settings[0] = "TUTTI_TIMEOUTS=77";
  REFUSED(tutti_init_with(NULL, rank, size, 0, &its, &other), "there is no setting TUTTI_TIMEOUTS");
  settings[0] = "TUTTI_TIMEOUT";
  REFUSED(tutti_init_with(NULL, rank, size, 0, &its, &other), "NAME=value");
  settings[0] = "TUTTI_TIMEOUT=soon";
  REFUSED(tutti_init_with(NULL, rank, size, 0, &its, &other), "soon");
  its.config = NULL;
  its.backend = "nobody's";
  its.store = NULL;
  REFUSED(tutti_init_with(NULL, rank, size, 0, &its, &other), "nobody's");
  its.backend = NULL;
  its.secret = NULL;
  REFUSED(tutti_init_with(NULL, rank, size, 0, &its, &other), "secret is NULL");
  its.struct_size = 1;
  REFUSED(tutti_init_with(NULL, rank, size, 0, &its, &other), "sizeof(tutti_init_options)");
  EXPECT(other == NULL);
  EXPECT(strcmp(tutti_why_unavailable("native"), "") == 0 && strlen(tutti_why_unavailable("nobody's")) > 0);
  REFUSED(tutti_set_log_sink(NULL, NULL, 5), "level 5");
}
