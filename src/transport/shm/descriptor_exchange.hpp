#pragma once

#include <poll.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tutti/error.hpp>

#include "os/background_closer.hpp"
#include "os/death_pipe.hpp"
#include "os/fd.hpp"
#include "transport/shm/layout.hpp"

namespace tutti::transport::shm {

enum class Word : std::uint32_t {
  hello = 1,        ///< with the proof of the sender; the first message of each side
  descriptors = 2,  ///< with the three descriptors of the rank that sends it
  ready = 3,        ///< a rank has mapped the memory; from the leader: all ranks have
  died = 4,         ///< the process of `rank` has ended
  failed = 5,       ///< `rank` gives up, for the reason in the text
  memory = 6,       ///< from the leader: with the three descriptors of the host
  events = 7,       ///< from the leader: with the eventfds of ranks, all in order, some at a time
};

/// The head of each message between the leader of a host and another of its ranks
/// (docs/design/shared-memory.md).
struct DescriptorHeader {
  std::uint64_t magic = kMagic;
  std::int32_t rank = 0;
  Word word = Word::hello;
  std::uint32_t code = 0;        ///< Errc, with `failed`
  std::uint32_t text_bytes = 0;  ///< bytes of text behind the head, with `failed`
  std::uint64_t reserved = 0;
  std::array<std::byte, 32> proof{};  ///< with `hello`
};
static_assert(sizeof(DescriptorHeader) == 64);
inline constexpr std::size_t kMostText = 4096;

/// The descriptors that a rank gives to the others.
struct RankDescriptors {
  os::Fd event;
  os::DeathPipe death;
};
/// The descriptors that all ranks of a host have.
struct HostDescriptors {
  os::Fd memory;
  os::DeathSet deaths;
  std::vector<os::Fd> events;  ///< by local index; a rank's own may be missing
};
inline constexpr std::size_t kDescriptors = 3;  ///< with `descriptors`, and with `memory`

struct DescriptorMessage {
  DescriptorHeader header;
  std::vector<os::Fd> fds;
  std::string text;
};

/// Waits until the deadline. The other end must have proven itself: its descriptors become ours.
[[nodiscard]] Result<DescriptorMessage> receive_message(int fd,
                                                        std::chrono::steady_clock::time_point by);
[[nodiscard]] Outcome send_message(int fd, DescriptorHeader header, std::span<const int> fds,
                                   std::string_view text, std::chrono::steady_clock::time_point by);

/// Accepts the ranks of a host at one of them, the leader. Another process may connect, too: a
/// connection of another user, without the right proof, or without a word is dropped and delays no
/// rank. Nothing that an unproven process has sent is taken in, and its connection is closed in the
/// background, because it may hold descriptors whose close blocks.
class DescriptorExchange {
 public:
  using Clock = std::chrono::steady_clock;
  /// Our own `hello` to the rank of this one; nothing if its proof is wrong.
  using Answer = std::function<std::optional<DescriptorHeader>(const DescriptorHeader&)>;
  struct Message {
    os::Fd connection;
    int rank = 0;  ///< as it has proven
    DescriptorMessage words;
  };

  /// `listener` stays the caller's, as does `closer`. `most`: how many ranks may be connected and
  /// silent at a time; some more places are for strangers.
  DescriptorExchange(int listener, std::size_t most, Answer answer, os::BackgroundCloser& closer);
  ~DescriptorExchange();
  DescriptorExchange(const DescriptorExchange&) = delete;
  DescriptorExchange& operator=(const DescriptorExchange&) = delete;

  /// The next rank that has sent its descriptors, or that it fails. Nothing: none now. Does not
  /// wait.
  [[nodiscard]] Result<std::optional<Message>> next();
  /// Sends this to the ranks that `next` has not returned yet.
  void tell(const DescriptorHeader& header, std::string_view text);
  /// Adds the descriptors to wait on until `next` may have something.
  void add_to(std::vector<pollfd>& watched) const;
  /// `next` is to be called then at the latest, or at `deadline` if that is earlier.
  [[nodiscard]] Clock::time_point wake_at(Clock::time_point deadline) const;
  /// The reason why the last connection could not be accepted; ok if it could.
  [[nodiscard]] const Outcome& trouble() const noexcept { return trouble_; }

 private:
  struct Silent {
    os::Fd connection;
    Clock::time_point deadline;
  };
  struct Proven {
    os::Fd connection;
    int rank = 0;
  };
  [[nodiscard]] bool is_full() const;
  /// Closes a connection, in the background unless its other end has hung up and left nothing: as a
  /// job does that looks whether we still listen. No thread starts for that.
  void drop(os::Fd connection);
  /// True: more connections may wait, but all places are taken.
  [[nodiscard]] bool accept_some();
  /// Answers connections that have proven their rank. Drops those that sent something else, or
  /// have been silent for too long.
  void answer_first_words();
  [[nodiscard]] Result<std::optional<Message>> first_message();

  int listener_;
  std::size_t most_;
  Answer answer_;
  os::BackgroundCloser& closer_;
  std::vector<Silent> silent_;  ///< oldest first
  std::vector<Proven> proven_;  ///< one of each rank at most
  std::size_t at_ = 0;          ///< of those before it, none has sent anything since the last sweep
  Outcome trouble_;
  Clock::time_point rests_until_;  ///< no connection is accepted before this time
};

}  // namespace tutti::transport::shm
