/* The library from C: a sum, a ring of messages, an operation in the background, and an error that is told.
 *
 *   tuttirun --nproc-per-node 4 build/release/bin/16_from_c
 */
#include <stdio.h>
#include <stdlib.h>

#include <tutti/c.h>

/* Ends the program if a call has failed. */
static void check(int result, const char *what) {
  if (result == TUTTI_OK) return;
  fprintf(stderr, "%s: %s\n", what, tutti_error_text());
  exit(1);
}

/* Ends it if something is not as it must be. */
static void expect(int condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "wrong: %s\n", what);
  exit(1);
}

int main(void) {
  tutti_group *world = NULL;
  check(tutti_init(NULL, -1, -1, 60, &world), "init");
  const int rank = tutti_rank(world);
  const int size = tutti_size(world);

  double values[2] = {rank + 1.0, 1.0};
  check(tutti_all_reduce(world, values, 2, TUTTI_FLOAT64, TUTTI_SUM, NULL), "all_reduce");
  expect(values[0] == size * (size + 1) / 2.0 && values[1] == size, "the sum");

  /* Everybody sends to the next rank; a send of any size may wait for its recv, so it only starts. */
  int heard = -1, source = -1;
  tutti_work *sent = NULL;
  check(tutti_send(world, &rank, 1, TUTTI_INT32, (rank + 1) % size, 7, &sent), "send");
  check(tutti_recv(world, &heard, 1, TUTTI_INT32, TUTTI_ANY_SOURCE, 7, &source, NULL), "recv");
  check(tutti_wait(sent, NULL), "send");
  expect(heard == source && source == (rank + size - 1) % size, "the message");

  /* In the background. */
  float step = rank == 0 ? 0.5F : 0.0F;
  tutti_work *work = NULL;
  check(tutti_broadcast(world, &step, 1, TUTTI_FLOAT32, 0, &work), "broadcast");
  /* ... compute something else ... */
  check(tutti_wait(work, NULL), "broadcast");
  expect(step == 0.5F, "the step");

  /* A mistake is told at the call, and the group stays usable. */
  expect(tutti_broadcast(world, &step, 1, TUTTI_FLOAT32, size, NULL) == TUTTI_INVALID_ARGUMENT, "no such root");
  if (rank == 0) printf("%d ranks; an error reads: %s\n", size, tutti_error_text());
  check(tutti_barrier(world, NULL), "barrier");
  tutti_free(world);
  return 0;
}
