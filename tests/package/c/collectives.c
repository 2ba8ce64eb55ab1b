/* The collectives, and reduce ops of the program. */
#include "ranks.h"

static void whole(tutti_group *world, int rank, int size) {
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
  REFUSED(tutti_all_gather_v(world, all, own, count, NULL, TUTTI_INT64, NULL), "counts is NULL");
  counts[0] = SIZE_MAX;
  if (size > 1) {
    counts[1] = 1;
    REFUSED(tutti_all_gather_v(world, all, own, count, counts, TUTTI_INT64, NULL), "larger than memory");
  }
}

/* From one buffer into another. */
static void apart(tutti_group *world, int rank, int size) {
  const int32_t input[2] = {rank + 1, 1};
  int32_t output[2] = {-1, -1};
  OK(tutti_all_reduce_into(world, output, input, 2, TUTTI_INT32, TUTTI_SUM, NULL));
  EXPECT(output[0] == size * (size + 1) / 2 && output[1] == size && input[0] == rank + 1);
  output[0] = -1;
  OK(tutti_reduce_into(world, rank == size - 1 ? output : NULL, input, 2, TUTTI_INT32, TUTTI_MAX, size - 1, NULL));
  EXPECT(output[0] == (rank == size - 1 ? size : -1) && input[0] == rank + 1);
  output[0] = -1;
  OK(tutti_scan_into(world, output, input, 2, TUTTI_INT32, TUTTI_SUM, 0, NULL));
  EXPECT(output[0] == (rank + 1) * (rank + 2) / 2 && output[1] == rank + 1 && input[1] == 1);
}

/* Rank r gives rank s (r + s) % 3 elements, each r. */
static void exchange(tutti_group *world, int rank, int size) {
  int32_t input[3 * MOST], output[3 * MOST];
  size_t counts[MOST], total = 0, at = 0;
  for (int r = 0; r < size; ++r) total += counts[r] = (size_t)(rank + r) % 3;
  for (size_t i = 0; i < 3 * MOST; ++i) input[i] = rank, output[i] = -1;
  OK(tutti_all_to_all_v(world, output, counts, input, counts, TUTTI_INT32, NULL));
  for (int r = 0; r < size; ++r)
    for (size_t i = 0; i < counts[r]; ++i) EXPECT(output[at++] == r);
  EXPECT(at == total && output[total] == -1);
  REFUSED(tutti_all_to_all_v(world, output, NULL, input, counts, TUTTI_INT32, NULL), "counts is NULL");
}

/* The memory that a call has made, and the counts that it was told. */
typedef struct {
  int32_t memory[3 * MOST];
  size_t counts[MOST];
  int ranks;
} made_blocks;

static void *make(void *context, const size_t *counts, int ranks) {
  made_blocks *made = context;
  made->ranks = ranks;
  for (int r = 0; r < ranks; ++r) made->counts[r] = counts[r];
  return made->memory;
}

static void *make_nothing(void *context, const size_t *counts, int ranks) {
  (void)counts, (void)ranks;
  return context;
}

static void check_blocks(const made_blocks *made, int size, int shift) {
  size_t at = 0;
  EXPECT(made->ranks == size);
  for (int r = 0; r < size; ++r) {
    EXPECT(made->counts[r] == (size_t)(r + shift) % 3);
    for (size_t i = 0; i < made->counts[r]; ++i) EXPECT(made->memory[at++] == r);
  }
}

static void learned(tutti_group *world, int rank, int size) {
  const int32_t own[3 * MOST] = {rank, rank, rank, rank, rank, rank, rank, rank, rank, rank, rank, rank,
                                 rank, rank, rank, rank, rank, rank, rank, rank, rank, rank, rank, rank};
  made_blocks made = {{0}, {0}, 0};
  tutti_work *work = NULL;
  OK(tutti_all_gather_v_make(world, own, (size_t)rank % 3, TUTTI_INT32, make, &made, &work));
  OK(tutti_wait(work, NULL));
  check_blocks(&made, size, 0);
  made.ranks = -1;
  OK(tutti_gather_v_make(world, own, (size_t)rank % 3, TUTTI_INT32, size - 1, rank == size - 1 ? make : NULL, &made,
                         NULL));
  if (rank == size - 1)
    check_blocks(&made, size, 0);
  else
    EXPECT(made.ranks == -1);
  size_t counts[MOST];
  for (int r = 0; r < size; ++r) counts[r] = (size_t)(rank + r) % 3;
  OK(tutti_all_to_all_v_make(world, own, counts, TUTTI_INT32, make, &made, NULL));
  check_blocks(&made, size, rank);
  REFUSED(tutti_all_gather_v_make(world, own, 1, TUTTI_INT32, NULL, NULL, NULL), "make is NULL");
  tutti_group *copy = copy_of(world);
  EXPECT(tutti_all_gather_v_make(copy, own, 1, TUTTI_INT32, make_nothing, NULL, NULL) != TUTTI_OK);
  EXPECT(tutti_health(copy) != TUTTI_OK && strstr(tutti_error_text(), "make gave no memory for") != NULL);
  tutti_free(copy);
}

static void several(tutti_group *world, int rank, int size) {
  float a[1] = {1}, b[2] = {2, (float)rank}, all_a[MOST], all_b[2 * MOST];
  void *own[2] = {a, b}, *all[2] = {all_a, all_b};
  const size_t counts[2] = {1, 2};
  OK(tutti_all_reduce_coalesced(world, own, counts, 2, TUTTI_FLOAT32, TUTTI_SUM, NULL));
  EXPECT(a[0] == (float)size && b[0] == 2.0F * (float)size && b[1] == (float)(size * (size - 1) / 2));
  a[0] = b[1] = (float)rank;
  OK(tutti_all_gather_coalesced(world, all, own, counts, 2, TUTTI_FLOAT32, NULL));
  for (int r = 0; r < size; ++r) EXPECT(all_a[r] == (float)r && all_b[2 * r + 1] == (float)r);
  OK(tutti_reduce_scatter_coalesced(world, own, all, counts, 2, TUTTI_FLOAT32, TUTTI_AVG, NULL));
  EXPECT(a[0] == (float)rank && b[1] == (float)rank);
  OK(tutti_broadcast_coalesced(world, own, counts, 2, TUTTI_FLOAT32, size - 1, NULL));
  EXPECT(a[0] == (float)(size - 1) && b[1] == (float)(size - 1));
  REFUSED(tutti_broadcast_coalesced(world, NULL, counts, 2, TUTTI_FLOAT32, 0, NULL), "buffers is NULL");
  REFUSED(tutti_broadcast_coalesced(world, own, counts, -1, TUTTI_FLOAT32, 0, NULL), "the number of buffers is -1");
}

void collectives(tutti_group *world, int rank, int size) {
  whole(world, rank, size);
  blocks(world, rank, size);
  apart(world, rank, size);
  exchange(world, rank, size);
  learned(world, rank, size);
  several(world, rank, size);
}

/* The product of 2 x 2 matrices, which is not commutative. `context` counts its calls. */
static int product(void *context, void *result, const void *next, size_t count, int dtype) {
  int64_t *a = result;
  const int64_t *b = next;
  ++*(int *)context;
  if (dtype != TUTTI_INT64 || count % 4 != 0) return 1;
  for (size_t i = 0; i < count; i += 4, a += 4, b += 4) {
    const int64_t c[4] = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2],
                          a[2] * b[1] + a[3] * b[3]};
    memcpy(a, c, sizeof c);
  }
  return 0;
}

static int fails(void *context, void *result, const void *next, size_t count, int dtype) {
  (void)context, (void)result, (void)next, (void)count, (void)dtype;
  return 7;
}

void ops(tutti_group *world, int rank, int size) {
  int calls = 0, matrices = -1, half = -1, bad = -1;
  OK(tutti_op_create("2x2", product, &calls, 4, &matrices));
  /* Of rank r: [[1, r], [0, 2]]; their product in the order of the ranks. */
  int64_t x[4] = {1, rank, 0, 2}, expected[4] = {1, 0, 0, 2}, all[4 * MOST];
  for (int r = 1; r < size; ++r) {
    const int64_t next[4] = {1, r, 0, 2};
    product(&calls, expected, next, 4, TUTTI_INT64);
  }
  calls = 0;
  OK(tutti_all_reduce(world, x, 4, TUTTI_INT64, matrices, NULL));
  EXPECT(memcmp(x, expected, sizeof x) == 0 && (calls > 0) == (size > 1));
  for (int r = 0; r < size; ++r) memcpy(all + 4 * r, (const int64_t[4]){1, rank, 0, 2}, 4 * sizeof *all);
  OK(tutti_reduce_scatter(world, x, all, 4, TUTTI_INT64, matrices, NULL));
  EXPECT(memcmp(x, expected, sizeof x) == 0);
  OK(tutti_scan_into(world, x, all, 4, TUTTI_INT64, matrices, 0, NULL));
  EXPECT(rank < size - 1 || memcmp(x, expected, sizeof x) == 0);
  OK(tutti_reduce_into(world, rank == 0 ? x : NULL, all, 4, TUTTI_INT64, matrices, 0, NULL));
  EXPECT(rank > 0 || memcmp(x, expected, sizeof x) == 0);
  REFUSED(tutti_all_reduce(world, x, 3, TUTTI_INT64, matrices, NULL), "");
  const size_t counts[MOST] = {4, 4, 4, 4, 4, 4, 4, 4};
  REFUSED(tutti_reduce_scatter_v(world, x, all, 4, counts, TUTTI_INT64, matrices, NULL), "('2x2')");

  double y = rank + 1;
  OK(tutti_op_premul_sum(0.5, &half));
  OK(tutti_all_reduce(world, &y, 1, TUTTI_FLOAT64, half, NULL));
  EXPECT(y == size * (size + 1) / 4.0);
  OK(tutti_op_free(half));
  REFUSED(tutti_op_free(half), "none that was made");
  REFUSED(tutti_all_reduce(world, &y, 1, TUTTI_FLOAT64, half, NULL), "none that was made");

  OK(tutti_op_create("fails", fails, NULL, 1, &bad));
  if (size > 1) TOLD(tutti_all_reduce(world, &y, 1, TUTTI_FLOAT64, bad, NULL), TUTTI_ABORTED, "'fails' returned 7");
  OK(tutti_health(world));
  OK(tutti_op_free(bad));
  OK(tutti_op_free(matrices));
  REFUSED(tutti_op_create("", product, NULL, 1, &bad), "name");
  REFUSED(tutti_op_create(NULL, product, NULL, 1, &bad), "name is NULL");
  REFUSED(tutti_op_create("x", NULL, NULL, 1, &bad), "function is NULL");
  REFUSED(tutti_op_create("x", product, NULL, 0, &bad), "block");
  REFUSED(tutti_op_premul_sum(1, NULL), "op is NULL");
}
