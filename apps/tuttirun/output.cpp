#include "output.hpp"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>

#include "base/condition.hpp"

namespace tutti::launcher {
namespace {

constexpr std::size_t kFullBytes = std::size_t{4} << 20;

}  // namespace

bool append(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      // The process that gave us the stream has made it non-blocking.
      pollfd entry{fd, POLLOUT, 0};
      poll(&entry, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

Output::Output(std::function<void()> on_change) {
  state_->on_change = std::move(on_change);
  thread_ = std::thread([state = state_] { run(*state); });
  pthread_setname_np(thread_.native_handle(), "tuttirun-output");
}

Output::~Output() {
  bool idle = false;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
    idle = !state_->writing;
  }
  state_->changed.notify_all();
  // A thread that hangs in a write nobody will ever read ends with the process, which is about to.
  if (idle)
    thread_.join();
  else
    thread_.detach();
}

void Output::write(int fd, std::string bytes) {
  if (bytes.empty()) return;
  const std::lock_guard lock(state_->mutex);
  if (state_->errors[static_cast<std::size_t>(fd)] != 0) return;
  state_->waiting_bytes += bytes.size();
  state_->pieces.push_back({fd, std::move(bytes)});
  state_->changed.notify_all();
}

bool Output::full() const noexcept {
  const std::lock_guard lock(state_->mutex);
  return state_->waiting_bytes > kFullBytes;
}

int Output::error(int fd) const noexcept {
  const std::lock_guard lock(state_->mutex);
  return state_->errors[static_cast<std::size_t>(fd)];
}

void Output::flush(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(state_->mutex);
  while ((!state_->pieces.empty() || state_->writing) &&
         std::chrono::steady_clock::now() < deadline)
    state_->changed.wait_until(lock, deadline);
}

void Output::run(State& state) {
  std::unique_lock lock(state.mutex);
  while (true) {
    while (state.pieces.empty() && !state.stop) base::wait(state.changed, lock);
    if (state.stop) return;
    const State::Piece piece = std::move(state.pieces.front());
    state.pieces.pop_front();
    state.writing = true;
    lock.unlock();
    const bool good = append(piece.fd, piece.bytes);
    const int error = good ? 0 : errno;
    lock.lock();
    state.writing = false;
    const bool was_full = state.waiting_bytes > kFullBytes;
    state.waiting_bytes -= piece.bytes.size();
    if (!good) state.errors[static_cast<std::size_t>(piece.fd)] = error;
    const bool room = was_full && state.waiting_bytes <= kFullBytes;
    // Under the lock: after `stop` nothing that `on_change` touches need be there any more.
    if ((room || !good) && !state.stop) state.on_change();
    state.changed.notify_all();
  }
}

}  // namespace tutti::launcher
