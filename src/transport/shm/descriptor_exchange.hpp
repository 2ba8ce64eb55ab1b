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

/// Travels with the descriptors of one rank: its arena, its page, its eventfd, its pidfd and its
/// death pipe (src/os/death_pipe.hpp). Without descriptors it is the first message of each side,
/// whose nonce, known from the worker's address, proves the rank; later: this rank is dead.
struct DescriptorHeader {
  std::uint64_t magic = kMagic;
  std::int64_t rank = 0;
  std::uint64_t nonce = 0;
  std::uint64_t reserved = 0;
};
inline constexpr std::size_t kDescriptors = 5;

/// One rank of a host collects the descriptors of the others here. Every process in the network
/// namespace can connect: a connection that sends no known nonce, or nothing, is dropped and delays
/// no rank. A rank sends its nonce first, is sent ours, and hands in its descriptors after that.
class DescriptorExchange {
 public:
  using Clock = std::chrono::steady_clock;
  using Knows = std::function<bool(const DescriptorHeader&)>;
  struct HandIn {
    os::Fd connection;
    DescriptorHeader header;  ///< of a rank that `knows` has accepted
    std::vector<os::Fd> fds;
  };

  /// `listener` stays the caller's. `most`: so many at a time may have said nothing yet, besides
  /// some that are no ranks. `ours` is told to those whose first words `knows` accepts, to nobody
  /// else.
  DescriptorExchange(int listener, std::size_t most, const DescriptorHeader& ours, Knows knows);
  /// The next rank that hands in. Nothing: none now. Does not wait.
  [[nodiscard]] Result<std::optional<HandIn>> next();
  /// Adds the descriptors to wait on until `next` may have something.
  void add_to(std::vector<pollfd>& watched) const;
  /// `next` is to be called then at the latest, or at `deadline` if that is earlier.
  [[nodiscard]] Clock::time_point wake_at(Clock::time_point deadline) const;
  /// Why the last connection could not be taken; ok where it could.
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
  /// True: there may be more, which have no place here.
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
  Clock::time_point rests_until_;  ///< no connection is taken before
};

}  // namespace tutti::transport::shm
