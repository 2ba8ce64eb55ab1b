#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "guardian.hpp"
#include "nodes.hpp"
#include "options.hpp"
#include "os/event_loop.hpp"
#include "os/fd.hpp"
#include "output.hpp"
#include "store/tcp_server.hpp"
#include "workers.hpp"

namespace tutti::launcher {

/// One run of the program on this node: serves the store (on node 0), starts the workers, watches
/// them, ends all at the first failure.
class Job {
 public:
  Job(Options options, Guardian& guardian) : options_(std::move(options)), guardian_(guardian) {}

  /// The exit code of tuttirun.
  int run();

 private:
  using Clock = std::chrono::steady_clock;

  Status prepare();
  Status prepare_secret();
  Status prepare_store();
  void prepare_nodes();
  Status watch_signals();
  Status start_workers(bool tag);
  void watch(Worker& worker);

  void read_stream(Stream& stream);
  void close_stream(Stream& stream);
  void pause_or_resume_streams();
  void note_end(Worker& worker);
  void note_signal();
  void note_verdict();

  /// Asks all workers to end; `signal` is SIGTERM or what we were sent.
  void stop(int signal);
  void kill_all();
  void send_to_groups(int signal);
  [[nodiscard]] bool all_ended() const;
  void loop();
  int finish();
  void say(const std::string& line);

  Options options_;
  Guardian& guardian_;
  JobAddress address_;
  std::vector<std::byte> secret_;
  os::Fd secret_fd_;
  std::unique_ptr<store::TcpServer> server_;
  std::unique_ptr<os::EventLoop> events_;
  std::unique_ptr<Output> output_;
  std::unique_ptr<Nodes> nodes_;
  os::Fd signals_;

  std::vector<std::unique_ptr<Worker>> workers_;
  Clock::time_point start_;
  const Worker* first_failed_ = nullptr;
  int interrupted_by_ = 0;
  bool reported_ = false;
  bool verdict_noted_ = false;
  std::optional<Nodes::Verdict> verdict_;
  bool stopping_ = false;
  std::optional<Clock::time_point> kill_at_;
};

}  // namespace tutti::launcher
