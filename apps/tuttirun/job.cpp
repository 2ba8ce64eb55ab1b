#include "job.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "base/format.hpp"
#include "base/getenv.hpp"
#include "os/descriptors.hpp"
#include "os/system_error.hpp"
#include "report.hpp"
#include "signals.hpp"

namespace tutti::launcher {
namespace {

using namespace std::chrono_literals;

// For other nodes' workers that still take leave of each other through our store.
constexpr auto kStoreLinger = 5s;
constexpr auto kFlushTimeout = 10s;
constexpr auto kFlushTimeoutInterrupted = 1s;
// For the last words of a worker whose children may write on.
constexpr auto kMostRest = 100ms;
// For the kernel, which takes a killed worker apart: much memory, few CPUs.
constexpr auto kMostExit = 2s;

/// By a signal that no error of the program itself turns into, as an uncaught exception does into
/// SIGABRT.
bool was_killed(const os::ExitStatus& end) {
  constexpr std::array kSignals = {SIGKILL, SIGSEGV, SIGBUS, SIGILL, SIGFPE};
  return std::ranges::find(kSignals, end.signal) != kSignals.end();
}

bool asks_for_details() {
  const std::string least = base::getenv("TUTTI_LOG_LEVEL");
  return least == "info" || least == "debug";
}

std::string with_space(const std::string& text) {
  return text.starts_with(' ') ? text : " " + text;
}

}  // namespace

int Job::run() {
  // Each worker takes three, and each connection to the store one.
  start_.descriptors = os::raise_descriptor_limit();
  Outcome status = watch_signals();
  if (status) status = prepare();
  if (status) status = meet_nodes();
  if (!status) {
    output_.say(status);
    output_.flush(flush_deadline());
    leave_nodes();
    return status.code() == Errc::invalid_argument ? 2 : EXIT_FAILURE;
  }
  while (!signals_.stopping()) {
    status = start_workers();
    if (!status) {
      output_.say(status);
      if (nodes_)
        nodes_->report_failure(127, base::format("{}: {}", node_name(), status.message()), true);
      reported_ = true;
      signals_.kill_all();
    }
    loop();
    // Processes that workers have left running in their process groups end with the job.
    signals_.send_to_groups(SIGKILL);
    output_.drain(flush_deadline());
    if (!status || !should_restart()) break;
    status = restart();
    if (!status) {
      const std::string why = base::format("cannot start the workers again: {}", status.message());
      output_.say("tuttirun: " + why);
      if (nodes_) nodes_->report_failure(127, base::format("{} {}", node_name(), why), true);
      break;
    }
  }
  if (nodes_ && status) take_leave();
  const int code = finish();
  return status ? code : 127;
}

Outcome Job::prepare() {
  if (Outcome status = rendezvous_.prepare(); !status) return status;
  // Where the store numbers the nodes, that comes later.
  if (!options_.find_node_rank) {
    if (Outcome status = prepare_logs(); !status) return status;
  }
  if (!options_.record_dir.empty()) {
    if (Outcome status = prepare_records(options_.record_dir); !status) return status;
  }
  if (Outcome status = rendezvous_.serve(0); !status) return status;
  // Most programs have no OpenMP: it is told where somebody asks for details.
  const bool sets_omp = options_.nproc_per_node > 1 && std::getenv("OMP_NUM_THREADS") == nullptr;
  if (sets_omp && asks_for_details()) {
    output_.say(
        "tuttirun: OMP_NUM_THREADS is set to 1 for each worker, so that they do not fight for the "
        "CPUs; set it yourself for another number");
  }
  return {};
}

Outcome Job::prepare_logs() {
  if (logs_ || (options_.redirect.empty() && options_.tee.empty())) return {};
  auto logs = Logs::make(options_, rendezvous_.run_id());
  if (!logs) return logs.status();
  logs_ = std::move(*logs);
  if (options_.log_dir.empty())
    output_.say(base::format("tuttirun: the workers' output goes to {}", logs_->folder()));
  return {};
}

Outcome Job::watch_signals() {
  // Blocked since main began, in all threads.
  const sigset_t watched = watched_signals(options_.ending_signals);
  signal_fd_ = os::Fd(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signal_fd_.valid()) return os::system_error("cannot watch for signals", errno);
  return events_.add(signal_fd_.get(), EPOLLIN, [this](std::uint32_t) { note_signal(); });
}

Outcome Job::start_workers() {
  if (Outcome status = prepare_logs(); !status) return status;
  started_at_ = Clock::now();
  memory_kills_ = MemoryKills();
  start_.address = rendezvous_.address();
  start_.run_id = rendezvous_.run_id();
  output_.describe();
  start_.announce_fd = reaper_.announce_fd();
  start_.logs = logs_ ? &*logs_ : nullptr;
  terminal_.describe();
  records_ = Records::make(options_);
  start_.records = &records_;
  for (int local_rank = 0; local_rank < options_.nproc_per_node; ++local_rank) {
    auto started = start_worker(options_, start_, local_rank);
    if (!started) return started.status();
    Worker& worker = *workers_.emplace_back(std::move(*started));
    // Without a descriptor SIGCHLD tells of the end.
    if (const int end = worker.process.watch().fd(); end >= 0)
      output_.say(events_.add(end, EPOLLIN, [this, &worker](std::uint32_t) { note_end(worker); }));
    output_.watch(worker);
  }
  return {};
}

bool Job::restarts_left() const {
  return interrupted_by_ == 0 && start_.restart < options_.max_restarts;
}

bool Job::should_restart() const {
  if (!restarts_left()) return false;
  if (!nodes_) return first_failed_ != nullptr;
  return verdict_ && !verdict_->success && !verdict_->final;  // all nodes do the same
}

Outcome Job::restart() {
  if (first_failed_ != nullptr)
    output_.print(STDERR_FILENO,
                  failure_table(workers_, *first_failed_, started_at_, options_.nnodes));
  write_records();
  for (const auto& worker : workers_) {
    reaper_.forget(worker->process.pid());
    if (Outcome status = worker->process.collect(); !status) return status;
  }
  workers_.clear();
  first_failed_ = nullptr;
  earlier_.reset();
  signals_.begin_again();
  ++start_.restart;
  output_.say(base::format("tuttirun: starting all workers again ({} of {} restarts)",
                           start_.restart, options_.max_restarts));
  verdict_.reset();
  reported_ = false;
  if (Outcome status = rendezvous_.serve(start_.restart); !status) return status;
  return meet_nodes_again();
}

void Job::note_end(Worker& worker) {
  if (worker.end) return;
  auto end = worker.process.peek();
  if (!end || !end->has_value()) return;
  if (const int watched = worker.process.watch().fd(); watched >= 0) events_.remove(watched);
  worker.end = **end;
  worker.end_time = Clock::now();
  worker.was_asked = signals_.stopping();
  worker.was_killed = signals_.killed();
  // A wrapper, such as a shell, tells its child's end by an exit code.
  if (!signals_.killed() && worker.end->shell_code() == 128 + SIGKILL)
    worker.out_of_memory = memory_kills_.told();
  const bool had_terminal = terminal_.take_back();
  // The text of its error is part of the report.
  if (!worker.end->success()) {
    output_.read_rest(worker, Clock::now() + kMostRest);
    if (!worker.err.fd.valid() && !worker.err.log_path.empty())
      worker.error.add(tail_of(worker.err.log_path));
  }
  if (worker.end->success() || first_failed_ != nullptr || signals_.stopping()) return;
  if (!was_killed(*worker.end)) {
    // One that was killed is the cause where both have ended before we looked. The kernel closes
    // what it had open, which others see, before it tells us of its end.
    const auto soon = Clock::now() + kMostExit;
    for (const auto& other : workers_) {
      if (other->end) continue;
      auto its_end =
          other->process.is_exiting() ? other->process.wait(soon) : other->process.peek();
      if (its_end && its_end->has_value() && was_killed(**its_end)) return note_end(*other);
    }
  }
  if (had_terminal && (worker.end->signal == SIGINT || worker.end->signal == SIGQUIT)) {
    // It went to the worker's group alone; a script that has started us waits for it, too.
    pass_on_from_terminal(worker.end->signal);
    return interrupt(worker.end->signal);
  }
  first_failed_ = &worker;
  if (nodes_ && !std::exchange(reported_, true)) {
    earlier_ = nodes_->report_failure(worker.end->shell_code(),
                                      base::format("rank {} on {} failed first: {}", worker.rank,
                                                   node_name(), describe_failure(worker)),
                                      !restarts_left());
  }
  signals_.stop(SIGTERM);
}

void Job::note_signal() {
  signalfd_siginfo info{};
  while (read(signal_fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    switch (const int signal = static_cast<int>(info.ssi_signo)) {
      case SIGCHLD:
        terminal_.note_stops();
        for (const auto& worker : workers_)
          if (worker->process.watch().fd() < 0) note_end(*worker);
        break;
      case SIGTSTP: terminal_.suspend(); break;
      default: ends_job(signal, options_.ending_signals) ? interrupt(signal) : hand_on(signal);
    }
  }
}

void Job::interrupt(int signal) {
  if (interrupted_by_ != 0) return signals_.kill_all();  // somebody is impatient
  interrupted_by_ = signal;
  // Also where a failure was reported before, after which all would start again.
  tell_interrupt();
  signals_.stop_ranks(signal);
}

void Job::hand_on(int signal) {
  signals_.send_to_ranks(signal);
  // As the shell's `fg`: a helper that was stopped goes on, too.
  if (signal == SIGCONT) signals_.send_to_groups(SIGCONT);
}

void Job::loop() {
  bool told_done = false;
  while (true) {
    note_verdict();
    if (std::ranges::all_of(workers_, [](const auto& worker) { return worker->end.has_value(); })) {
      const bool success = !signals_.stopping() && first_failed_ == nullptr;
      if (!nodes_ || verdict_) return;
      // The verdict tells if all workers start again.
      if (!success && !restarts_left()) return;
      // The other nodes may still need our store, and may still fail.
      if (success && !std::exchange(told_done, true)) nodes_->report_done();
    }
    const DueTime due = earlier(signals_.due(), output_.due());
    if (Outcome status = events_.run_once(earlier(due, terminal_.due())); !status) {
      output_.say(status);
      signals_.kill_all();
    }
    output_.pause_or_resume();
    terminal_.look_again();
    output_.print_due();
    signals_.act();
  }
}

void Job::write_records() {
  // Where another node has failed first, ours tell what they waited for.
  // A job that a signal to any of the tuttiruns has ended has not failed.
  const bool failed =
      first_failed_ != nullptr || (verdict_ && !verdict_->success && verdict_->signal == 0);
  if (options_.record_dir.empty() && (!failed || is_cut_short())) return;
  auto folder = records_.write(options_.record_dir);
  if (!folder)
    output_.say(folder.status());
  else if (*folder)
    output_.say(
        base::format("tuttirun: what each rank did last: tutti trace {} -o trace.json", **folder));
}

bool Job::is_cut_short() const {
  return first_failed_ != nullptr && first_failed_->end->signal == SIGPIPE &&
         output_.error(STDOUT_FILENO) == EPIPE;
}

int Job::finish() {
  const auto deadline = flush_deadline();
  int code = EXIT_SUCCESS;
  if (first_failed_ != nullptr) {
    if (!is_cut_short())
      output_.print(STDERR_FILENO,
                    failure_table(workers_, *first_failed_, started_at_, options_.nnodes));
    code = code_of_first_failure();
  } else if (interrupted_by_ != 0) {
    output_.say(base::format("tuttirun: ended by {}", describe({0, interrupted_by_})));
    code = 128 + interrupted_by_;
  } else if (verdict_ && !verdict_->success) {
    code = verdict_->exit_code;
  }
  write_records();
  sweep_records();
  output_.flush(deadline);
  for (const auto& worker : workers_) {
    if (Outcome status = worker->process.collect(); !status)
      output_.say(std::string(status.message()));
  }
  if (const int error = output_.error(STDOUT_FILENO); error != 0 && error != EPIPE) {
    output_.say(
        base::format("tuttirun: cannot write the output of the workers: {}", std::strerror(error)));
    if (code == EXIT_SUCCESS) code = EXIT_FAILURE;
  }
  leave_nodes();
  output_.flush(deadline);
  return code;
}

/// Other nodes may still read in our store why the job ends.
void Job::leave_nodes() {
  nodes_.reset();
  rendezvous_.close(options_.nnodes > 1 ? kStoreLinger : 0s);
}

Outcome Job::meet_nodes() {
  if (options_.nnodes == 1) return {};
  std::optional<int> number = options_.node_rank;
  if (options_.find_node_rank)
    number = rendezvous_.serving() ? std::optional<int>(0) : std::optional<int>();
  nodes_ = std::make_unique<Nodes>(options_, rendezvous_.store(), number, rendezvous_.why_serving(),
                                   [this] { events_.wake(); });
  // No worker runs before the others can be told of its end. Ends with an answer of the store, its
  // time-out, or a signal.
  while (!nodes_->joined()) {
    if (signals_.stopping()) return {};
    if (const auto verdict = nodes_->verdict())
      return Outcome(Errc::store, "cannot join the job: " + verdict->text);
    if (Outcome status = events_.run_once(std::nullopt); !status) return status;
  }
  options_.node_rank = *nodes_->joined();
  return {};
}

Outcome Job::meet_nodes_again() {
  if (!nodes_) return {};
  nodes_->begin(start_.restart, rendezvous_.workers_port());
  // Node 0 comes when its own workers have ended.
  const auto most = options_.join_timeout + options_.grace;
  const auto deadline = Clock::now() + most;
  while (true) {
    if (auto verdict = nodes_->verdict(); verdict && verdict->final) {
      give_up_restart(std::move(*verdict));
      signals_.kill_all();  // no worker runs: this only keeps run() from another start
    }
    if (signals_.stopping()) return {};
    if (nodes_->joined()) break;
    if (Clock::now() >= deadline) {
      return Outcome(
          Errc::timeout,
          base::format("node 0 has not sent the port of the workers' store within {} s; is it "
                       "stopped, or its --grace longer than ours?",
                       std::chrono::ceil<std::chrono::seconds>(most).count()));
    }
    if (Outcome status = events_.run_once(deadline); !status) return status;
  }
  rendezvous_.use_workers_port(nodes_->workers_port());
  return {};
}

void Job::note_verdict() {
  if (!nodes_) return;
  if (verdict_) {
    // All would start again; one of them may go meanwhile.
    if (verdict_->success || verdict_->final) return;
    if (auto end = nodes_->end_of_job()) give_up_restart(std::move(*end));
    return;
  }
  verdict_ = nodes_->verdict();
  if (!verdict_ || verdict_->success || first_failed_ != nullptr || interrupted_by_ != 0) return;
  output_.say(
      base::format("tuttirun: {} ends its workers:{}", node_name(), with_space(verdict_->text)));
  if (verdict_->signal != 0) return signals_.stop_ranks(verdict_->signal);
  signals_.stop(SIGTERM);
}

void Job::give_up_restart(Verdict verdict) {
  verdict_ = std::move(verdict);
  if (interrupted_by_ != 0) return;
  output_.say(base::format("tuttirun: {} does not start its workers again:{}", node_name(),
                           with_space(verdict_->text)));
}

std::string Job::node_name() const { return name_of_node(options_.node_rank); }

int Job::code_of_first_failure() {
  if (!earlier_) return first_failed_->end->shell_code();
  output_.say(
      base::format("tuttirun: before that, on another node:{}", with_space(earlier_->text)));
  return earlier_->exit_code;
}

void Job::tell_interrupt() {
  if (!nodes_) return;
  reported_ = true;
  nodes_->report_signal(interrupted_by_, base::format("tuttirun on {} was ended by {}", node_name(),
                                                      describe({0, interrupted_by_})));
}

void Job::take_leave() {
  // Once more, as it may have come before the others could be told.
  if (interrupted_by_ != 0) return tell_interrupt();
  if (!verdict_ || verdict_->success || verdict_->final) return;
  nodes_->report_failure(
      verdict_->exit_code,
      base::format("{} does not start its workers again, as its --max-restarts is {}; give all "
                   "nodes the same",
                   node_name(), options_.max_restarts),
      true);
}

Job::Clock::time_point Job::flush_deadline() const {
  return Clock::now() + (interrupted_by_ != 0 ? kFlushTimeoutInterrupted : kFlushTimeout);
}

}  // namespace tutti::launcher
