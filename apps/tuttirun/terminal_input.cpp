#include "terminal_input.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "os/pipe.hpp"
#include "os/system_error.hpp"

namespace tutti::launcher {
namespace {

using namespace std::chrono_literals;

// The kernel tells nobody that a job has come to the foreground.
constexpr auto kBetweenLooks = 200ms;
constexpr std::size_t kTypedBytes = 4096;

}  // namespace

bool in_foreground(int fd) noexcept { return tcgetpgrp(fd) == getpgrp(); }

Outcome TerminalInput::open_terminal() {
  if (terminal_.valid()) return {};
  terminal_ = os::Fd(open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  // Another user's (after su): as it is. It is only read when there is something.
  if (!terminal_.valid()) terminal_ = os::Fd(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  if (!terminal_.valid()) return os::system_error("cannot open the terminal", errno);
  return events_.add(terminal_.get(), 0, [this](std::uint32_t events) { read_terminal(events); });
}

Result<os::Fd> TerminalInput::connect() {
  disconnect();
  auto pipe = os::make_pipe("cannot make a pipe for standard input");
  if (!pipe) return pipe.status();
  pipe_ = std::move(pipe->write);
  if (fcntl(pipe_.get(), F_SETFL, O_NONBLOCK) != 0)
    return os::system_error("cannot make a pipe for standard input", errno);
  if (Outcome status = open_terminal(); !status) return status;
  // Says by EPOLLERR when nobody reads it any more.
  Outcome status = events_.add(pipe_.get(), 0, [this](std::uint32_t events) {
    if ((events & EPOLLERR) != 0)
      disconnect();
    else
      write_pipe();
  });
  if (!status) return status;
  watch_terminal(true);
  return std::move(pipe->read);
}

void TerminalInput::disconnect() {
  due_.reset();
  waiting_.clear();
  if (terminal_.valid()) events_.remove(terminal_.get());
  terminal_.reset();
  if (pipe_.valid()) events_.remove(pipe_.get());
  pipe_.reset();
}

void TerminalInput::watch_terminal(bool readable) {
  static_cast<void>(
      events_.modify(terminal_.get(), readable ? static_cast<std::uint32_t>(EPOLLIN) : 0U));
}

void TerminalInput::look_again() {
  if (!due_ || Clock::now() < *due_) return;
  due_.reset();
  watch_terminal(true);
}

void TerminalInput::read_terminal(std::uint32_t events) {
  std::array<char, kTypedBytes> buffer;
  ssize_t got = -1;
  errno = EIO;
  // One that does not control us tells no foreground group: anybody may read it.
  if (in_foreground(terminal_.get()) || tcgetpgrp(terminal_.get()) < 0)
    got = read(terminal_.get(), buffer.data(), buffer.size());
  if (got > 0) {
    const std::string_view typed(buffer.data(), static_cast<std::size_t>(got));
    on_input_(typed);
    waiting_ += typed;
    return write_pipe();
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  // The end was typed, or the terminal has gone.
  if (got == 0 || (events & EPOLLHUP) != 0 || errno != EIO) return disconnect();
  watch_terminal(false);
  due_ = Clock::now() + kBetweenLooks;
}

void TerminalInput::write_pipe() {
  while (!waiting_.empty()) {
    const ssize_t written = write(pipe_.get(), waiting_.data(), waiting_.size());
    if (written >= 0) {
      waiting_.erase(0, static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      return disconnect();
    }
  }
  const bool full = !waiting_.empty();
  static_cast<void>(events_.modify(pipe_.get(), full ? static_cast<std::uint32_t>(EPOLLOUT) : 0U));
  watch_terminal(!full);
}

}  // namespace tutti::launcher
