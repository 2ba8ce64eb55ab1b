#include "report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "os/host.hpp"
#include "rank_errors.hpp"

namespace tutti::launcher {
namespace {

constexpr std::size_t kRowsShown = 32;

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

std::string describe(const os::ExitStatus& end) {
  if (end.signal != 0) return signal_name(end.signal);
  return fmt::format("exit code {}", end.code);
}

namespace {

/// The error that the worker has ended with; empty: it has told none.
std::string told_by(const Worker& worker) {
  if (worker.end->success()) return {};
  if (worker.out_of_memory)
    return "the kernel has killed a process of this cgroup because its memory is used up (oom_kill "
           "in memory.events): allow the job more memory, or let it use less";
  const ErrorText& told = worker.error;
  const std::string last_line = "its last line on stderr: " + told.last_line();
  if (told.error().empty()) {
    // Of a worker that was killed its last line tells nothing.
    const bool killed = worker.end->signal != 0 || worker.was_asked;
    return killed || told.last_line().empty() ? "" : last_line;
  }
  if (told.is_crash() || worker.was_asked) return told.error();
  // An exception of Python ends no process by a signal, but by exit code 1: others have handled it.
  if (worker.end->signal != 0) return "last error, earlier: " + told.error();
  if (!told.followed()) return told.error();
  return worker.end->code == 1 ? told.error() + "; " + last_line
                               : last_line + "; last error, earlier: " + told.error();
}

std::vector<std::string> errors_of(const std::vector<std::unique_ptr<Worker>>& workers) {
  std::vector<RankError> errors;
  std::vector<const Worker*> asked;
  std::vector<int> lost;
  for (const auto& worker : workers) {
    if (!worker->end) continue;
    const std::string told = told_by(*worker);
    if (told.empty()) continue;
    if (worker->was_asked && worker->end->signal != 0) {
      asked.push_back(worker.get());
      continue;
    }
    if (const auto rank = lost_rank_of(told)) lost.push_back(*rank);
    errors.push_back({worker->rank, told});
  }
  // Others hear of a rank's end before its process has ended; then tuttirun may be what ends that.
  // Of others that were ended the error may be an old one, from which they had gone on.
  for (const Worker* worker : asked)
    if (std::ranges::count(lost, worker->rank) > 0)
      errors.push_back({worker->rank, told_by(*worker)});
  return summary_of(errors);
}

}  // namespace

std::string describe_failure(const Worker& worker) {
  const std::string told = told_by(worker);
  return describe(*worker.end) + (told.empty() ? "" : ": " + told);
}

std::string failure_table(const std::vector<std::unique_ptr<Worker>>& workers, const Worker& first,
                          std::chrono::steady_clock::time_point start) {
  std::string text;
  for (const std::string& line : errors_of(workers)) text += fmt::format("tuttirun: {}\n", line);
  text += fmt::format("tuttirun: rank {} failed first: {} after {:.3f} s (process {} on {})\n",
                      first.rank, describe(*first.end), seconds(first.end_time - start),
                      first.process.pid(), os::host_name());
  for (const Stream* stream : {&first.err, &first.out}) {
    if (stream->log_path.empty()) continue;
    text += fmt::format("tuttirun: its {} is in {}\n",
                        stream->to == STDERR_FILENO ? "stderr" : "stdout", stream->log_path);
  }
  text += fmt::format("tuttirun: {:>6}  {:>9}  {:>10}  end\n", "rank", "process", "after");
  std::vector<const Worker*> order;
  for (const auto& worker : workers)
    if (worker->end) order.push_back(worker.get());
  std::ranges::stable_sort(order, {}, [](const Worker* worker) { return worker->end_time; });
  std::size_t rows = 0;
  for (const Worker* worker : order) {
    if (++rows > kRowsShown) break;
    std::string_view note = "";
    if (worker == &first)
      note = "  <- first";
    else if (worker->was_asked && worker->end->signal != 0)
      note = "  (ended by tuttirun)";
    text += fmt::format("tuttirun: {:>6}  {:>9}  {:>8.3f} s  {}{}\n", worker->rank,
                        worker->process.pid(), seconds(worker->end_time - start),
                        describe(*worker->end), note);
  }
  if (order.size() > kRowsShown)
    text += fmt::format("tuttirun: ... and {} more\n", order.size() - kRowsShown);
  return text;
}

}  // namespace tutti::launcher
