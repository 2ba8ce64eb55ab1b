#pragma once

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "os/fd.hpp"

namespace tutti::test {

/// Everything that passes the interfaces of this network namespace, loopback included, from `start`
/// to `stop`. Needs CAP_NET_RAW there: see enter_network_namespace.
class PacketCapture {
 public:
  /// Nothing where packets may not be captured.
  static std::unique_ptr<PacketCapture> start() {
    os::Fd socket(::socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL)));
    if (!socket.valid()) return nullptr;
    const int room = 128 << 20;
    if (::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) != 0)
      (void)::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
    return std::unique_ptr<PacketCapture>(new PacketCapture(std::move(socket)));
  }
  ~PacketCapture() { stop(); }
  PacketCapture(const PacketCapture&) = delete;
  PacketCapture& operator=(const PacketCapture&) = delete;

  /// Takes what has come so far, and no more.
  void stop() {
    if (!reader_.joinable()) return;
    stopping_ = true;
    reader_.join();
    take();
    tpacket_stats told{};
    socklen_t length = sizeof(told);
    if (::getsockopt(socket_.get(), SOL_PACKET, PACKET_STATISTICS, &told, &length) == 0)
      dropped_ += told.tp_drops;
  }

  // After `stop`.

  /// A packet holds this text. One that lies across two packets is not found: send it many times.
  [[nodiscard]] bool holds(std::string_view text) const {
    return bytes_.find(text) != std::string::npos;
  }
  /// All of it, the heads of the packets included.
  [[nodiscard]] const std::string& all() const { return bytes_; }
  [[nodiscard]] std::uint64_t packets() const { return packets_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_.size(); }
  /// Packets that came too fast to be looked at, or beyond kMost bytes. Not 0: nothing is proven.
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

 private:
  static constexpr std::size_t kMost = std::size_t{1} << 30;

  explicit PacketCapture(os::Fd socket)
      : socket_(std::move(socket)), packet_(128 << 10), reader_([this] { read(); }) {}

  void read() {
    while (!stopping_) {
      pollfd ready{socket_.get(), POLLIN, 0};
      if (::poll(&ready, 1, 10) > 0) take();
    }
  }
  void take() {
    while (true) {
      const ssize_t got = ::recv(socket_.get(), packet_.data(), packet_.size(), MSG_TRUNC);
      if (got < 0) return;
      ++packets_;
      if (static_cast<std::size_t>(got) > packet_.size() || bytes_.size() > kMost) {
        ++dropped_;
        continue;
      }
      bytes_.append(packet_.data(), static_cast<std::size_t>(got));
    }
  }

  os::Fd socket_;
  std::vector<char> packet_;
  std::string bytes_;
  std::uint64_t packets_ = 0;
  std::uint64_t dropped_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread reader_;
};

}  // namespace tutti::test
