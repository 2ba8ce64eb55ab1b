#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <tutti/error.hpp>

#include "os/fd.hpp"
#include "transport/shm/layout.hpp"

namespace tutti::transport::shm {

/// Accompanies the descriptors of one rank: its arena, its page, its eventfd, its pidfd and its
/// death pipe (src/os/death_pipe.hpp). The first message of each side has no descriptors: its
/// nonce, known from the worker address, proves the rank. A later one without descriptors means
/// that this rank is dead.
struct DescriptorHeader {
  std::uint64_t magic = kMagic;
  std::int64_t rank = 0;
  std::uint64_t nonce = 0;
  std::uint64_t reserved = 0;
};
inline constexpr std::size_t kDescriptors = 5;

/// Collects the descriptors of the ranks of a host at one of them. Every process in the network
/// namespace can connect: a connection that sends no known nonce, or nothing, is dropped and delays
/// no rank. A rank sends its nonce, gets ours, and then sends its descriptors.
class DescriptorExchange {
 public:
  using Clock = std::chrono::steady_clock;
  using Knows = std::function<bool(const DescriptorHeader&)>;
  struct HandIn {
    os::Fd connection;
    DescriptorHeader header;  ///< of a rank that `knows` has accepted
    std::vector<os::Fd> fds;
  };

  /// `listener` stays the caller's. `most`: how many ranks may be connected and silent at a time;
  /// some more places are for strangers. `ours` is sent only if `knows` accepts the first message.
  DescriptorExchange(int listener, std::size_t most, const DescriptorHeader& ours, Knows knows);
  /// The next rank that has sent its descriptors. Nothing: none now. Does not wait.
  [[nodiscard]] Result<std::optional<HandIn>> next();
  /// Adds the descriptors to wait on until `next` may have something.
  void add_to(std::vector<pollfd>& watched) const;
  /// `next` is to be called then at the latest, or at `deadline` if that is earlier.
  [[nodiscard]] Clock::time_point wake_at(Clock::time_point deadline) const;
  /// The reason why the last connection could not be accepted; ok if it could.
  [[nodiscard]] const Status& trouble() const noexcept { return trouble_; }

 private:
  struct Silent {
    os::Fd connection;
    Clock::time_point deadline;
  };
  struct Proven {
    os::Fd connection;
    DescriptorHeader header;
  };
  /// True: more connections may wait, but all places are taken.
  [[nodiscard]] bool accept_some();
  /// Answers connections that have proven their rank. Drops those that sent something else, or
  /// have been silent for too long.
  void answer_first_words();
  [[nodiscard]] Result<std::optional<HandIn>> first_who_hands_in();

  int listener_;
  std::size_t most_;
  DescriptorHeader ours_;
  Knows knows_;
  std::vector<Silent> silent_;  ///< oldest first
  std::vector<Proven> proven_;  ///< one of each rank at most
  Status trouble_;
  Clock::time_point rests_until_;  ///< no connection is accepted before this time
};

}  // namespace tutti::transport::shm
