#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include <tutti/backend/backend.hpp>
#include <tutti/collective.hpp>

#include "backend/mpi/api.hpp"
#include "backend/mpi/buffers.hpp"
#include "base/ticket_table.hpp"
#include "call/call_code.hpp"
#include "call/extent.hpp"

namespace tutti::mpi {

using TimePoint = std::chrono::steady_clock::time_point;

class Group;

/// A message that MPI has taken out of its queue for us (MPI_Improbe), not received yet.
struct FoundMessage {
  Matched handle{};
  int source = 0;
  int tag = 0;  ///< of MPI
  std::int64_t bytes = 0;
  std::uint64_t number = 0;  ///< how many were found before it: of one source and tag, in order
};

/// One call on one rank, from submit until its ticket is released.
struct Operation : base::TicketPlace {
  enum class State : std::uint8_t {
    waiting,     ///< no tags are free, as many operations before it are being compared; a probe, or
                 ///< a recv after a probe: it waits for its message
    agreeing,    ///< MPI compares the calls of all ranks
    ready,       ///< it waits until earlier operations have been given to MPI
    measuring,   ///< the ranks tell each other how much they send to each rank
    explaining,  ///< the calls differ, and the ranks tell each other theirs
    moving,      ///< MPI moves the data
    done,
  };

  State state = State::done;
  bool released = false;  ///< nobody will ask for its ticket any more
  bool listed = false;    ///< it stands in the list of what runs
  bool measured = false;  ///< the lengths of all blocks were compared
  bool differs = false;   ///< the calls of the ranks are not equal
  std::uint64_t seq = 0;  ///< number of the collective in its group, from 1 on; 0: a message

  Collective call;  ///< without the lists of the caller, which are read during submit
  call::CallCode code{};
  call::Extent extent;
  std::array<std::uint64_t, 2> compared{};  ///< {h, ~h}: the ranks take the maximum
  std::array<std::uint64_t, 2> greatest{};  ///< the maximum of the ranks heard from so far
  std::array<std::uint64_t, 2> sent{};      ///< MPI reads it in a round of comparing
  std::array<std::uint64_t, 2> heard{};     ///< MPI writes it in that round
  int round = 0;                            ///< of comparing
  std::vector<call::CallCode> calls;        ///< of all ranks, when they explain themselves

  std::vector<std::uint64_t> lengths;  ///< elements to each rank, then those from each

  Buffer in;
  Buffer out;
  std::vector<Request> requests;  ///< of MPI, not done yet
  std::vector<int> arrays;        ///< that MPI reads until then
  std::vector<Type> types;        ///< to be freed then

  TimePoint started{};
  TimePoint deadline{};
  bool asked = false;  ///< it is late, and the others were asked where they are
  Outcome outcome;
  int source = -1;             ///< of a receive that is done
  std::int64_t received = -1;  ///< its bytes
  int tag = 0;                 ///< of MPI, of a recv or probe
  /// A probe that is done: its message, until a recv takes it. A recv: the message that it gets, if
  /// MPI was not to choose it.
  std::optional<FoundMessage> found;
  std::vector<Callback> callbacks;
  Group* child = nullptr;  ///< new_group: what it makes here

  /// For the next call in this place. Memory is kept.
  void reset() {
    state = State::done;
    released = false;
    listed = false;
    measured = false;
    differs = false;
    seq = 0;
    call = Collective();
    extent = call::Extent();
    calls.clear();
    lengths.clear();
    in.reset();
    out.reset();
    requests.clear();
    arrays.clear();
    types.clear();
    asked = false;
    outcome = Outcome();
    source = -1;
    received = -1;
    tag = 0;
    found.reset();
    callbacks.clear();
    child = nullptr;
  }
};

}  // namespace tutti::mpi
