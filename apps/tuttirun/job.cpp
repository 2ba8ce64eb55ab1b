#include "job.hpp"

#include <fmt/format.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "base/getenv.hpp"
#include "os/descriptors.hpp"
#include "os/system_error.hpp"
#include "rank_errors.hpp"
#include "rank_process.hpp"
#include "report.hpp"
#include "signals.hpp"

namespace tutti::launcher {
namespace {

using namespace std::chrono_literals;

// For other nodes' workers that still take leave of each other through our store.
constexpr auto kStoreLinger = 5s;
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

}  // namespace

int Job::run() {
  // Each worker takes three, and each connection to the store one.
  start_.descriptors = os::raise_descriptor_limit();
  auto events = os::EventLoop::create();
  if (!events) {
    fmt::print(stderr, "tuttirun: {}\n", events.status().message());
    return EXIT_FAILURE;
  }
  events_ = std::move(*events);
  output_ = std::make_unique<Output>([loop = events_.get()] { loop->wake(); });
  prepare_terminal();
  prepare_output();
  Outcome status = watch_signals();
  if (status) status = prepare();
  if (status) status = meet_nodes();
  if (!status) {
    say(fmt::format("tuttirun: {}", status.message()));
    output_->flush(flush_deadline());
    leave_nodes();
    return status.code() == Errc::invalid_argument ? 2 : EXIT_FAILURE;
  }
  while (!stopping_) {
    status = start_workers();
    if (!status) {
      say(fmt::format("tuttirun: {}", status.message()));
      if (nodes_)
        nodes_->report_failure(127, fmt::format("{}: {}", node_name(), status.message()), true);
      reported_ = true;
      kill_all();
    }
    loop();
    drain();
    if (!status || !should_restart()) break;
    status = restart();
    if (!status) {
      const std::string why = fmt::format("cannot start the workers again: {}", status.message());
      say("tuttirun: " + why);
      if (nodes_) nodes_->report_failure(127, fmt::format("{} {}", node_name(), why), true);
      break;
    }
  }
  if (nodes_ && status) take_leave();
  const int code = finish();
  return status ? code : 127;
}

namespace {

bool asks_for_details() {
  const std::string least = base::getenv("TUTTI_LOG_LEVEL");
  return least == "info" || least == "debug";
}

}  // namespace

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
    say("tuttirun: OMP_NUM_THREADS is set to 1 for each worker, so that they do not fight for the "
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
    say(fmt::format("tuttirun: the workers' output goes to {}", logs_->folder()));
  return {};
}

Outcome Job::watch_signals() {
  // Blocked since main began, in all threads.
  const sigset_t watched = watched_signals(options_.ending_signals);
  signals_ = os::Fd(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_.valid()) return os::system_error("cannot watch for signals", errno);
  return events_->add(signals_.get(), EPOLLIN, [this](std::uint32_t) { note_signal(); });
}

Outcome Job::start_workers() {
  if (Outcome status = prepare_logs(); !status) return status;
  started_at_ = Clock::now();
  memory_kills_ = MemoryKills();
  start_.address = rendezvous_.address();
  start_.run_id = rendezvous_.run_id();
  describe_output();
  start_.announce_fd = reaper_.announce_fd();
  start_.logs = logs_ ? &*logs_ : nullptr;
  prepare_input();
  records_ = Records::make(options_);
  start_.records = &records_;
  for (int local_rank = 0; local_rank < options_.nproc_per_node; ++local_rank) {
    auto worker = start_worker(options_, start_, local_rank);
    if (!worker) return worker.status();
    workers_.push_back(std::move(*worker));
    watch(*workers_.back());
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
    print(STDERR_FILENO, failure_table(workers_, *first_failed_, started_at_, options_.nnodes));
  write_records();
  for (const auto& worker : workers_) {
    reaper_.forget(worker->process.pid());
    if (Outcome status = worker->process.collect(); !status) return status;
  }
  workers_.clear();
  first_failed_ = nullptr;
  earlier_.reset();
  stopping_ = false;
  killed_ = false;
  asked_by_ = 0;
  ask_all_at_.reset();
  kill_at_.reset();
  ++start_.restart;
  say(fmt::format("tuttirun: starting all workers again ({} of {} restarts)", start_.restart,
                  options_.max_restarts));
  verdict_.reset();
  verdict_noted_ = false;
  reported_ = false;
  if (Outcome status = rendezvous_.serve(start_.restart); !status) return status;
  return meet_nodes_again();
}

void Job::note_end(Worker& worker) {
  if (worker.end) return;
  auto end = worker.process.peek();
  if (!end || !end->has_value()) return;
  if (const int watched = worker.process.watch().fd(); watched >= 0) events_->remove(watched);
  worker.end = **end;
  worker.end_time = Clock::now();
  worker.was_asked = stopping_;
  worker.was_killed = killed_;
  // A wrapper, such as a shell, tells its child's end by an exit code.
  if (!killed_ && worker.end->shell_code() == 128 + SIGKILL)
    worker.out_of_memory = memory_kills_.told();
  const bool had_terminal = take_terminal_back();
  // The text of its error is part of the report.
  if (!worker.end->success()) {
    read_rest(worker, Clock::now() + kMostRest);
    if (!worker.err.fd.valid() && !worker.err.log_path.empty())
      worker.error.add(tail_of(worker.err.log_path));
  }
  if (worker.end->success() || first_failed_ != nullptr || stopping_) return;
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
  if (had_terminal && (worker.end->signal == SIGINT || worker.end->signal == SIGQUIT))
    return interrupt_from_terminal(worker.end->signal);
  first_failed_ = &worker;
  if (nodes_ && !std::exchange(reported_, true)) {
    earlier_ = nodes_->report_failure(worker.end->shell_code(),
                                      fmt::format("rank {} on {} failed first: {}", worker.rank,
                                                  node_name(), describe_failure(worker)),
                                      !restarts_left());
  }
  stop(SIGTERM);
}

void Job::note_signal() {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    switch (const int signal = static_cast<int>(info.ssi_signo)) {
      case SIGCHLD:
        note_stops();
        for (const auto& worker : workers_)
          if (worker->process.watch().fd() < 0) note_end(*worker);
        break;
      case SIGTSTP: suspend(); break;
      default: ends_job(signal, options_.ending_signals) ? interrupt(signal) : hand_on(signal);
    }
  }
}

void Job::interrupt(int signal) {
  if (interrupted_by_ != 0) return kill_all();  // somebody is impatient
  interrupted_by_ = signal;
  // Also where a failure was reported before, after which all would start again.
  tell_interrupt();
  stop_ranks(signal);
}

void Job::hand_on(int signal) {
  send_to_ranks(signal);
  // As the shell's `fg`: a helper that was stopped goes on, too.
  if (signal == SIGCONT) send_to_groups(SIGCONT);
}

void Job::stop_ranks(int signal) {
  stopping_ = true;
  // A failure before has given them less.
  if (!kill_at_) {
    asked_by_ = signal;
    ask_all_at_ = Clock::now() + options_.grace_on_signal;
  }
  send_to_ranks(signal);
  // A stopped process would see the signal only when it is continued.
  send_to_groups(SIGCONT);
}

void Job::send_to_ranks(int signal) {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const Worker& worker = *workers_[i];
    if (worker.end) continue;
    bool told = false;
    for (const pid_t rank : find_ranks(worker.process.pid(), records_.joined(static_cast<int>(i))))
      told |= kill(rank, signal) == 0;
    if (told) continue;
    if (Outcome status = worker.process.kill(signal); !status)
      say(fmt::format("tuttirun: {}", status.message()));
  }
}

void Job::stop(int signal) {
  stopping_ = true;
  if (asked_by_ == 0) asked_by_ = signal;
  patience_ = options_.grace;
  const auto kill_at = Clock::now() + options_.grace;
  if (!kill_at_ || kill_at < *kill_at_) kill_at_ = kill_at;
  send_to_groups(signal);
  // A stopped process would see the signal only when it is continued.
  send_to_groups(SIGCONT);
}

void Job::tell_late() {
  std::vector<int> ranks;
  for (const auto& worker : workers_)
    if (!worker->end) ranks.push_back(worker->rank);
  if (ranks.empty()) return;
  const bool after_signal = patience_ > options_.grace;
  say(fmt::format("tuttirun: {} {} not ended within {} s after {}, and {} killed; {} more time",
                  name_ranks(ranks), ranks.size() == 1 ? "has" : "have",
                  std::chrono::duration<double>(patience_).count(), describe({0, asked_by_}),
                  ranks.size() == 1 ? "is" : "are",
                  after_signal ? "--grace-on-signal and --grace allow" : "--grace allows"));
}

void Job::kill_all() {
  stopping_ = killed_ = true;
  ask_all_at_.reset();
  kill_at_.reset();
  send_to_groups(SIGKILL);
}

void Job::send_to_groups(int signal) {
  // Ended leaders are still zombies, so their group's number is theirs: what they left behind is
  // reached too, and nobody else.
  for (const auto& worker : workers_) {
    if (Outcome status = worker->process.kill_group(signal); !status)
      say(fmt::format("tuttirun: {}", status.message()));
  }
}

bool Job::all_ended() const {
  return std::ranges::all_of(workers_, [](const auto& worker) { return worker->end.has_value(); });
}

void Job::loop() {
  bool told_done = false;
  while (true) {
    note_verdict();
    if (all_ended()) {
      const bool success = !stopping_ && first_failed_ == nullptr;
      if (!nodes_ || verdict_noted_) return;
      // The verdict tells if all workers start again.
      if (!success && !restarts_left()) return;
      // The other nodes may still need our store, and may still fail.
      if (success && !std::exchange(told_done, true)) nodes_->report_done();
    }
    if (Outcome status = events_->run_once(next_deadline()); !status) {
      say(fmt::format("tuttirun: {}", status.message()));
      kill_all();
    }
    pause_or_resume_streams();
    if (typed_) typed_->look_again();
    print_what_is_due();
    if (ask_all_at_ && Clock::now() >= *ask_all_at_) {
      ask_all_at_.reset();
      stop(asked_by_);
      patience_ += options_.grace_on_signal;
    }
    if (kill_at_ && Clock::now() >= *kill_at_) {
      tell_late();
      kill_all();
    }
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
    say(fmt::format("tuttirun: {}", folder.status().message()));
  else if (*folder)
    say(fmt::format("tuttirun: what each rank did last: tutti trace {} -o trace.json", **folder));
}

bool Job::is_cut_short() const {
  return first_failed_ != nullptr && first_failed_->end->signal == SIGPIPE &&
         output_->error(STDOUT_FILENO) == EPIPE;
}

int Job::finish() {
  const auto deadline = flush_deadline();
  int code = EXIT_SUCCESS;
  if (first_failed_ != nullptr) {
    if (!is_cut_short())
      print(STDERR_FILENO, failure_table(workers_, *first_failed_, started_at_, options_.nnodes));
    code = code_of_first_failure();
  } else if (interrupted_by_ != 0) {
    say(fmt::format("tuttirun: ended by {}", describe({0, interrupted_by_})));
    code = 128 + interrupted_by_;
  } else if (verdict_ && !verdict_->success) {
    code = verdict_->exit_code;
  }
  write_records();
  sweep_records();
  output_->flush(deadline);
  for (const auto& worker : workers_) {
    if (Outcome status = worker->process.collect(); !status) say(std::string(status.message()));
  }
  if (const int error = output_->error(STDOUT_FILENO); error != 0 && error != EPIPE) {
    say(fmt::format("tuttirun: cannot write the output of the workers: {}", std::strerror(error)));
    if (code == EXIT_SUCCESS) code = EXIT_FAILURE;
  }
  leave_nodes();
  output_->flush(deadline);
  return code;
}

/// Other nodes may still read in our store why the job ends.
void Job::leave_nodes() {
  nodes_.reset();
  rendezvous_.close(options_.nnodes > 1 ? kStoreLinger : 0s);
}

}  // namespace tutti::launcher
