#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "os/address.hpp"
#include "os/socket.hpp"

namespace tutti::test {

/// A process that listens where a server of the library is expected, passes each connection on to
/// that server, and reads along. It may change what it passes on.
class Relay {
 public:
  using Change = std::function<void(std::span<char> bytes, bool to_server)>;

  Relay(const os::Address& at, const os::Address& to, Change change = {})
      : to_(to), change_(std::move(change)), listener_(os::listen_tcp(at).value()) {
    thread_ = std::thread([this] { run(); });
  }
  ~Relay() {
    stop_ = true;
    thread_.join();
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  [[nodiscard]] os::Address address() const { return os::local_address(listener_.get()).value(); }
  [[nodiscard]] bool has_heard(std::string_view text) {
    const std::lock_guard lock(mutex_);
    return heard_.find(text) != std::string::npos;
  }
  [[nodiscard]] int connections() const { return connections_; }

 private:
  struct Pair {
    os::Fd user;
    os::Fd server;
  };

  void run() {
    while (!stop_) {
      std::vector<pollfd> ready{{listener_.get(), POLLIN, 0}};
      for (const Pair& pair : pairs_) {
        ready.push_back({pair.user.get(), POLLIN, 0});
        ready.push_back({pair.server.get(), POLLIN, 0});
      }
      ::poll(ready.data(), ready.size(), 20);
      std::size_t at = 1;
      for (auto pair = pairs_.begin(); pair != pairs_.end(); at += 2) {
        const bool goes_on =
            (ready[at].revents == 0 || pass_on(pair->user, pair->server, true)) &&
            (ready[at + 1].revents == 0 || pass_on(pair->server, pair->user, false));
        pair = goes_on ? std::next(pair) : pairs_.erase(pair);
      }
      if (ready[0].revents != 0) accept();
    }
  }
  void accept() {
    auto user = os::accept_connection(listener_.get());
    if (!user || !user->valid()) return;
    ++connections_;
    auto server = os::connect_tcp(to_, std::chrono::steady_clock::now() + kPatience);
    if (server) pairs_.push_back({std::move(*user), std::move(*server)});
  }
  bool pass_on(const os::Fd& from, const os::Fd& to, bool to_server) {
    std::array<char, 64 * 1024> buffer;
    const ssize_t got = ::recv(from.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN;
    if (got == 0) return false;
    const auto bytes = std::span(buffer).first(static_cast<std::size_t>(got));
    {
      const std::lock_guard lock(mutex_);
      heard_.append(bytes.data(), bytes.size());
    }
    if (change_) change_(bytes, to_server);
    return os::send_all(to.get(), std::as_bytes(bytes),
                        std::chrono::steady_clock::now() + kPatience)
        .ok();
  }

  static constexpr std::chrono::seconds kPatience{10};
  const os::Address to_;
  const Change change_;
  os::Fd listener_;
  std::list<Pair> pairs_;  // of the thread
  std::atomic<int> connections_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::string heard_;
  std::thread thread_;
};

}  // namespace tutti::test
