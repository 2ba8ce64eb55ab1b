/* Messages, and operations that were started. */
#include "ranks.h"

void messages(tutti_group *world, int rank, int size) {
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  int heard = -1, source = -1, tag = -1, dtype = -1;
  size_t count = 0;
  tutti_work *sent = NULL;
  OK(tutti_sendrecv(world, &heard, 1, before, 4, &rank, 1, next, 4, TUTTI_INT32, &source));
  EXPECT(heard == before && source == before);

  /* To both neighbours, in one batch. */
  int low = -1, high = -1;
  tutti_p2p_op batch[4] = {{0, TUTTI_INT32, NULL, 1, 0, 1}, {0, TUTTI_INT32, NULL, 1, 0, 2},
                           {1, TUTTI_INT32, NULL, 1, 0, 1}, {1, TUTTI_INT32, NULL, 1, 0, 2}};
  batch[0].buffer = &low, batch[0].peer = before;
  batch[1].buffer = &high, batch[1].peer = next;
  batch[2].buffer = &rank, batch[2].peer = next;
  batch[3].buffer = &rank, batch[3].peer = before;
  tutti_work *each[4] = {NULL, NULL, NULL, NULL};
  OK(tutti_batch_isend_irecv(world, batch, 4, each));
  OK(tutti_wait_all(each, 4));
  EXPECT(low == before && high == next && each[0] == NULL && each[3] == NULL);
  batch[3].peer = size;
  REFUSED(tutti_batch_isend_irecv(world, batch, 4, each), "");
  EXPECT(each[0] == NULL);
  REFUSED(tutti_batch_isend_irecv(world, NULL, 4, each), "ops is NULL");
  REFUSED(tutti_batch_isend_irecv(world, batch, 4, NULL), "works is NULL");
  REFUSED(tutti_batch_isend_irecv(world, batch, -4, each), "the number of works is -4");
  OK(tutti_batch_isend_irecv(world, NULL, 0, NULL));

  /* A message of unknown size, which is put back once. */
  const double data[3] = {rank, 1, 2};
  double got[3] = {-1, -1, -1};
  tutti_message *message = NULL;
  OK(tutti_send(world, data, 3, TUTTI_FLOAT64, next, 9, &sent));
  OK(tutti_probe(world, TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, &message));
  OK(tutti_message_info(message, &source, &tag, &dtype, &count));
  EXPECT(source == before && tag == 9 && dtype == TUTTI_FLOAT64 && count == 3);
  tutti_message_free(message);
  do OK(tutti_try_probe(world, before, 9, &message));
  while (message == NULL);
  REFUSED(tutti_message_recv(message, got, 2, TUTTI_FLOAT64, NULL), "");
  OK(tutti_message_recv(message, got, 3, TUTTI_FLOAT64, NULL));
  EXPECT(got[0] == before && got[2] == 2);
  REFUSED(tutti_message_recv(message, got, 3, TUTTI_FLOAT64, NULL), "");
  OK(tutti_message_info(message, NULL, NULL, NULL, NULL));
  tutti_message_free(message);
  tutti_message_free(NULL);
  OK(tutti_wait(sent, NULL));
  OK(tutti_barrier(world, NULL));
  OK(tutti_try_probe(world, TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, &message));
  EXPECT(message == NULL);
}

static void started(tutti_group *world, int rank, int size) {
  float x = 1;
  int done = 0, source = 0, tag = 0;
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
  OK(tutti_wait_for(work, HUGE_VAL, &done));
  OK(tutti_received(work, &source, &tag));
  EXPECT(done == 1 && source == (rank + 1) % size && tag == 3);
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
  x = 1;
  OK(tutti_all_reduce(world, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, &work));
  OK(tutti_synchronize(work));
  EXPECT(x == (float)size);
}

/* The calls of a callback. */
typedef struct {
  int calls;
  int result;
  char text[256];
} told;

static void tell(void *context, int result) {
  told *its = context;
  its->result = result;
  strncpy(its->text, result == TUTTI_OK ? "" : tutti_error_text(), sizeof its->text - 1);
  __sync_add_and_fetch(&its->calls, 1);
}

static void wait_for_call(told *its) {
  while (__sync_add_and_fetch(&its->calls, 0) == 0) continue;
}

/* Receives nobody sends to: looked at, cancelled, and at the end failed by their timeout. */
static void not_done(tutti_group *world, int rank, int size) {
  static told cancelled, failed, detached;
  tutti_group *copy = copy_of(world), *quick = hurried(copy, 0.3);
  tutti_work *work = NULL;
  int x = -1, done = 1, taken = 0;
  const int peer = (rank + 1) % size;
  OK(tutti_recv(copy, &x, 1, TUTTI_INT32, peer, 1, NULL, &work));
  OK(tutti_wait_for(work, 0, &done));
  EXPECT(done == 0);
  OK(tutti_wait_for(work, 0.01, &done));
  EXPECT(done == 0);
  REFUSED(tutti_wait_for(work, -1, &done), "limit");
  REFUSED(tutti_wait_for(work, NAN, &done), "limit");
  OK(tutti_work_error(work));
  OK(tutti_on_done(work, tell, &cancelled));
  OK(tutti_cancel(work, &taken));
  EXPECT(taken == 1);
  OK(tutti_wait(work, NULL));
  wait_for_call(&cancelled);
  EXPECT(cancelled.result == TUTTI_ABORTED);

  OK(tutti_barrier(world, NULL)); /* the next ones break the copy */
  OK(tutti_recv(quick, &x, 1, TUTTI_INT32, peer, 1, NULL, &work));
  OK(tutti_on_done(work, tell, &failed));
  wait_for_call(&failed);
  EXPECT(failed.result == TUTTI_TIMEOUT && strlen(failed.text) > 0);
  EXPECT(tutti_work_error(work) == TUTTI_TIMEOUT && tutti_error_rank() >= 0);
  EXPECT(tutti_wait(work, NULL) == TUTTI_TIMEOUT);
  EXPECT(tutti_health(copy) == TUTTI_TIMEOUT);
  OK(tutti_barrier(world, NULL));
  tutti_free(quick);
  tutti_free(copy);

  x = 1;
  OK(tutti_all_reduce(world, &x, 1, TUTTI_INT32, TUTTI_SUM, &work));
  OK(tutti_on_done(work, tell, &detached));
  tutti_detach(work);
  tutti_detach(NULL);
  wait_for_call(&detached);
  EXPECT(detached.result == TUTTI_OK && x == size);
  REFUSED(tutti_on_done(NULL, tell, NULL), "the work is NULL");
  REFUSED(tutti_cancel(NULL, &taken), "the work is NULL");
  REFUSED(tutti_received(NULL, &taken, NULL), "the work is NULL");
  OK(tutti_work_error(NULL));
}

/* The first of several, and all of them. */
static void any_of(tutti_group *world, int rank, int size) {
  int heard[3] = {-1, -1, -1}, place = 5, places[3], done = -1, seen = 0;
  tutti_work *works[4] = {NULL, NULL, NULL, NULL}, *sent = NULL;
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  for (int i = 0; i < 3; ++i) OK(tutti_recv(world, &heard[i], 1, TUTTI_INT32, before, i, NULL, &works[i]));
  OK(tutti_barrier(world, NULL));
  OK(tutti_wait_any(works, 4, 0, &place));
  EXPECT(place == -1);
  OK(tutti_wait_some(works, 4, 0, places, &done));
  EXPECT(done == 0);
  OK(tutti_barrier(world, NULL));
  OK(tutti_send(world, &rank, 1, TUTTI_INT32, next, 1, &sent));
  OK(tutti_wait_any(works, 4, HUGE_VAL, &place));
  EXPECT(place == 1 && heard[1] == before);
  OK(tutti_wait_any(works, 4, 0, &place)); /* it is skipped now */
  EXPECT(place == -1);
  OK(tutti_wait(works[1], NULL));
  works[1] = NULL;
  OK(tutti_wait(sent, NULL));
  OK(tutti_barrier(world, NULL));
  for (int i = 0; i < 3; i += 2) OK(tutti_send(world, &rank, 1, TUTTI_INT32, next, i, NULL));
  while (seen < 2) {
    OK(tutti_wait_some(works, 4, HUGE_VAL, places, &done));
    EXPECT(done > 0 && (places[0] == 0 || places[0] == 2));
    seen += done;
  }
  EXPECT(heard[0] == before && heard[2] == before);
  OK(tutti_wait_all(works, 4));
  EXPECT(works[0] == NULL && works[2] == NULL);
  OK(tutti_wait_any(works, 4, HUGE_VAL, &place)); /* none is left */
  EXPECT(place == -1);
  OK(tutti_barrier(world, &works[0]));
  works[1] = works[0];
  OK(tutti_wait_all(works, 2));
  OK(tutti_wait_all(NULL, 0));
  REFUSED(tutti_wait_all(NULL, 1), "works is NULL");
  REFUSED(tutti_wait_any(works, -1, 0, &place), "the number of works is -1");
  REFUSED(tutti_wait_some(works, 4, 0, NULL, &done), "places is NULL");
}

/* Of a group that this rank has aborted, of the world, and of a group whose timeout has passed. */
static void start_three(tutti_group *aborted, tutti_group *world, tutti_group *late, tutti_work **works) {
  static int x[3];
  int done = 0;
  OK(tutti_recv(aborted, &x[0], 1, TUTTI_INT32, 0, 1, NULL, &works[0]));
  OK(tutti_all_reduce(world, &x[1], 1, TUTTI_INT32, TUTTI_MAX, &works[1]));
  OK(tutti_recv(late, &x[2], 1, TUTTI_INT32, 0, 1, NULL, &works[2]));
  while (done == 0) OK(tutti_test(works[1], &done)); /* does not tell its end */
}

/* Operations that fail, among others. */
static void failed_ones(tutti_group *world, int size) {
  int x = 0, place = 5, places[4], done = -1;
  tutti_group *aborted = copy_of(world), *copy = copy_of(world), *late = hurried(copy, 0.2);
  tutti_work *works[4] = {NULL, NULL, NULL, NULL};
  OK(tutti_barrier(world, NULL)); /* all ranks have both groups */
  OK(tutti_recv(world, &x, 1, TUTTI_INT32, TUTTI_ANY_SOURCE, 77, NULL, &works[0]));
  OK(tutti_recv(late, &x, 1, TUTTI_INT32, size - 1, 1, NULL, &works[2]));
  EXPECT(tutti_wait_any(works, 4, HUGE_VAL, &place) == TUTTI_TIMEOUT && place == 2);
  EXPECT(tutti_work_error(works[2]) == TUTTI_TIMEOUT);
  OK(tutti_wait_any(works, 4, 0, &place)); /* skips it */
  EXPECT(place == -1);
  EXPECT(tutti_wait(works[2], NULL) == TUTTI_TIMEOUT);
  OK(tutti_cancel(works[0], &done));
  EXPECT(done == 1);
  OK(tutti_wait(works[0], NULL));

  OK(tutti_abort(aborted, "failed_ones"));
  start_three(aborted, world, late, works);
  const int expected[3] = {TUTTI_ABORTED, TUTTI_OK, TUTTI_TIMEOUT};
  for (int i = 0; i < 3; ++i)
    EXPECT(tutti_wait_any(works, 3, HUGE_VAL, &place) == expected[i] && place == i);
  OK(tutti_wait_any(works, 3, HUGE_VAL, &place));
  EXPECT(place == -1);
  EXPECT(tutti_wait_all(works, 3) == TUTTI_ABORTED && works[0] == NULL && works[2] == NULL);

  start_three(aborted, world, late, works);
  TOLD(tutti_wait_some(works, 4, HUGE_VAL, places, &done), TUTTI_ABORTED, "failed_ones");
  EXPECT(done == 3 && places[0] == 0 && places[1] == 1 && places[2] == 2);
  for (int i = 0; i < 3; ++i) EXPECT(tutti_work_error(works[i]) == expected[i]);
  OK(tutti_wait_some(works, 4, HUGE_VAL, places, &done));
  EXPECT(done == 0);
  for (int i = 0; i < 3; ++i) EXPECT(tutti_wait(works[i], NULL) == expected[i]);

  start_three(late, world, aborted, works);
  EXPECT(tutti_wait_all(works, 3) == TUTTI_TIMEOUT);
  OK(tutti_barrier(world, NULL));
  tutti_free(late);
  tutti_free(copy);
  tutti_free(aborted);
}

void works(tutti_group *world, int rank, int size) {
  started(world, rank, size);
  not_done(world, rank, size);
  any_of(world, rank, size);
  failed_ones(world, size);
}
