#pragma once

#include <chrono>
#include <cstddef>

#include "secure/handshake.hpp"

namespace tutti::secure {

/// The places of one acceptor for pending connections, which have not proven that they belong to
/// the job. Says whether one more is accepted, and how long each may keep its place.
///
/// Strangers can take all places, by saying nothing or by a hello that they have heard. So when
/// there is none left, a connection must have proven itself soon after our reply: an honest dialler
/// answers at once. One that is younger stays, or many honest diallers would drop each other for
/// ever.
class PendingPlaces {
 public:
  using Clock = std::chrono::steady_clock;
  using TimePoint = Clock::time_point;

  /// A reply and its answer need one round trip.
  static constexpr std::chrono::milliseconds kTimeoutWhenFull{500};
  /// Descriptors that are left to the program: where it has no more, connections come one by one.
  static constexpr std::size_t kSpareDescriptors = 64;

  struct Limits {
    std::size_t most = 0;
    /// From the accept to the proof.
    std::chrono::milliseconds timeout{};
    /// From our reply to the proof, or from the accept to the hello, when no place is left.
    std::chrono::milliseconds timeout_when_full = kTimeoutWhenFull;
  };

  /// The times of one pending connection.
  class Times {
   public:
    explicit Times(TimePoint accepted) noexcept : accepted_(accepted), since_(accepted) {}
    /// After each step of its handshake.
    void look(const Handshake& handshake, TimePoint now) noexcept;

   private:
    friend class PendingPlaces;
    TimePoint accepted_;
    TimePoint since_;  ///< of our reply, once there is one
    bool replied_ = false;
    bool proven_ = false;
  };

  explicit PendingPlaces(const Limits& limits) noexcept : limits_(limits) {}

  enum class Room : unsigned char { free, no_place, no_descriptor };
  /// Asked before each accept.
  [[nodiscard]] Room room() noexcept;
  /// An accept has failed for want of a descriptor.
  void run_out_of_descriptors() noexcept { no_descriptor_ = true; }
  /// Before accepting is tried again after `no_descriptor`.
  void try_again() noexcept { no_descriptor_ = false; }
  void take() noexcept { ++count_; }
  void release() noexcept { --count_; }

  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  /// True if connections wait that cannot be accepted.
  [[nodiscard]] bool full() const noexcept { return count_ >= limits_.most || no_descriptor_; }
  /// When a connection has to go that has not proven itself.
  [[nodiscard]] TimePoint deadline(const Times& times) const noexcept;

 private:
  Limits limits_;
  std::size_t count_ = 0;
  bool no_descriptor_ = false;
};

}  // namespace tutti::secure
