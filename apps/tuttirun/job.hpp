#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tutti/error.hpp>

#include "logs.hpp"
#include "memory_kills.hpp"
#include "node_rendezvous.hpp"
#include "nodes.hpp"
#include "options.hpp"
#include "os/event_loop.hpp"
#include "os/fd.hpp"
#include "output.hpp"
#include "reaper.hpp"
#include "records.hpp"
#include "screen.hpp"
#include "verdict.hpp"
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
  void watch(Worker& worker);

  /// How the workers' output is shown: with tags, on a screen, or as it comes.
  void prepare_output();
  void describe_output();
  void read_stream(Worker& worker, Stream& stream);
  /// All that is there now, and no more after the deadline.
  void read_rest(Worker& worker, Clock::time_point deadline);
  void take(Worker& worker, Stream& stream, std::string_view bytes);
  void show(Worker& worker, Stream& stream, std::string lines);
  void close_stream(Worker& worker, Stream& stream);
  /// Whole lines, of workers or ours, to `fd`.
  void print(int fd, std::string lines);
  void print_pieces(std::vector<Burst::Piece> pieces);
  void print_what_is_due();
  /// Somebody has typed this; the terminal has shown it behind the reader's prompt.
  void note_typed(std::string_view typed);
  [[nodiscard]] int screen_key(const Worker& worker, const Stream& stream) const;
  [[nodiscard]] Clock::time_point flush_deadline() const;
  void pause_or_resume_streams();
  void note_end(Worker& worker);
  void note_signal();
  void interrupt(int signal);
  /// A signal that ends nothing, to the ranks.
  void hand_on(int signal);
  void note_verdict();

  /// Whether the only worker gets the terminal itself, and who reads it otherwise.
  void prepare_terminal();
  void prepare_input();
  /// Stops the job until somebody continues it, as the shell's `fg` and `bg` do.
  void suspend();
  void note_stops();
  /// The terminal has stopped a worker that used it from the background.
  void note_use_of_terminal(Worker& worker);
  /// The only worker gets the terminal, if we have it: true.
  bool give_terminal() const;
  /// We have again what the only worker had: true.
  bool take_terminal_back() const;
  /// The only worker has had the terminal, and was ended by a signal of it. That went to its group
  /// alone; a script that has started us waits for it, too.
  void interrupt_from_terminal(int signal);
  [[nodiscard]] std::optional<Clock::time_point> next_deadline() const;

  /// Asks all processes of all workers to end.
  void stop(int signal);
  /// After a signal from outside: asks the ranks to end. Their helpers, with which they may write a
  /// checkpoint, are asked later.
  void stop_ranks(int signal);
  /// To each process that has joined as a rank, and to a worker below which none has.
  void send_to_ranks(int signal);
  /// Writes which workers have not ended in the time that they were given.
  void tell_late();
  void kill_all();
  void send_to_groups(int signal);
  [[nodiscard]] bool all_ended() const;
  void loop();
  /// Ends what workers have left behind and takes what they have written.
  void drain();
  int finish();
  void leave_nodes();
  /// The reader of our output went away, as `| head` does, and a worker ended by that. There is
  /// nothing to tell then.
  [[nodiscard]] bool is_cut_short() const;
  /// Files of the flight recorders, where they are wanted or something has failed.
  void write_records();
  void say(const std::string& line);

  Options options_;
  Reaper& reaper_;
  NodeRendezvous rendezvous_;
  std::optional<Logs> logs_;
  Records records_;
  std::unique_ptr<os::EventLoop> events_;
  std::unique_ptr<Output> output_;
  std::unique_ptr<TerminalInput> typed_;  ///< null: nobody reads the terminal through us
  std::unique_ptr<Nodes> nodes_;
  os::Fd signals_;

  Start start_;                      ///< of the workers that run
  std::optional<Screen> screen_;     ///< where several workers write to a terminal
  std::array<bool, 3> on_screen_{};  ///< by number of the stream
  std::vector<std::unique_ptr<Worker>> workers_;
  Clock::time_point started_at_;
  MemoryKills memory_kills_;              ///< since the workers were started
  const Worker* first_failed_ = nullptr;  ///< of this node
  std::optional<Verdict> earlier_;        ///< of another node, before it
  int interrupted_by_ = 0;
  bool reported_ = false;
  bool verdict_noted_ = false;
  std::optional<Verdict> verdict_;
  bool stopping_ = false;
  int asked_by_ = 0;  ///< the first signal that has asked the workers to end
  std::optional<Clock::time_point> ask_all_at_;  ///< by that signal
  std::optional<Clock::time_point> kill_at_;
  std::chrono::milliseconds patience_{0};  ///< from the signal that asked them to `kill_at_`
  bool killed_ = false;
};

}  // namespace tutti::launcher
