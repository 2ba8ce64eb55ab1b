#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "os/address.hpp"
#include "os/fd.hpp"

namespace tutti::transport {

/// Further attempts to connect while the first has no answer at all.
///
/// The kernel repeats a lost SYN after a second, which is when a host that is cut off is to be
/// named. So we knock again ourselves. No attempt is given up for a later one: a far host may need
/// long for its answer.
///
/// A listener whose queue is full answers as little as a host that is cut off. So with each knock
/// another port of the host is tried, where nobody listens: "refused" comes from a host that lives,
/// whatever its processes do. As long as such answers come, nobody is dead.
class Knocks {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  enum class Verdict : unsigned char {
    waiting,
    answered,  ///< take() the socket
    dead,      ///< nothing of it was answered in time
  };

  /// The first attempt has just been made. `closed_port`: of that host, where nobody listens.
  void begin(TimePoint now, std::uint16_t closed_port) noexcept;
  /// Call every few milliseconds while the first attempt, `first`, has had no answer; -1: there is
  /// none but those made here.
  Verdict look(int first, const os::Address& address, TimePoint now);
  [[nodiscard]] os::Fd take() noexcept { return std::move(answered_); }
  void end() noexcept;
  /// Attempts besides the first.
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  /// The host has, of late; it only takes no connection.
  [[nodiscard]] bool host_answers() const noexcept { return host_answers_; }
  /// For how long nobody has answered.
  [[nodiscard]] std::chrono::milliseconds silence(TimePoint now) const noexcept {
    return std::chrono::floor<std::chrono::milliseconds>(now - begun_);
  }

 private:
  static constexpr std::size_t kMost = 2;

  [[nodiscard]] bool host_has_answered() noexcept;
  void try_closed_port(os::Address address) noexcept;

  std::array<os::Fd, kMost> further_;
  std::size_t count_ = 0;
  std::array<os::Fd, kMost> tries_;  ///< of the closed port
  std::size_t tried_ = 0;
  std::uint16_t closed_port_ = 0;
  bool refused_at_once_ = false;
  bool host_answers_ = false;
  TimePoint begun_{};  ///< ..., or the host's last answer
  TimePoint last_{};   ///< of both kinds
  os::Fd answered_;
};

}  // namespace tutti::transport
