#include "worker_output.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/format.hpp"
#include "base/getenv.hpp"

namespace tutti::launcher {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} << 10;

/// Continuous integration keeps one log of all ranks.
bool runs_in_ci() {
  const std::string text = base::getenv("CI");
  return text == "true" || text == "1";
}

bool is_same_terminal(int one, int other) {
  struct stat first {};
  struct stat second {};
  return fstat(one, &first) == 0 && fstat(other, &second) == 0 && first.st_rdev == second.st_rdev;
}

winsize size_of_terminal(int fd) {
  winsize size{};
  static_cast<void>(ioctl(fd, TIOCGWINSZ, &size));
  return size;
}

}  // namespace

WorkerOutput::WorkerOutput(const Options& options, Start& start, const Workers& workers,
                           os::EventLoop& events)
    : options_(options), start_(start), workers_(workers), events_(events), output_([&events] {
        events.wake();
      }) {
  const bool out = isatty(STDOUT_FILENO) != 0;
  start_.tag = options_.tag.value_or(options_.world_size() > 1 && (out || runs_in_ci()));
  if (options_.nproc_per_node == 1 && !start_.tag) return;
  on_screen_[STDOUT_FILENO] = out;
  // Two terminals would need two screens; one of them is a rare thing.
  on_screen_[STDERR_FILENO] =
      isatty(STDERR_FILENO) != 0 && (!out || is_same_terminal(STDOUT_FILENO, STDERR_FILENO));
  if (on_screen_[STDOUT_FILENO] || on_screen_[STDERR_FILENO]) screen_.emplace();
}

void WorkerOutput::describe() {
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    const auto number = static_cast<std::size_t>(fd);
    if (on_screen_[number])
      start_.forms[number] = LineBuffer::Form::screen;
    else if (options_.nproc_per_node > 1 || start_.tag)
      start_.forms[number] = LineBuffer::Form::lines;
    if (!on_screen_[number]) continue;
    const winsize size = size_of_terminal(fd);
    const auto tag = start_.tag ? fmt::formatted_size("[{}]: ", options_.world_size() - 1) : 0;
    start_.columns = std::max(0, static_cast<int>(size.ws_col) - static_cast<int>(tag));
    start_.rows = size.ws_row;
  }
}

int WorkerOutput::screen_key(const Worker& worker, const Stream& stream) const {
  // The reader's prompt stands last, where the cursor is.
  const int place = worker.rank == start_.stdin_rank ? INT_MAX / 2 - 1 : worker.rank;
  return 2 * place + stream.to - STDOUT_FILENO;
}

void WorkerOutput::watch(Worker& worker) {
  for (Stream* stream : {&worker.out, &worker.err}) {
    if (!stream->fd.valid()) continue;
    say(events_.add(stream->fd.get(), EPOLLIN,
                    [this, &worker, stream](std::uint32_t) { read_stream(worker, *stream); }));
  }
}

void WorkerOutput::read_stream(Worker& worker, Stream& stream) {
  if (!stream.fd.valid()) return;
  if (output_.error(stream.to) != 0 && !stream.log.valid()) {
    // Nobody reads us: let the worker see that, as it would without us.
    close_stream(worker, stream);
    return;
  }
  std::array<char, kReadBytes> buffer;
  const ssize_t got = read(stream.fd.get(), buffer.data(), buffer.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    close_stream(worker, stream);
    return;
  }
  take(worker, stream, std::string_view(buffer.data(), static_cast<std::size_t>(got)));
  pause_or_resume();
}

void WorkerOutput::take(Worker& worker, Stream& stream, std::string_view bytes) {
  if (stream.log.valid() && !append(stream.log.get(), bytes)) {
    say(base::format("tuttirun: cannot write {}: {}; going on without it", stream.log_path,
                     std::generic_category().message(errno)));
    stream.log.reset();
  }
  if (stream.to == STDERR_FILENO) worker.error.add(bytes);
  if (stream.shown) show(worker, stream, stream.lines.add(bytes));
}

void WorkerOutput::show(Worker& worker, Stream& stream, std::string lines) {
  if (options_.nproc_per_node == 1 && !start_.tag) {
    output_.write(stream.to, std::move(lines));
    return;
  }
  const auto now = Clock::now();
  worker.burst.add(stream.to, std::move(lines), now);
  if (on_screen_[static_cast<std::size_t>(stream.to)])
    screen_->set(screen_key(worker, stream), stream.lines.unfinished(), now);
}

void WorkerOutput::close_stream(Worker& worker, Stream& stream) {
  if (!stream.fd.valid()) return;
  events_.remove(stream.fd.get());
  stream.fd.reset();
  // Alone, a program's output is handed on as it is; among others its last line must end.
  show(worker, stream, stream.lines.finish(options_.world_size() > 1));
}

void WorkerOutput::pause_or_resume() {
  const bool full = output_.full();
  for (const auto& worker : workers_) {
    for (Stream* stream : {&worker->out, &worker->err}) {
      if (!stream->fd.valid() || stream->paused == full) continue;
      if (events_.modify(stream->fd.get(), full ? 0U : static_cast<std::uint32_t>(EPOLLIN)))
        stream->paused = full;
    }
  }
}

void WorkerOutput::print(int fd, std::string lines) {
  if (!on_screen_[static_cast<std::size_t>(fd)]) return output_.write(fd, std::move(lines));
  const winsize size = size_of_terminal(fd);
  screen_->resize(size.ws_col, size.ws_row);
  output_.write(fd, screen_->print(lines));
}

void WorkerOutput::print_pieces(std::vector<Burst::Piece> pieces) {
  for (Burst::Piece& piece : pieces) print(piece.to, std::move(piece.text));
}

void WorkerOutput::print_due() {
  const auto now = Clock::now();
  for (const auto& worker : workers_) {
    const bool is_error = worker->error.unfinished();
    const auto over = worker->burst.over(is_error);
    if (over && *over <= now) print_pieces(worker->burst.take(is_error, now));
  }
  if (!screen_ || !screen_->due() || *screen_->due() > now) return;
  const int fd = on_screen_[STDERR_FILENO] ? STDERR_FILENO : STDOUT_FILENO;
  const winsize size = size_of_terminal(fd);
  screen_->resize(size.ws_col, size.ws_row);
  output_.write(fd, screen_->refresh());
}

void WorkerOutput::note_typed(std::string_view typed) {
  if (!screen_ || !typed.ends_with('\n')) return;
  for (const auto& worker : workers_) {
    if (worker->rank != start_.stdin_rank) continue;
    for (Stream* stream : {&worker->out, &worker->err}) {
      const int key = screen_key(*worker, *stream);
      if (!screen_->shows(key)) continue;
      stream->lines.forget_unfinished();
      screen_->set(key, "", Clock::now());
    }
  }
  screen_->leave();
}

void WorkerOutput::leave_screen() {
  if (screen_) screen_->leave();
}

DueTime WorkerOutput::due() const {
  DueTime next = screen_ ? screen_->due() : std::nullopt;
  for (const auto& worker : workers_)
    next = earlier(next, worker->burst.over(worker->error.unfinished()));
  return next;
}

void WorkerOutput::drain(Clock::time_point deadline) {
  for (const auto& worker : workers_) {
    read_rest(*worker, deadline);
    for (Stream* stream : {&worker->out, &worker->err}) close_stream(*worker, *stream);
    print_pieces(worker->burst.take());
  }
}

void WorkerOutput::read_rest(Worker& worker, Clock::time_point deadline) {
  for (Stream* stream : {&worker.out, &worker.err}) {
    // Until it is empty, not until it is closed: a process that has left its group may hold it.
    std::array<char, kReadBytes> buffer;
    ssize_t got = 0;
    while (stream->fd.valid() && (got = read(stream->fd.get(), buffer.data(), buffer.size())) > 0) {
      take(worker, *stream, std::string_view(buffer.data(), static_cast<std::size_t>(got)));
      if (output_.full()) output_.flush(deadline);
      if (Clock::now() >= deadline) break;
    }
  }
}

void WorkerOutput::say(const Outcome& status) {
  if (!status) say(base::format("tuttirun: {}", status.message()));
}

}  // namespace tutti::launcher
