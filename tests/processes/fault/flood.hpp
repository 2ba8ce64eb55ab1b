#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "os/fd.hpp"
#include "sockets.hpp"

namespace tutti::fault {

/// Foreign connections to every port that anybody listens on in this network namespace: some
/// are silent, some send noise, some begin a handshake and stop, some break the connection off.
class Flood {
 public:
  explicit Flood(unsigned seed) : random_(seed), thread_([this] { run(); }) {}
  ~Flood() { stop(); }
  Flood(const Flood&) = delete;
  Flood& operator=(const Flood&) = delete;

  /// Ends it; the connections that it has made.
  std::size_t stop() {
    ending_ = true;
    if (thread_.joinable()) thread_.join();
    open_.clear();
    return made();
  }
  /// The connections that it has made so far.
  std::size_t made() const { return made_; }

 private:
  static constexpr std::size_t kMostOpen = 300;  // the descriptors of this process are limited

  static std::set<std::uint16_t> listening_ports() {
    std::set<std::uint16_t> ports;
    for (const char* const table : {"tcp", "tcp6"}) {
      for (const Socket& one : tcp_sockets("self", table))
        if (one.listens()) ports.insert(static_cast<std::uint16_t>(one.port()));
    }
    return ports;
  }

  void run() {
    while (!ending_) {
      for (const std::uint16_t port : listening_ports())
        if (!ending_) connect_to(port);
      std::this_thread::yield();
    }
  }

  void connect_to(std::uint16_t port) {
    os::Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (!fd.valid()) return;
    // Loopback: it is connected, or refused, when this returns.
    (void)::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    ++made_;
    const auto kind = random_() % 4;
    if (kind == 1) {
      std::vector<unsigned char> noise(1 + random_() % 4000);
      for (unsigned char& byte : noise) byte = static_cast<unsigned char>(random_());
      (void)::send(fd.get(), noise.data(), noise.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    } else if (kind == 2) {
      const std::string begun = std::string("tutti").substr(0, 1 + random_() % 5);
      (void)::send(fd.get(), begun.data(), begun.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    } else if (kind == 3) {
      const linger reset{1, 0};
      (void)::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
      return;
    }
    open_.push_back(std::move(fd));
    if (open_.size() > kMostOpen) open_.erase(open_.begin(), open_.begin() + kMostOpen / 2);
  }

  std::mt19937 random_;
  std::vector<os::Fd> open_;
  std::atomic<std::size_t> made_{0};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace tutti::fault
