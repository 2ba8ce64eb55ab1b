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

/// What goes with the descriptors of one rank: its arena, its page, its eventfd and both of its
/// death_pipe (src/os/death_pipe.hpp). Without descriptors: the first words of each side, which
/// prove by the nonce of its worker_address who it is; later, that this rank is dead.
struct DescriptorHeader {
  std::uint64_t magic = kMagic;
  std::int64_t rank = 0;
  std::uint64_t nonce = 0;
  std::uint64_t reserved = 0;
};
inline constexpr std::size_t kDescriptors = 5;

/// Where one rank of a host takes what the others hand in. Everybody in the network namespace can
/// connect there: a stranger, or one that says nothing, is dropped and holds nobody up. A rank says
/// its nonce first, is told ours, and hands in its descriptors only then.
class DescriptorExchange {
 public:
  using Clock = std::chrono::steady_clock;
  using Knows = std::function<bool(const DescriptorHeader&)>;
  struct HandIn {
    os::Fd connection;
    DescriptorHeader hello;  ///< of a rank that `knows` has accepted
    std::vector<os::Fd> fds;
  };

  /// `listener` stays the caller's. `most`: so many at a time may have said nothing yet, besides
  /// some strangers. `ours` is told to those whose first words `knows` accepts, to nobody else.
  DescriptorExchange(int listener, std::size_t most, const DescriptorHeader& ours, Knows knows);
  /// The next rank that hands in. Nothing: none now. Does not wait.
  [[nodiscard]] Result<std::optional<HandIn>> next();
  /// What to wait for until `next` may have something.
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
    DescriptorHeader hello;
  };
  /// True: there may be more, for whom there is no room.
  [[nodiscard]] bool accept_some();
  /// Tells ours to those who prove who they are. Drops those who say something else, or have been
  /// silent for too long.
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
