#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <tutti/error.hpp>

#include "os/fd.hpp"
#include "transport/shm/layout.hpp"

namespace tutti::transport::shm {

/// What goes with the descriptors of one rank: its arena, its page, its eventfd and both of its
/// lifeline (src/os/lifeline.hpp). Without descriptors: that rank is dead.
struct Hello {
  std::uint64_t magic = kMagic;
  std::int64_t rank = 0;
  std::uint64_t nonce = 0;
  std::uint64_t reserved = 0;
};
inline constexpr std::size_t kDescriptors = 5;

/// Where one rank of a host takes what the others hand in. Everybody in the network namespace can
/// connect there: who is none of them, or says nothing, is dropped and holds nobody up.
class Reception {
 public:
  using Clock = std::chrono::steady_clock;
  struct HandIn {
    os::Fd connection;
    Hello hello;  ///< of whom, and whether it is true, is not looked at
    std::vector<os::Fd> fds;
  };

  /// `listener` stays the caller's. `most`: so many at a time may have said nothing yet, besides
  /// some strangers.
  Reception(int listener, std::size_t most) noexcept;
  /// The next who hands in what looks like it. Nothing: nobody now. Does not wait.
  [[nodiscard]] Result<std::optional<HandIn>> next();
  /// What to wait for until `next` may have something.
  void add_to(std::vector<pollfd>& watched) const;
  /// `next` is to be called then at the latest, or at `deadline` if that is earlier.
  [[nodiscard]] Clock::time_point wake_at(Clock::time_point deadline) const;

 private:
  struct Silent {
    os::Fd connection;
    Clock::time_point deadline;
  };
  /// True: there may be more, for whom there is no room.
  [[nodiscard]] Result<bool> accept_some();
  /// Drops who says something else, or has been silent for too long.
  [[nodiscard]] std::optional<HandIn> first_who_speaks();

  int listener_;
  std::size_t most_;
  std::vector<Silent> silent_;  ///< oldest first
};

}  // namespace tutti::transport::shm
