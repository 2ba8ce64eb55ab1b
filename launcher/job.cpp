#include "job.hpp"

#include <fmt/format.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <random>

#include "os/address.hpp"
#include "os/system_error.hpp"
#include "report.hpp"
#include "store/secret.hpp"

namespace tutti::launcher {
namespace {

using namespace std::chrono_literals;

constexpr std::uint16_t kDefaultPort = 29500;
constexpr std::size_t kReadBytes = std::size_t{64} << 10;
// For other nodes' workers that still take leave of each other through our store.
constexpr auto kStoreLinger = 1s;
constexpr auto kFlushTimeout = 10s;
constexpr auto kFlushTimeoutInterrupted = 1s;
constexpr auto kNodesTimeout = 5min;

bool is_loopback(const std::string& host) {
  if (host == "localhost") return true;
  auto address = os::Address::parse(host, 0);
  return address && address->is_loopback();
}

}  // namespace

int Job::run() {
  auto events = os::EventLoop::create();
  if (!events) {
    fmt::print(stderr, "tuttirun: {}\n", events.status().message());
    return EXIT_FAILURE;
  }
  events_ = std::move(*events);
  output_ = std::make_unique<Output>([loop = events_.get()] { loop->wake(); });
  Status status = watch_signals();
  if (status) status = prepare();
  if (!status) {
    say(fmt::format("tuttirun: {}", status.message()));
    output_->flush(Clock::now() + kFlushTimeout);
    return status.code() == Errc::invalid_argument ? 2 : EXIT_FAILURE;
  }
  const bool tag = options_.tag.value_or(isatty(STDOUT_FILENO) != 0 && options_.world_size() > 1);
  start_ = Clock::now();
  status = start_workers(tag);
  if (!status) {
    say(fmt::format("tuttirun: {}", status.message()));
    if (nodes_)
      nodes_->report_failure(127, fmt::format("node {}: {}", options_.node_rank, status.message()));
    reported_ = true;
    kill_all();
  }
  loop();
  const int code = finish();
  return status ? code : 127;
}

Status Job::prepare() {
  if (Status status = prepare_secret(); !status) return status;
  address_.master_addr = options_.master_addr;
  const bool one_node = options_.nnodes == 1;
  address_.master_port = options_.master_port.value_or(one_node ? 0 : kDefaultPort);
  if (one_node) {
    // Only tells jobs apart that meet by mistake; need not be hard to guess.
    std::random_device random;
    address_.job = fmt::format("{:08x}{:08x}", random(), random());
  }
  if (options_.node_rank == 0) {
    if (Status status = prepare_store(); !status) return status;
  }
  if (!one_node) prepare_nodes();
  return {};
}

Status Job::prepare_secret() {
  if (!options_.secret_file.empty()) {
    auto secret = store::read_secret_file(options_.secret_file);
    if (!secret) return secret.status();
    secret_ = std::move(*secret);
    // Workers may change their directory before they read it.
    std::array<char, PATH_MAX> path{};
    if (realpath(options_.secret_file.c_str(), path.data()) == nullptr)
      return os::system_error("cannot find " + options_.secret_file, errno);
    address_.secret_file = path.data();
    return {};
  }
  if (options_.nnodes == 1) {
    auto made = store::make_secret();
    if (!made) return made.status();
    secret_ = std::move(made->secret);
    secret_fd_ = std::move(made->fd);
    address_.secret_fd = secret_fd_.get();
    return {};
  }
  if (options_.node_rank == 0 && !is_loopback(options_.master_addr)) {
    say(
        fmt::format("tuttirun: warning: the job has no secret: whoever reaches {} can join or "
                    "disturb it; give all nodes the same --secret-file",
                    options_.master_addr));
  }
  return {};
}

Status Job::prepare_store() {
  auto addresses = os::Address::resolve(address_.master_addr, address_.master_port);
  if (!addresses) return addresses.status();
  Status last;
  for (const os::Address& address : *addresses) {
    if (address.is_multicast() || address.is_unspecified() || address.is_broadcast()) {
      return Status(Errc::invalid_argument,
                    fmt::format("--master-addr {} is not the address of a host", address.host()));
    }
    store::TcpServerOptions server;
    server.address = address;
    server.secret = secret_;
    server.job = address_.job;
    auto started = store::TcpServer::start(std::move(server));
    if (!started) {
      last = started.status();
      continue;
    }
    server_ = std::move(*started);
    address_.master_port = server_->address().port();
    return {};
  }
  return Status(Errc::store,
                fmt::format("cannot serve the store: {}; is --master-addr an address of this host "
                            "and --master-port free?",
                            last.message()));
}

void Job::prepare_nodes() {
  TcpStoreOptions store;
  store.host = address_.master_addr;
  store.port = address_.master_port;
  store.timeout = kNodesTimeout;
  store.secret = secret_;
  store.job = address_.job;
  nodes_ =
      std::make_unique<Nodes>(options_, std::move(store), [loop = events_.get()] { loop->wake(); });
}

Status Job::watch_signals() {
  // Blocked since main began, in all threads.
  sigset_t watched;
  sigemptyset(&watched);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&watched, signal);
  signals_ = os::Fd(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_.valid()) return os::system_error("cannot watch for signals", errno);
  return events_->add(signals_.get(), EPOLLIN, [this](std::uint32_t) { note_signal(); });
}

Status Job::start_workers(bool tag) {
  for (int local_rank = 0; local_rank < options_.nproc_per_node; ++local_rank) {
    auto worker = start_worker(options_, address_, local_rank, guardian_.announce_fd(), tag);
    if (!worker) {
      std::string hint;
      const std::string& program = options_.program.front();
      if (worker.status().code() == Errc::invalid_argument && !options_.module &&
          program.find('/') == std::string::npos && access(program.c_str(), X_OK) == 0)
        hint = fmt::format("; did you mean ./{}?", program);
      return Status(worker.status().code(), std::string(worker.status().message()) + hint);
    }
    workers_.push_back(std::move(*worker));
    watch(*workers_.back());
  }
  return {};
}

void Job::watch(Worker& worker) {
  const auto check = [this](const Status& status) {
    if (!status) say(fmt::format("tuttirun: {}", status.message()));
  };
  check(events_->add(worker.process.pidfd(), EPOLLIN,
                     [this, &worker](std::uint32_t) { note_end(worker); }));
  for (Stream* stream : {&worker.out, &worker.err}) {
    check(events_->add(stream->fd.get(), EPOLLIN,
                       [this, stream](std::uint32_t) { read_stream(*stream); }));
  }
}

void Job::read_stream(Stream& stream) {
  if (!stream.fd.valid()) return;
  if (output_->broken(stream.to)) {
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
  output_->write(stream.to,
                 stream.lines.add(std::string_view(buffer.data(), static_cast<std::size_t>(got))));
  pause_or_resume_streams();
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
    nodes_->report_failure(worker.end->shell_code(),
                           fmt::format("rank {} on node {} failed first: {}", worker.rank,
                                       options_.node_rank, describe(*worker.end)));
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
    if (nodes_ && !std::exchange(reported_, true)) {
      nodes_->report_failure(128 + signal, fmt::format("tuttirun on node {} was ended by {}",
                                                       options_.node_rank, describe({0, signal})));
    }
    stop(signal);
  }
}

void Job::note_verdict() {
  if (!nodes_ || verdict_noted_) return;
  verdict_ = nodes_->verdict();
  if (!verdict_) return;
  verdict_noted_ = true;
  if (verdict_->success || first_failed_ != nullptr || interrupted_by_ != 0) return;
  say(fmt::format("tuttirun: node {} ends its workers:{}", options_.node_rank,
                  verdict_->text.starts_with(' ') ? verdict_->text : " " + verdict_->text));
  stop(SIGTERM);
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
      if (!nodes_ || !success || verdict_noted_) return;
      // The other nodes may still need our store, and may still fail.
      if (!std::exchange(told_done, true)) nodes_->report_done();
    }
    if (Status status = events_->run_once(kill_at_); !status) {
      say(fmt::format("tuttirun: {}", status.message()));
      kill_all();
    }
    pause_or_resume_streams();
    if (kill_at_ && Clock::now() >= *kill_at_) kill_all();
  }
}

int Job::finish() {
  // What workers have left running in their groups goes with the job.
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
        output_->write(stream->to, stream->lines.add(std::string_view(
                                       buffer.data(), static_cast<std::size_t>(got))));
        if (output_->full()) output_->flush(deadline);
        if (Clock::now() >= deadline) break;
      }
      close_stream(*stream);
    }
  }
  int code = EXIT_SUCCESS;
  if (first_failed_ != nullptr) {
    output_->write(STDERR_FILENO, failure_table(workers_, *first_failed_, start_));
    code = first_failed_->end->shell_code();
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
  if (server_) server_->close(options_.nnodes > 1 ? kStoreLinger : 0s);
  output_->flush(deadline);
  return code;
}

void Job::say(const std::string& line) { output_->write(STDERR_FILENO, line + "\n"); }

}  // namespace tutti::launcher
