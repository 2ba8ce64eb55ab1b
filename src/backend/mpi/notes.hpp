#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <type_traits>
#include <vector>

#include <tutti/error.hpp>

#include "backend/mpi/api.hpp"

namespace tutti::mpi {

/// A control message between ranks, beside the operations.
struct Note {
  enum class Kind : std::uint32_t {
    broken,  ///< the sender has broken the group: `code`, `culprit`, `text`
    left,    ///< the sender has ended its part in the group, after operation `seq`, and had sent
             ///< `messages` to the receiver
    asks,    ///< the sender wants to know where the others are
    answer,  ///< the sender has begun operation `seq` of the group
  };

  Kind kind = Kind::broken;
  std::int32_t code = 0;    ///< an Errc
  std::uint64_t group = 0;  ///< its id
  std::uint64_t seq = 0;
  std::uint64_t messages = 0;
  std::int32_t culprit = -1;  ///< rank in the group; -1: nobody
  std::uint32_t length = 0;   ///< of the text
  char text[472] = {};
};
static_assert(std::is_trivially_copyable_v<Note> && sizeof(Note) == 512);

class MpiGroup;

/// Sends and receives the notes of one rank, over a communicator of their own. That of
/// MPI_COMM_WORLD is never freed, because a note may come when its group is gone.
///
/// Threads: one at a time, that which drives MPI.
class Notes {
 public:
  /// `base`: the communicator whose ranks these are; `comm`: its duplicate.
  Notes(Api& api, Comm base, Comm comm) : api_(api), base_(base), comm_(comm) {}
  Notes(const Notes&) = delete;
  Notes& operator=(const Notes&) = delete;
  ~Notes();
  /// No more notes. True: none is under way that this rank has sent or asked for, so that the
  /// communicator can be freed.
  bool close() noexcept;

  [[nodiscard]] Comm base() const noexcept { return base_; }
  [[nodiscard]] Comm communicator() const noexcept { return comm_; }
  /// Notes of this id are the group's from now on, and those that have come before.
  void add(std::uint64_t id, MpiGroup& group);
  void remove(std::uint64_t id) noexcept { groups_.erase(id); }
  /// Begins to send; `progress` ends it. `to`: a rank of the communicator.
  void send(int to, const Note& note) noexcept;
  /// MPI has failed: no note is sent or received any more.
  [[nodiscard]] bool broken() const noexcept { return broken_; }
  [[nodiscard]] bool all_sent() const noexcept { return sent_.empty() || broken_; }
  /// Gives notes that have arrived to their groups, and frees those that were sent.
  void progress();

 private:
  struct Sent {
    Note note;
    Request request{};
  };
  struct Early {
    Note note;
    int from = 0;
  };
  [[nodiscard]] bool receive(Note& note, int& from) noexcept;
  void deliver(const Note& note, int from);

  Api& api_;
  const Comm base_;
  const Comm comm_;
  std::map<std::uint64_t, MpiGroup*> groups_;
  std::vector<Early> early_;  ///< of groups that this rank has not made yet
  std::list<Sent> sent_;
  std::unique_ptr<Note> incoming_ = std::make_unique<Note>();
  Request receiving_{};
  bool receives_ = false;
  bool broken_ = false;
  bool asked_ = false;  ///< a question was sent or answered, so an answer may be under way
};

/// A note that tells a cause.
[[nodiscard]] Note note_of(const Outcome& cause);
/// The cause that a note tells. Another process has sent it, so anything may stand in it.
[[nodiscard]] Outcome cause_of(const Note& note, int size);

}  // namespace tutti::mpi
