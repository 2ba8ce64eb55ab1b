#pragma once

#include <time.h>

#include <cstdio>
#include <string>

#include <tutti/error.hpp>

// What workers tell their test, in lines "<word> <CLOCK_MONOTONIC ns> ..." on standard output; the
// clock is shared by all processes of a machine. See Worker in job.hpp.
namespace tutti::fault {

inline long long clock_ns(clockid_t clock = CLOCK_MONOTONIC) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<long long>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

template <class... T>
void say(const char* word, const char* format, T... values) {
  std::printf("%s %lld ", word, clock_ns());
  std::printf(format, values...);
  std::printf("\n");
  std::fflush(stdout);
}
inline void say(const char* word) { say(word, "%s", ""); }

/// When the call began that the worker is in, for what it tells of its error.
inline long long& call_began() {
  static long long time = 0;
  return time;
}
inline void begin_call() { call_began() = clock_ns(); }

/// "began <ns>", if known, and "error <ns> <code> <culprit> <text>"; the worker's exit code.
inline int tell(const Error& error) {
  if (call_began() != 0) std::printf("began %lld\n", call_began());
  say("error", "%s %d %s", std::string(to_string(error.code())).c_str(),
      error.culprit().value_or(-1), error.what());
  return 3;
}

}  // namespace tutti::fault
