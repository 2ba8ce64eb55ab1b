/* Every function of <tutti/c.h>, on any number of ranks. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/c.h>

#define OK(call)                                                                   \
  do {                                                                             \
    const int result = (call);                                                     \
    if (result != TUTTI_OK) fail(__LINE__, #call, tutti_error_text());             \
  } while (0)
#define EXPECT(condition)                             \
  do {                                                \
    if (!(condition)) fail(__LINE__, #condition, ""); \
  } while (0)

enum { MOST = 8 };

static void fail(int line, const char *what, const char *text) {
  fprintf(stderr, "ranks.c:%d: %s: %s\n", line, what, text);
  exit(1);
}

static void refused(int result, const char *part) {
  EXPECT(result == TUTTI_INVALID_ARGUMENT);
  if (strstr(tutti_error_text(), part) == NULL) fail(__LINE__, part, tutti_error_text());
}

static void collectives(tutti_group *world, int rank, int size) {
  int64_t x = rank + 1, all[MOST], blocks[MOST], own = 0;
  OK(tutti_all_reduce(world, &x, 1, TUTTI_INT64, TUTTI_SUM, NULL));
  EXPECT(x == size * (size + 1) / 2);
  x = rank;
  OK(tutti_reduce(world, &x, 1, TUTTI_INT64, TUTTI_MAX, 0, NULL));
  EXPECT(x == (rank == 0 ? size - 1 : rank));
  x = 1;
  OK(tutti_scan(world, &x, 1, TUTTI_INT64, TUTTI_SUM, 0, NULL));
  EXPECT(x == rank + 1);
  x = 1;
  OK(tutti_scan(world, &x, 1, TUTTI_INT64, TUTTI_SUM, 1, NULL));
  EXPECT(x == (rank == 0 ? 1 : rank));
  x = rank == size - 1 ? 42 : 0;
  OK(tutti_broadcast(world, &x, 1, TUTTI_INT64, size - 1, NULL));
  EXPECT(x == 42);
  x = 10 + rank;
  OK(tutti_all_gather(world, all, &x, 1, TUTTI_INT64, NULL));
  for (int r = 0; r < size; ++r) EXPECT(all[r] == 10 + r);
  memset(all, 0, sizeof all);
  OK(tutti_gather(world, rank == 0 ? all : NULL, &x, 1, TUTTI_INT64, 0, NULL));
  for (int r = 0; r < size; ++r) EXPECT(all[r] == (rank == 0 ? 10 + r : 0));
  OK(tutti_scatter(world, &own, rank == 0 ? all : NULL, 1, TUTTI_INT64, 0, NULL));
  EXPECT(own == 10 + rank);
  for (int r = 0; r < size; ++r) all[r] = r + rank;
  OK(tutti_reduce_scatter(world, &own, all, 1, TUTTI_INT64, TUTTI_SUM, NULL));
  EXPECT(own == size * rank + size * (size - 1) / 2);
  for (int r = 0; r < size; ++r) all[r] = 100 * rank + r;
  OK(tutti_all_to_all(world, blocks, all, 1, TUTTI_INT64, NULL));
  for (int r = 0; r < size; ++r) EXPECT(blocks[r] == 100 * r + rank);
  OK(tutti_barrier(world, NULL));
}

/* Rank r has r % 3 elements, so some have none. */
static void blocks(tutti_group *world, int rank, int size) {
  int64_t all[3 * MOST], own[2] = {rank, 10 * rank}, back[2] = {-1, -1};
  size_t counts[MOST], total = 0, at = 0;
  const size_t count = (size_t)rank % 3;
  const int root = size - 1;
  for (int r = 0; r < size; ++r) total += counts[r] = (size_t)r % 3;
  for (int turn = 0; turn < 2; ++turn) {
    memset(all, -1, sizeof all);
    if (turn == 0)
      OK(tutti_all_gather_v(world, all, own, count, counts, TUTTI_INT64, NULL));
    else
      OK(tutti_gather_v(world, all, own, count, rank == root ? counts : NULL, TUTTI_INT64, root, NULL));
    at = 0;
    for (int r = 0; r < size && (turn == 0 || rank == root); ++r)
      for (size_t i = 0; i < counts[r]; ++i) EXPECT(all[at++] == (i == 0 ? r : 10 * r));
    EXPECT(all[at] == -1);
  }
  OK(tutti_scatter_v(world, back, all, count, counts, TUTTI_INT64, root, NULL));
  for (size_t i = 0; i < 2; ++i) EXPECT(back[i] == (i < count ? own[i] : -1));
  for (size_t i = 0; i < total; ++i) all[i] = (int64_t)i;
  OK(tutti_reduce_scatter_v(world, back, all, count, counts, TUTTI_INT64, TUTTI_SUM, NULL));
  at = 0;
  for (int r = 0; r < rank; ++r) at += counts[r];
  for (size_t i = 0; i < count; ++i) EXPECT(back[i] == (int64_t)(at + i) * size);
  refused(tutti_all_gather_v(world, all, own, count, NULL, TUTTI_INT64, NULL), "counts is NULL");
  counts[0] = SIZE_MAX;
  if (size > 1) {
    counts[1] = 1;
    refused(tutti_all_gather_v(world, all, own, count, counts, TUTTI_INT64, NULL), "larger than memory");
  }
}

static void works(tutti_group *world, int rank, int size) {
  float x = 1;
  int done = 0, source = 0;
  tutti_work *work = NULL, *other = NULL;
  OK(tutti_all_reduce(world, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, &work));
  EXPECT(work != NULL);
  while (done == 0) OK(tutti_test(work, &done));
  OK(tutti_wait(work, &source));
  EXPECT(x == (float)size && source == -1);
  int sent = rank, heard = -1;
  OK(tutti_recv(world, &heard, 1, TUTTI_INT32, (rank + 1) % size, 3, NULL, &work));
  OK(tutti_send(world, &sent, 1, TUTTI_INT32, (rank + size - 1) % size, 3, &other));
  OK(tutti_wait(other, NULL));
  OK(tutti_wait(work, &source));
  EXPECT(heard == (rank + 1) % size && source == heard);
  OK(tutti_send(world, &sent, 1, TUTTI_INT32, (rank + 1) % size, 5, &other));
  OK(tutti_recv(world, &heard, 1, TUTTI_INT32, TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, &source, NULL));
  OK(tutti_wait(other, NULL));
  EXPECT(heard == (rank + size - 1) % size && source == heard);
  OK(tutti_send(world, &sent, 1, TUTTI_INT32, TUTTI_NO_RANK, 5, NULL));
  OK(tutti_recv(world, &heard, 1, TUTTI_INT32, TUTTI_NO_RANK, 5, &source, NULL));
  EXPECT(source == TUTTI_NO_RANK);
  OK(tutti_wait(NULL, &source));
  OK(tutti_test(NULL, &done));
  EXPECT(source == -1 && done == 1);
}

static void groups(tutti_group *world, int rank, int size) {
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
}

static void mistakes(tutti_group *world, int size) {
  float x = 0;
  tutti_work *work = (tutti_work *)&x;
  tutti_group *group = NULL;
  refused(tutti_all_reduce(NULL, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL), "the group is NULL");
  refused(tutti_all_reduce(world, NULL, 1, TUTTI_FLOAT32, TUTTI_SUM, &work), "the buffer is NULL");
  EXPECT(work == NULL);
  refused(tutti_all_reduce(world, &x, 1, 17, TUTTI_SUM, NULL), "dtype 17");
  refused(tutti_all_reduce(world, &x, 1, -1, TUTTI_SUM, NULL), "dtype -1");
  refused(tutti_all_reduce(world, &x, 1, TUTTI_FLOAT32, 8, NULL), "op 8");
  refused(tutti_all_reduce(world, &x, SIZE_MAX, TUTTI_FLOAT32, TUTTI_SUM, NULL), "larger than memory");
  refused(tutti_broadcast(world, &x, 1, TUTTI_FLOAT32, size, NULL), "root");
  refused(tutti_send(world, &x, 1, TUTTI_FLOAT32, 0, -1, NULL), "tag");
  refused(tutti_set_timeout(world, 0), "timeout");
  refused(tutti_set_timeout(world, -1), "timeout");
  refused(tutti_set_timeout(world, 1e300), "timeout");
  refused(tutti_set_timeout(world, NAN), "timeout");
  refused(tutti_new_group(world, NULL, 1, &group), "ranks is NULL");
  refused(tutti_new_group(world, NULL, 0, NULL), "group is NULL");
  refused(tutti_test(NULL, NULL), "done is NULL");
  refused(tutti_init(NULL, -1, -1, 0, NULL), "world is NULL");
  refused(tutti_init("nothing://x", -1, -1, 0, &group), "nothing://x");
  EXPECT(group == NULL);
}

/* Ranks call different things, do not come, or abort: all are told, and the group is broken. Copies of the world, which
 * stays whole. */
static void broken_groups(tutti_group *world, int rank, int size) {
  int ranks[MOST];
  for (int r = 0; r < size; ++r) ranks[r] = r;
  tutti_group *copy = NULL;
  OK(tutti_new_group(world, ranks, size, &copy));
  float x[2] = {1, 1};
  OK(tutti_set_timeout(copy, HUGE_VAL)); /* no limit */
  OK(tutti_barrier(copy, NULL));
  OK(tutti_set_timeout(copy, 20));
  if (size > 1) {
    EXPECT(tutti_all_reduce(copy, x, rank == 0 ? 1 : 2, TUTTI_FLOAT32, TUTTI_SUM, NULL) == TUTTI_DISAGREEMENT);
    EXPECT(strlen(tutti_error_text()) > 0 && x[0] == 1);
    EXPECT(tutti_barrier(copy, NULL) == TUTTI_DISAGREEMENT);
  }
  tutti_free(copy);
  OK(tutti_new_group(world, ranks, size, &copy));
  if (size > 1 && rank == 0) { /* nobody sends */
    OK(tutti_set_timeout(copy, 0.2));
    EXPECT(tutti_recv(copy, x, 1, TUTTI_FLOAT32, 1, 0, NULL, NULL) == TUTTI_TIMEOUT);
    EXPECT(tutti_error_rank() == 1);
  }
  OK(tutti_barrier(world, NULL));
  tutti_free(copy);
  OK(tutti_new_group(world, ranks, size, &copy));
  OK(tutti_barrier(world, NULL)); /* nobody is in a call of the copy */
  if (rank == 0) OK(tutti_abort(copy, "rank 0 has had enough"));
  EXPECT(tutti_barrier(copy, NULL) == TUTTI_ABORTED);
  if (strstr(tutti_error_text(), "rank 0 has had enough") == NULL) fail(__LINE__, "abort", tutti_error_text());
  tutti_free(copy);
}

int main(void) {
  tutti_group *world = NULL;
  EXPECT(strchr(tutti_version(), '.') != NULL && strcmp(tutti_error_text(), "") == 0 && tutti_error_rank() == -1);
  OK(tutti_init("env://", -1, -1, 60, &world));
  const int rank = tutti_rank(world), size = tutti_size(world);
  EXPECT(size <= MOST);
  collectives(world, rank, size);
  blocks(world, rank, size);
  works(world, rank, size);
  groups(world, rank, size);
  mistakes(world, size);
  broken_groups(world, rank, size);
  OK(tutti_barrier(world, NULL));
  tutti_free(world);
  return 0;
}
