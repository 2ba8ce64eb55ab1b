/* Every function of <tutti/c.h>, on any number of ranks: mistakes, broken groups, and main. */
#include "ranks.h"

void fail(const char *file, int line, const char *what, const char *text) {
  fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, text);
  exit(1);
}

tutti_group *copy_of(tutti_group *world) {
  int ranks[MOST];
  for (int r = 0; r < MOST; ++r) ranks[r] = r;
  tutti_group *copy = NULL;
  OK(tutti_new_group(world, ranks, tutti_size(world), &copy));
  return copy;
}

tutti_group *hurried(tutti_group *group, double timeout) {
  tutti_group *handle = NULL;
  tutti_options its = {sizeof its, 0, 0, 0, NULL, NULL};
  its.timeout = timeout;
  OK(tutti_with(group, &its, &handle));
  return handle;
}

static void mistakes(tutti_group *world, int size) {
  float x = 0;
  tutti_work *work = (tutti_work *)&x;
  tutti_group *group = NULL;
  REFUSED(tutti_all_reduce(NULL, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL), "the group is NULL");
  REFUSED(tutti_all_reduce(world, NULL, 1, TUTTI_FLOAT32, TUTTI_SUM, &work), "the buffer is NULL");
  EXPECT(work == NULL);
  REFUSED(tutti_all_reduce(world, &x, 1, 17, TUTTI_SUM, NULL), "dtype 17");
  REFUSED(tutti_all_reduce(world, &x, 1, -1, TUTTI_SUM, NULL), "dtype -1");
  REFUSED(tutti_all_reduce(world, &x, 1, TUTTI_FLOAT32, 8, NULL), "op 8");
  REFUSED(tutti_all_reduce(world, &x, SIZE_MAX, TUTTI_FLOAT32, TUTTI_SUM, NULL), "larger than memory");
  REFUSED(tutti_broadcast(world, &x, 1, TUTTI_FLOAT32, size, NULL), "root");
  REFUSED(tutti_send(world, &x, 1, TUTTI_FLOAT32, 0, -1, NULL), "tag");
  REFUSED(tutti_set_timeout(world, 0), "timeout");
  REFUSED(tutti_set_timeout(world, -1), "timeout");
  REFUSED(tutti_set_timeout(world, 1e300), "timeout");
  REFUSED(tutti_set_timeout(world, NAN), "timeout");
  REFUSED(tutti_new_group(world, NULL, 1, &group), "ranks is NULL");
  REFUSED(tutti_new_group(world, &size, -1, &group), "the number of ranks is -1");
  REFUSED(tutti_new_group(world, NULL, 0, NULL), "group is NULL");
  REFUSED(tutti_test(NULL, NULL), "done is NULL");
  REFUSED(tutti_init(NULL, -1, -1, 0, NULL), "world is NULL");
  REFUSED(tutti_init("nothing://x", -1, -1, 0, &group), "nothing://x");
  EXPECT(group == NULL);
}

/* Ranks call different things, do not come, or abort: all are told, and the group is broken. Copies of the world, which
 * stays whole. */
static void broken_groups(tutti_group *world, int rank, int size) {
  tutti_group *copy = copy_of(world);
  float x[2] = {1, 1};
  OK(tutti_set_timeout(copy, HUGE_VAL)); /* no limit */
  OK(tutti_barrier(copy, NULL));
  OK(tutti_barrier(world, NULL)); /* nobody breaks the copy while another rank is in its barrier */
  OK(tutti_set_timeout(copy, 20));
  if (size > 1) {
    EXPECT(tutti_all_reduce(copy, x, rank == 0 ? 1 : 2, TUTTI_FLOAT32, TUTTI_SUM, NULL) == TUTTI_DISAGREEMENT);
    EXPECT(strlen(tutti_error_text()) > 0 && x[0] == 1);
    EXPECT(tutti_barrier(copy, NULL) == TUTTI_DISAGREEMENT);
  }
  tutti_free(copy);
  copy = copy_of(world);
  if (size > 1 && rank == 0) { /* nobody sends */
    OK(tutti_set_timeout(copy, 0.2));
    EXPECT(tutti_recv(copy, x, 1, TUTTI_FLOAT32, 1, 0, NULL, NULL) == TUTTI_TIMEOUT);
    EXPECT(tutti_error_rank() == 1);
  }
  OK(tutti_barrier(world, NULL));
  tutti_free(copy);
  copy = copy_of(world);
  OK(tutti_barrier(world, NULL)); /* nobody is in a call of the copy */
  if (rank == 0) OK(tutti_abort(copy, "rank 0 has had enough"));
  TOLD(tutti_barrier(copy, NULL), TUTTI_ABORTED, "rank 0 has had enough");
  TOLD(tutti_health(copy), TUTTI_ABORTED, "rank 0 has had enough");
  tutti_free(copy);
}

int main(void) {
  tutti_group *world = NULL;
  EXPECT(strchr(tutti_version(), '.') != NULL && strcmp(tutti_error_text(), "") == 0 && tutti_error_rank() == -1);
  OK(tutti_init("env://", -1, -1, 60, &world));
  const int rank = tutti_rank(world), size = tutti_size(world);
  EXPECT(size <= MOST);
  EXPECT(tutti_is_initialized() == 1);
  options(world, rank, size);
  collectives(world, rank, size);
  ops(world, rank, size);
  messages(world, rank, size);
  works(world, rank, size);
  groups(world, rank, size);
  gpus(world, rank, size);
  stores(world, rank, size);
  another_world(world, rank, size);
  mistakes(world, size);
  broken_groups(world, rank, size);
  OK(tutti_barrier(world, NULL));
  if (rank == 0) puts("11 passed"); /* for tools/planted_faults.py */
  tutti_free(world);
  EXPECT(tutti_is_initialized() == 0);
  return 0;
}
