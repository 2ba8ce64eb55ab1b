#include "report.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <string_view>

#include "base/format.hpp"
#include "base/shown.hpp"
#include "os/host.hpp"
#include "rank_errors.hpp"

namespace tutti::launcher {
namespace {

constexpr std::size_t kRowsShown = 32;
constexpr std::string_view kMark = "  <- first";
/// Before an error that the program has handled.
constexpr std::string_view kEarlier = "last error, earlier: ";

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

std::string describe(const os::ExitStatus& end) {
  if (end.signal != 0) return os::signal_name(end.signal);
  return base::format("exit code {}", end.code);
}

namespace {

/// The error that the worker has ended with; empty: it has told none.
std::string told_by(const Worker& worker) {
  if (worker.end->success()) return {};
  if (!worker.out_of_memory.empty()) return worker.out_of_memory;
  const ErrorText& told = worker.error;
  const std::string last_line = "its last line on stderr: " + told.last_line();
  if (told.error().empty()) {
    // Of a worker that was killed its last line tells nothing.
    const bool killed = worker.end->signal != 0 || worker.was_asked;
    return killed || told.last_line().empty() ? "" : last_line;
  }
  if (told.is_crash() || worker.was_asked) return told.error();
  // An exception of Python ends no process by a signal, but by exit code 1: others have handled it.
  if (worker.end->signal != 0) return std::string(kEarlier) + told.error();
  if (!told.followed()) return told.error();
  return worker.end->code == 1 ? told.error() + "; " + last_line
                               : last_line + "; " + std::string(kEarlier) + told.error();
}

std::vector<std::string> errors_of(const Workers& workers) {
  std::vector<RankError> errors;
  std::vector<const Worker*> asked;
  std::vector<int> lost;
  for (const auto& worker : workers) {
    if (!worker->end) continue;
    const std::string told = told_by(*worker);
    if (told.empty()) continue;
    if (worker->was_asked && worker->end->signal != 0 && worker->out_of_memory.empty()) {
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

/// The rank that is the cause of the first failure: the one that its error blames, and so on.
int cause_of(const Workers& workers, const Worker& first) {
  const Worker* at = &first;
  for (std::size_t step = 0; step < workers.size(); ++step) {
    const std::string told = told_by(*at);
    const bool handled = told.find(kEarlier) != std::string::npos;
    const std::optional<int> blamed = handled ? std::nullopt : culprit_of(told);
    if (!blamed || *blamed == at->rank) return at->rank;
    const auto next =
        std::ranges::find(workers, *blamed, [](const auto& one) { return one->rank; });
    if (next == workers.end() || !(*next)->end) return *blamed;
    // Its error may be an old one, from which it had gone on.
    if ((*next)->was_asked && (*next)->end->signal != 0) return *blamed;
    at = next->get();
  }
  return first.rank;  // they blame each other
}

std::string_view note_on(const Worker& worker) {
  if (worker.end->signal == SIGKILL) return worker.was_killed ? "  (killed by tuttirun)" : "";
  return worker.was_asked && worker.end->signal != 0 ? "  (ended by tuttirun)" : "";
}

/// The row of a cause that is not among the workers: it is on another node. Empty: it is a rank of
/// no node.
std::string row_elsewhere(const Workers& workers, int cause, int nnodes) {
  const int node = cause / static_cast<int>(workers.size());
  const bool is_here =
      std::ranges::find(workers, cause, [](const auto& one) { return one->rank; }) != workers.end();
  if (is_here || node >= nnodes) return {};
  std::string host;
  for (const auto& worker : workers)
    if (worker->end && host.empty()) host = host_of(told_by(*worker), cause);
  return base::format("tuttirun: {:>6}  on node {}{}: see the output there{}\n", cause, node,
                      host.empty() ? "" : base::format(" ({})", host), kMark);
}

}  // namespace

std::string describe_failure(const Worker& worker) {
  const std::string told = told_by(worker);
  // With what stands before it, less than other nodes show.
  constexpr std::size_t kMostShown = 850;
  return base::shown_words(describe(*worker.end) + (told.empty() ? "" : ": " + told), kMostShown);
}

std::string failure_table(const Workers& workers, const Worker& first,
                          std::chrono::steady_clock::time_point start, int nnodes) {
  std::string text;
  for (const std::string& line : errors_of(workers)) text += base::format("tuttirun: {}\n", line);
  const int cause = cause_of(workers, first);
  text += base::format("tuttirun: rank {} failed first: {} after {:.3f} s (process {} on {})",
                       first.rank, describe(*first.end), seconds(first.end_time - start),
                       first.process.pid(), os::host_name());
  if (cause != first.rank) text += base::format(", because of rank {}", cause);
  text += '\n';
  for (const Stream* stream : {&first.err, &first.out}) {
    if (stream->log_path.empty()) continue;
    text += base::format("tuttirun: its {} is in {}\n",
                         stream->to == STDERR_FILENO ? "stderr" : "stdout", stream->log_path);
  }
  text += base::format("tuttirun: {:>6}  {:>9}  {:>10}  end\n", "rank", "process", "after");
  std::vector<const Worker*> order;
  for (const auto& worker : workers)
    if (worker->end) order.push_back(worker.get());
  std::ranges::stable_sort(order, {}, [](const Worker* worker) { return worker->end_time; });
  std::size_t rows = 0;
  for (const Worker* worker : order) {
    const bool is_cause = worker->rank == cause;
    if (rows >= kRowsShown && !is_cause) continue;
    ++rows;
    text += base::format("tuttirun: {:>6}  {:>9}  {:>8.3f} s  {}{}{}\n", worker->rank,
                         worker->process.pid(), seconds(worker->end_time - start),
                         describe(*worker->end), note_on(*worker), is_cause ? kMark : "");
  }
  text += row_elsewhere(workers, cause, nnodes);
  if (order.size() > rows) text += base::format("tuttirun: ... and {} more\n", order.size() - rows);
  return text;
}

}  // namespace tutti::launcher
