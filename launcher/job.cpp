#include "job.hpp"

#include <fmt/format.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <system_error>

#include "os/descriptors.hpp"
#include "os/system_error.hpp"
#include "report.hpp"
#include "signals.hpp"

namespace tutti::launcher {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kReadBytes = std::size_t{64} << 10;
// For other nodes' workers that still take leave of each other through our store.
constexpr auto kStoreLinger = 1s;
constexpr auto kFlushTimeout = 10s;
constexpr auto kFlushTimeoutInterrupted = 1s;

}  // namespace

int Job::run() {
  // Each worker takes three, and each connection to the store one.
  descriptors_ = os::raise_descriptor_limit();
  auto events = os::EventLoop::create();
  if (!events) {
    fmt::print(stderr, "tuttirun: {}\n", events.status().message());
    return EXIT_FAILURE;
  }
  events_ = std::move(*events);
  output_ = std::make_unique<Output>([loop = events_.get()] { loop->wake(); });
  tag_ = options_.tag.value_or(isatty(STDOUT_FILENO) != 0 && options_.world_size() > 1);
  Status status = watch_signals();
  if (status) status = prepare();
  if (status) status = meet_nodes();
  if (!status) {
    say(fmt::format("tuttirun: {}", status.message()));
    output_->flush(Clock::now() + kFlushTimeout);
    return status.code() == Errc::invalid_argument ? 2 : EXIT_FAILURE;
  }
  while (!stopping_) {
    status = start_workers();
    if (!status) {
      say(fmt::format("tuttirun: {}", status.message()));
      if (nodes_)
        nodes_->report_failure(
            127, fmt::format("node {}: {}", options_.node_rank, status.message()), true);
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
      if (nodes_)
        nodes_->report_failure(127, fmt::format("node {} {}", options_.node_rank, why), true);
      break;
    }
  }
  if (nodes_ && status) take_leave();
  const int code = finish();
  return status ? code : 127;
}

Status Job::prepare() {
  if (Status status = rendezvous_.prepare(); !status) return status;
  if (!options_.redirect.empty() || !options_.tee.empty()) {
    auto logs = Logs::make(options_, rendezvous_.run_id());
    if (!logs) return logs.status();
    logs_ = std::move(*logs);
    if (options_.log_dir.empty())
      say(fmt::format("tuttirun: the workers' output goes to {}", logs_->folder()));
  }
  if (Status status = rendezvous_.serve(0); !status) return status;
  if (options_.nproc_per_node > 1 && std::getenv("OMP_NUM_THREADS") == nullptr) {
    say("tuttirun: OMP_NUM_THREADS is set to 1 for each worker, so that they do not fight for the "
        "CPUs; set it yourself for another number");
  }
  return {};
}

Status Job::watch_signals() {
  // Blocked since main began, in all threads.
  const sigset_t watched = watched_signals();
  signals_ = os::Fd(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_.valid()) return os::system_error("cannot watch for signals", errno);
  return events_->add(signals_.get(), EPOLLIN, [this](std::uint32_t) { note_signal(); });
}

Status Job::start_workers() {
  start_ = Clock::now();
  Start start;
  start.address = rendezvous_.address();
  start.run_id = rendezvous_.run_id();
  start.restart = restart_;
  start.tag = tag_;
  start.announce_fd = reaper_.announce_fd();
  start.descriptors = descriptors_;
  start.logs = logs_ ? &*logs_ : nullptr;
  for (int local_rank = 0; local_rank < options_.nproc_per_node; ++local_rank) {
    auto worker = start_worker(options_, start, local_rank);
    if (!worker) return worker.status();
    workers_.push_back(std::move(*worker));
    watch(*workers_.back());
  }
  return {};
}

bool Job::restarts_left() const { return interrupted_by_ == 0 && restart_ < options_.max_restarts; }

bool Job::should_restart() const {
  if (!restarts_left()) return false;
  if (!nodes_) return first_failed_ != nullptr;
  return verdict_ && !verdict_->success && !verdict_->final;  // all nodes do the same
}

Status Job::restart() {
  if (first_failed_ != nullptr)
    output_->write(STDERR_FILENO, failure_table(workers_, *first_failed_, start_));
  for (const auto& worker : workers_) {
    reaper_.forget(worker->process.pid());
    if (Status status = worker->process.collect(); !status) return status;
  }
  workers_.clear();
  first_failed_ = nullptr;
  earlier_.reset();
  stopping_ = false;
  kill_at_.reset();
  ++restart_;
  say(fmt::format("tuttirun: starting all workers again ({} of {} restarts)", restart_,
                  options_.max_restarts));
  verdict_.reset();
  verdict_noted_ = false;
  reported_ = false;
  if (Status status = rendezvous_.serve(restart_); !status) return status;
  return meet_nodes_again();
}

void Job::watch(Worker& worker) {
  const auto check = [this](const Status& status) {
    if (!status) say(fmt::format("tuttirun: {}", status.message()));
  };
  check(events_->add(worker.process.pidfd(), EPOLLIN,
                     [this, &worker](std::uint32_t) { note_end(worker); }));
  for (Stream* stream : {&worker.out, &worker.err}) {
    if (!stream->fd.valid()) continue;
    check(events_->add(stream->fd.get(), EPOLLIN,
                       [this, stream](std::uint32_t) { read_stream(*stream); }));
  }
}

void Job::read_stream(Stream& stream) {
  if (!stream.fd.valid()) return;
  if (output_->broken(stream.to) && !stream.log.valid()) {
    // Nobody reads us: let the worker see that, as it would without us.
    close_stream(stream);
    return;
  }
  std::array<char, kReadBytes> buffer;
  const ssize_t got = read(stream.fd.get(), buffer.data(), buffer.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    close_stream(stream);
    return;
  }
  take(stream, std::string_view(buffer.data(), static_cast<std::size_t>(got)));
  pause_or_resume_streams();
}

void Job::take(Stream& stream, std::string_view bytes) {
  if (stream.log.valid() && !append(stream.log.get(), bytes)) {
    say(fmt::format("tuttirun: cannot write {}: {}; going on without it", stream.log_path,
                    std::generic_category().message(errno)));
    stream.log.reset();
  }
  if (stream.shown) output_->write(stream.to, stream.lines.add(bytes));
}

void Job::close_stream(Stream& stream) {
  if (!stream.fd.valid()) return;
  events_->remove(stream.fd.get());
  stream.fd.reset();
  // Alone, a program's output is handed on as it is; among others its last line must end.
  output_->write(stream.to, stream.lines.finish(options_.world_size() > 1));
}

void Job::pause_or_resume_streams() {
  const bool full = output_->full();
  for (const auto& worker : workers_) {
    for (Stream* stream : {&worker->out, &worker->err}) {
      if (!stream->fd.valid() || stream->paused == full) continue;
      if (events_->modify(stream->fd.get(), full ? 0U : static_cast<std::uint32_t>(EPOLLIN)))
        stream->paused = full;
    }
  }
}

void Job::note_end(Worker& worker) {
  if (worker.end) return;
  auto end = worker.process.peek();
  if (!end || !end->has_value()) return;
  events_->remove(worker.process.pidfd());
  worker.end = **end;
  worker.end_time = Clock::now();
  worker.was_asked = stopping_;
  if (worker.end->success() || first_failed_ != nullptr || stopping_) return;
  first_failed_ = &worker;
  if (nodes_ && !std::exchange(reported_, true)) {
    earlier_ =
        nodes_->report_failure(worker.end->shell_code(),
                               fmt::format("rank {} on node {} failed first: {}", worker.rank,
                                           options_.node_rank, describe(*worker.end)),
                               !restarts_left());
  }
  stop(SIGTERM);
}

void Job::note_signal() {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (interrupted_by_ != 0) {
      // Somebody is impatient.
      kill_all();
      continue;
    }
    interrupted_by_ = signal;
    // Also where a failure was reported before, after which all would start again.
    tell_interrupt();
    stop(signal);
  }
}

void Job::stop(int signal) {
  stopping_ = true;
  const auto kill_at = Clock::now() + options_.grace;
  if (!kill_at_ || kill_at < *kill_at_) kill_at_ = kill_at;
  send_to_groups(signal);
  // A stopped process would see the signal only when it is continued.
  send_to_groups(SIGCONT);
}

void Job::kill_all() {
  stopping_ = true;
  kill_at_.reset();
  send_to_groups(SIGKILL);
}

void Job::send_to_groups(int signal) {
  // Ended leaders are still zombies, so their group's number is theirs: what they left behind is
  // reached too, and nobody else.
  for (const auto& worker : workers_) {
    if (Status status = worker->process.kill_group(signal); !status)
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
    if (Status status = events_->run_once(kill_at_); !status) {
      say(fmt::format("tuttirun: {}", status.message()));
      kill_all();
    }
    pause_or_resume_streams();
    if (kill_at_ && Clock::now() >= *kill_at_) kill_all();
  }
}

void Job::drain() {
  // Processes that workers have left running in their process groups end with the job.
  send_to_groups(SIGKILL);
  const auto deadline =
      Clock::now() + (interrupted_by_ != 0 ? kFlushTimeoutInterrupted : kFlushTimeout);
  for (const auto& worker : workers_) {
    for (Stream* stream : {&worker->out, &worker->err}) {
      // Until it is empty, not until it is closed: a process that has left its group may hold it.
      std::array<char, kReadBytes> buffer;
      ssize_t got = 0;
      while (stream->fd.valid() &&
             (got = read(stream->fd.get(), buffer.data(), buffer.size())) > 0) {
        take(*stream, std::string_view(buffer.data(), static_cast<std::size_t>(got)));
        if (output_->full()) output_->flush(deadline);
        if (Clock::now() >= deadline) break;
      }
      close_stream(*stream);
    }
  }
}

int Job::finish() {
  const auto deadline =
      Clock::now() + (interrupted_by_ != 0 ? kFlushTimeoutInterrupted : kFlushTimeout);
  int code = EXIT_SUCCESS;
  if (first_failed_ != nullptr) {
    output_->write(STDERR_FILENO, failure_table(workers_, *first_failed_, start_));
    code = code_of_first_failure();
  } else if (interrupted_by_ != 0) {
    say(fmt::format("tuttirun: ended by {}", describe({0, interrupted_by_})));
    code = 128 + interrupted_by_;
  } else if (verdict_ && !verdict_->success) {
    code = verdict_->exit_code;
  }
  output_->flush(deadline);
  for (const auto& worker : workers_) {
    if (Status status = worker->process.collect(); !status) say(std::string(status.message()));
  }
  nodes_.reset();
  rendezvous_.close(options_.nnodes > 1 ? kStoreLinger : 0s);
  output_->flush(deadline);
  return code;
}

void Job::say(const std::string& line) { output_->write(STDERR_FILENO, line + "\n"); }

}  // namespace tutti::launcher
