#pragma once

#include <sys/resource.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tutti/error.hpp>

#include "logs.hpp"
#include "node_rendezvous.hpp"
#include "nodes.hpp"
#include "options.hpp"
#include "os/event_loop.hpp"
#include "os/fd.hpp"
#include "output.hpp"
#include "reaper.hpp"
#include "workers.hpp"

namespace tutti::launcher {

/// One run of the program on this node: starts the workers, watches them, ends all at the first
/// failure, and starts them again if that is asked for.
class Job {
 public:
  Job(Options options, Reaper& reaper)
      : options_(std::move(options)), reaper_(reaper), rendezvous_(options_) {}

  /// The exit code of tuttirun.
  int run();

 private:
  using Clock = std::chrono::steady_clock;

  Status prepare();
  Status meet_nodes();
  /// At a restart. Ends without an error, and stopping, where another node has ended the job.
  Status meet_nodes_again();
  /// A node has ended the job after a failure that would have been followed by a restart.
  void give_up_restart(Nodes::Verdict verdict);
  int code_of_first_failure();
  void tell_interrupt();
  /// Tells the other nodes, if they are about to start again, that this one is not.
  void take_leave();
  Status watch_signals();
  Status start_workers();
  [[nodiscard]] bool restarts_left() const;
  [[nodiscard]] bool should_restart() const;
  /// Forgets the workers, which have all ended, and opens a new rendezvous for the next ones.
  Status restart();
  void watch(Worker& worker);

  void read_stream(Stream& stream);
  void take(Stream& stream, std::string_view bytes);
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
  /// Ends what workers have left behind and takes what they have written.
  void drain();
  int finish();
  void say(const std::string& line);

  Options options_;
  Reaper& reaper_;
  NodeRendezvous rendezvous_;
  std::optional<Logs> logs_;
  std::unique_ptr<os::EventLoop> events_;
  std::unique_ptr<Output> output_;
  std::unique_ptr<Nodes> nodes_;
  os::Fd signals_;
  rlimit descriptors_{};  ///< as we were started: the workers' own limits

  int restart_ = 0;
  bool tag_ = false;
  std::vector<std::unique_ptr<Worker>> workers_;
  Clock::time_point start_;
  const Worker* first_failed_ = nullptr;   ///< of this node
  std::optional<Nodes::Verdict> earlier_;  ///< of another node, before it
  int interrupted_by_ = 0;
  bool reported_ = false;
  bool verdict_noted_ = false;
  std::optional<Nodes::Verdict> verdict_;
  bool stopping_ = false;
  std::optional<Clock::time_point> kill_at_;
};

}  // namespace tutti::launcher
