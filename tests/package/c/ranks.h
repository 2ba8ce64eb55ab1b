/* Declarations for all parts of tests_c_ranks. */
#ifndef TUTTI_TESTS_C_RANKS_H
#define TUTTI_TESTS_C_RANKS_H

#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tutti/c.h>

#define OK(call)                                                                 \
  do {                                                                           \
    const int result = (call);                                                   \
    if (result != TUTTI_OK) fail(__FILE__, __LINE__, #call, tutti_error_text()); \
  } while (0)
#define EXPECT(condition)                                       \
  do {                                                          \
    if (!(condition)) fail(__FILE__, __LINE__, #condition, ""); \
  } while (0)
/* The call is refused, with this part of a text. */
#define REFUSED(call, part) TOLD(call, TUTTI_INVALID_ARGUMENT, part)
#define TOLD(call, code, part)                                                                              \
  do {                                                                                                      \
    const int result = (call);                                                                              \
    if (result != (code) || (result != TUTTI_OK && strstr(tutti_error_text(), part) == NULL))               \
      fail(__FILE__, __LINE__, #call " gives no " #code " with \"" part "\"", tutti_error_text());          \
  } while (0)

enum { MOST = 8 };

void fail(const char *file, int line, const char *what, const char *text);
/* A group of the same ranks, whose end leaves the world whole. */
tutti_group *copy_of(tutti_group *world);
/* A handle of the group with this timeout. */
tutti_group *hurried(tutti_group *group, double timeout);

void collectives(tutti_group *world, int rank, int size);
void ops(tutti_group *world, int rank, int size);
void messages(tutti_group *world, int rank, int size);
void works(tutti_group *world, int rank, int size);
void groups(tutti_group *world, int rank, int size);
void options(tutti_group *world, int rank, int size);
void gpus(tutti_group *world, int rank, int size);
void stores(tutti_group *world, int rank, int size);
void another_world(tutti_group *world, int rank, int size);

#endif
