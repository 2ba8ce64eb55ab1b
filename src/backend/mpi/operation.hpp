#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "backend/foreign/foreign_operation.hpp"
#include "backend/mpi/api.hpp"
#include "backend/mpi/buffers.hpp"

namespace tutti::mpi {

using foreign::TimePoint;

class MpiGroup;

/// A message that MPI has taken out of its queue for us (MPI_Improbe), not received yet.
struct FoundMessage {
  Matched handle{};
  int source = 0;
  int tag = 0;            ///< of MPI
  bool of_caller = true;  ///< not of the library itself
  std::int64_t bytes = 0;
  std::uint64_t number = 0;  ///< how many were found before it: of one source and tag, in order
};

/// One call on one rank, from submit until its ticket is released.
struct MpiOperation : foreign::ForeignOperation {
  enum class State : std::uint8_t {
    waiting,    ///< no tags are free, as many operations before it are being compared; a probe, or
                ///< a recv after a probe: it waits for its message
    comparing,  ///< the calls of all ranks are compared; then it waits until earlier operations
                ///< have been given to MPI
    moving,     ///< MPI moves the data
    done,
  };

  State state = State::waiting;
  std::array<std::uint64_t, 2> sent{};   ///< MPI reads it in a round of comparing
  std::array<std::uint64_t, 2> heard{};  ///< MPI writes it in that round
  int round = 0;                         ///< of comparing

  Buffer in;
  Buffer out;
  std::vector<Request> requests;  ///< of MPI, not done yet
  std::vector<int> arrays;        ///< that MPI reads until then
  std::vector<Type> types;        ///< to be freed then

  bool asked = false;          ///< it is late, and the others were asked where they are
  std::int64_t received = -1;  ///< the bytes of a receive that is done
  int tag = 0;                 ///< of MPI, of a recv or probe; -1: MPI_ANY_TAG, until it is matched
  /// A probe that is done: its message, until a recv takes it. A recv: the message that it gets, if
  /// MPI was not to choose it.
  std::optional<FoundMessage> found;
  MpiGroup* child = nullptr;  ///< new_group: what it makes here

  /// MPI has its memory.
  [[nodiscard]] bool in_use() const noexcept { return !requests.empty(); }
  /// For the next call in this place. Memory is kept.
  void reset() {
    ForeignOperation::reset();
    state = State::waiting;
    in.reset();
    out.reset();
    requests.clear();
    arrays.clear();
    types.clear();
    asked = false;
    received = -1;
    tag = 0;
    found.reset();
    child = nullptr;
  }
};

}  // namespace tutti::mpi
