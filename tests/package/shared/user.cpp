// A user's shared library on tutti. The test loads it beside others that have a tutti, too.

#include <atomic>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <tutti/tutti.hpp>

namespace {

std::atomic<int> lines{0};

}  // namespace

extern "C" {

int user_is_initialized() { return tutti::is_initialized() ? 1 : 0; }

/// The names of all backends, with a blank behind each.
const char* user_backends() {
  static std::string names;
  names.clear();
  for (const std::string& name : tutti::available_backends()) names += name + ' ';
  return names.c_str();
}

/// The sum that the ranks of one process compute: 1 + 2 + ... + ranks; negative: an error came out.
double user_sum_of_threads(int ranks) {
  try {
    std::atomic<double> sum{-1};
    tutti::run_threads(ranks, [&sum](tutti::ProcessGroup& group) {
      std::vector<double> values(1000, group.rank() + 1.0);
      group.all_reduce(values).wait();
      sum = values.back();
    });
    return sum;
  } catch (const tutti::Error&) {
    return -2;
  }
}

/// Counts the log's lines from now on.
void user_count_lines() {
  tutti::set_log_sink([](tutti::LogLevel, std::string_view) { ++lines; }, tutti::LogLevel::info);
}
int user_lines() { return lines; }

/// An error of tutti's, caught by its class where another library threw it: 1.
int user_catches(void (*throws)()) {
  try {
    throws();
  } catch (const tutti::InvalidArgument&) {
    return 1;
  } catch (...) {
    return 2;
  }
  return 0;
}
void user_throws() {
  throw tutti::InvalidArgument(tutti::Outcome(tutti::Errc::invalid_argument, "bad"));
}

/// The first bytes of the job's secret.
unsigned long user_secret() {
  const std::vector<std::byte> secret = tutti::job_secret();
  unsigned long first = 0;
  if (secret.size() >= sizeof first) std::memcpy(&first, secret.data(), sizeof first);
  return first;
}

}  // extern "C"
