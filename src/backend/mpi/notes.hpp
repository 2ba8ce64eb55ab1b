#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <string_view>
#include <type_traits>

#include <tutti/error.hpp>

#include "backend/mpi/api.hpp"

namespace tutti::mpi {

/// What ranks tell each other beside MPI's operations.
struct Note {
  enum class Kind : std::uint32_t {
    broken,  ///< the sender has broken the group: `code`, `culprit`, `text`
    left,    ///< the sender has ended its part in the group, after operation `seq`
    asks,    ///< the sender wants to know where the others are
    answer,  ///< the sender has begun operation `seq` of the group
  };

  Kind kind = Kind::broken;
  std::int32_t code = 0;    ///< an Errc
  std::uint64_t group = 0;  ///< its id
  std::uint64_t seq = 0;
  std::int32_t culprit = -1;  ///< rank in the group; -1: nobody
  std::uint32_t length = 0;   ///< of the text
  char text[480] = {};
};
static_assert(std::is_trivially_copyable_v<Note> && sizeof(Note) == 512);

/// The notes of one rank of a world: messages of fixed size over a communicator of their own.
///
/// Threads: one at a time, that which drives MPI.
class Notes {
 public:
  Notes(Api& api, Comm comm) : api_(api), comm_(comm) {}
  Notes(const Notes&) = delete;
  Notes& operator=(const Notes&) = delete;
  ~Notes();

  /// Begins to send; the end of it is seen to by `poll`. `to`: a rank of the world.
  void send(int to, const Note& note) noexcept;
  /// The next note that has arrived, and who has sent it: a rank of the world.
  [[nodiscard]] bool receive(Note& note, int& from) noexcept;
  /// Sees to what is being sent. True: nothing is.
  bool poll() noexcept;
  /// No note is received any more.
  void end() noexcept;

 private:
  struct Sent {
    Note note;
    Request request{};
  };

  Api& api_;
  const Comm comm_;
  std::list<Sent> sent_;
  Note incoming_;
  Request receiving_{};
  bool receives_ = false;
  bool broken_ = false;  ///< MPI has failed: no more notes
};

/// A note that tells a cause.
[[nodiscard]] Note note_of(const Status& cause);
/// The cause that a note tells. What it holds was sent by another process: anything may stand in it.
[[nodiscard]] Status cause_of(const Note& note, int size);

}  // namespace tutti::mpi
