#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <tutti/error.hpp>

#include "job_terminal.hpp"
#include "logs.hpp"
#include "memory_kills.hpp"
#include "node_rendezvous.hpp"
#include "nodes.hpp"
#include "options.hpp"
#include "os/event_loop.hpp"
#include "os/fd.hpp"
#include "reaper.hpp"
#include "records.hpp"
#include "verdict.hpp"
#include "worker_output.hpp"
#include "worker_signals.hpp"
#include "workers.hpp"

namespace tutti::launcher {

/// One run of the program on this node: starts the workers, watches them, ends all at the first
/// failure, and starts them again if that is asked for, all in step with the other nodes.
class Job {
 public:
  Job(Options options, Reaper& reaper, os::EventLoop& events)
      : options_(std::move(options)), reaper_(reaper), rendezvous_(options_), events_(events) {}

  /// The exit code of tuttirun.
  int run();

 private:
  using Clock = std::chrono::steady_clock;

  Outcome prepare();
  /// Makes the folder of logs, if there is to be one; its name has the number of this node.
  Outcome prepare_logs();
  Outcome meet_nodes();
  /// At a restart. Ends without an error, and stopping, where another node has ended the job.
  Outcome meet_nodes_again();
  /// A node has ended the job after a failure that would have been followed by a restart.
  void give_up_restart(Verdict verdict);
  int code_of_first_failure();
  /// "node 1 (host-b)": this one.
  [[nodiscard]] std::string node_name() const;
  void tell_interrupt();
  /// Tells the other nodes, if they are about to start again, that this one is not.
  void take_leave();
  Outcome watch_signals();
  Outcome start_workers();
  [[nodiscard]] bool restarts_left() const;
  [[nodiscard]] bool should_restart() const;
  /// Forgets the workers, which have all ended, and opens a new rendezvous for the next ones.
  Outcome restart();
  /// Until when the readers of our output are waited for.
  [[nodiscard]] Clock::time_point flush_deadline() const;
  void note_end(Worker& worker);
  void note_signal();
  void interrupt(int signal);
  /// A signal that ends nothing, to the ranks.
  void hand_on(int signal);
  void note_verdict();
  void loop();
  int finish();
  void leave_nodes();
  /// The reader of our output went away, as `| head` does, and a worker ended by that. There is
  /// nothing to tell then.
  [[nodiscard]] bool is_cut_short() const;
  /// Files of the flight recorders, where they are wanted or something has failed.
  void write_records();

  Options options_;
  Reaper& reaper_;
  NodeRendezvous rendezvous_;
  std::optional<Logs> logs_;
  Records records_;
  os::EventLoop& events_;
  std::unique_ptr<Nodes> nodes_;
  os::Fd signal_fd_;

  Start start_;  ///< of the workers that run
  Workers workers_;
  WorkerOutput output_{options_, start_, workers_, events_};
  WorkerSignals signals_{options_, workers_, records_, output_};
  JobTerminal terminal_{options_, start_, workers_, events_, output_, signals_};
  Clock::time_point started_at_;
  MemoryKills memory_kills_;              ///< since the workers were started
  const Worker* first_failed_ = nullptr;  ///< of this node
  std::optional<Verdict> earlier_;        ///< of another node, before it
  int interrupted_by_ = 0;
  bool reported_ = false;
  std::optional<Verdict> verdict_;  ///< of all nodes, once this one has heard it
};

}  // namespace tutti::launcher
