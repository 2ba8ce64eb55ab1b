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
class Knocks {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  enum class Verdict : unsigned char {
    waiting,
    answered,  ///< take() the socket
    dead,      ///< none was answered in time
  };

  /// The first attempt has just been made.
  void begin(TimePoint now) noexcept;
  /// Call every few milliseconds while the first attempt, `first`, has had no answer; -1: there is
  /// none but those made here.
  Verdict look(int first, const os::Address& address, TimePoint now);
  [[nodiscard]] os::Fd take() noexcept { return std::move(answered_); }
  void end() noexcept;
  /// Attempts besides the first.
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  /// For how long nobody has answered.
  [[nodiscard]] std::chrono::milliseconds silence(TimePoint now) const noexcept {
    return std::chrono::floor<std::chrono::milliseconds>(now - begun_);
  }

 private:
  static constexpr std::size_t kMost = 2;

  std::array<os::Fd, kMost> further_;
  std::size_t count_ = 0;
  TimePoint begun_{};
  TimePoint last_{};
  os::Fd answered_;
};

}  // namespace tutti::transport
