#include "report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "os/host.hpp"

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

std::string failure_table(const std::vector<std::unique_ptr<Worker>>& workers, const Worker& first,
                          std::chrono::steady_clock::time_point start) {
  std::string text = fmt::format(
      "tuttirun: rank {} failed first: {} after {:.3f} s (process {} on {})\n", first.rank,
      describe(*first.end), seconds(first.end_time - start), first.process.pid(), os::host_name());
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
