#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tutti/backend/backend.hpp>
#include <tutti/error.hpp>

#include "backend/foreign/call_comparison.hpp"
#include "backend/foreign/operation_list.hpp"
#include "backend/mpi/mpi_calls.hpp"
#include "backend/mpi/notes.hpp"
#include "backend/mpi/operation.hpp"

namespace tutti::mpi {

class MpiWorld;

/// The operations of one group on this rank, from submit to their end.
///
/// Collectives are numbered. Each is compared first (if the ranks compare), by messages on a
/// communicator of its own, in log2(size) rounds (dissemination), which is faster than
/// MPI_Iallreduce. Then it is given to MPI, in the order of the numbers, because MPI needs one
/// order on all ranks. Messages are not numbered and start at once; group_messages.cpp says which
/// recvs and probes wait.
///
/// Threads: one at a time, that which drives MPI.
class MpiGroup final : private foreign::CallComparison::Primitives {
 public:
  struct Spec {
    std::uint64_t id = 0;
    std::string name;
    std::vector<int> members;  ///< their ranks in the world, in the order of the group
    int rank = 0;              ///< of this process in the group
    Comm data{};
    Comm compare{};
    bool made = false;  ///< the communicators are there; else `make_communicators` makes them
  };
  MpiGroup(MpiWorld& world, Spec spec);
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;
  ~MpiGroup();

  [[nodiscard]] std::uint64_t id() const noexcept { return spec_.id; }
  [[nodiscard]] const std::string& name() const noexcept { return spec_.name; }
  [[nodiscard]] int rank() const noexcept { return spec_.rank; }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(spec_.members.size()); }
  [[nodiscard]] int world_rank(int rank) const noexcept {
    return spec_.members[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] Comm communicator() const noexcept { return spec_.data; }
  [[nodiscard]] const Outcome& cause() const noexcept { return operations_.cause(); }
  [[nodiscard]] bool idle() const noexcept { return operations_.idle(); }

  /// Begins a call; the ticket of it. Never fails: an operation that cannot be has failed.
  std::uint64_t submit(const Collective& call);
  [[nodiscard]] foreign::OperationList<MpiOperation>& operations() noexcept { return operations_; }
  /// The message of a probe that is done, until a recv takes it.
  [[nodiscard]] std::optional<ProbedMessage> probed(std::uint64_t ticket) const;
  tutti::Received release(std::uint64_t ticket) noexcept;
  /// As Operations::cancel.
  bool cancel(std::uint64_t ticket);

  /// One pass over all that runs. `look`: also at the clock.
  void progress(bool look);
  /// A note of this group, of this rank of the world.
  void on_note(const Note& note, int from);
  /// Breaks the group with the first cause; `tell`: the others, too.
  void fail(const Outcome& cause, bool tell);
  /// The group that the next Kind::new_group of this group makes; null: this rank is in none. Color
  /// and key are those of MPI_Comm_split.
  void expect_child(MpiGroup* child, int color, int key) noexcept {
    child_ = child;
    color_ = color;
    key_ = key;
  }
  /// The id of the child that would be made next, if its members are those of `color`.
  [[nodiscard]] std::uint64_t child_id(int color) const noexcept;
  /// This rank makes no more calls: fails the operations that run, and informs the other ranks.
  void leave();
  /// For a thread that must not call MPI: the next thread that makes progress calls `leave`.
  void leave_later() noexcept { leaves_later_ = true; }
  void fail_later(const Outcome& cause) { fails_later_ = cause; }
  /// It has left, and its communicators are freed or kept for ever: a message that nobody receives
  /// must not reach a communicator that MPI gives the same number.
  [[nodiscard]] bool over() const noexcept { return gone_ && released_; }
  [[nodiscard]] bool was_broken() const noexcept { return was_broken_; }
  /// They are freed.
  [[nodiscard]] bool freed() const noexcept { return freed_; }

 private:
  void begin_maximum(foreign::ForeignOperation& call) override;
  void begin_lengths(foreign::ForeignOperation& call) override;
  void begin_codes(foreign::ForeignOperation& call) override;
  [[nodiscard]] std::string text_of(const foreign::ForeignOperation& op) const override;
  [[nodiscard]] std::string name_of(int rank) const override;
  void begin(MpiOperation& op);
  void compare_round(MpiOperation& op);
  /// False: it was the last one.
  [[nodiscard]] bool next_round(MpiOperation& op);
  void go_on_comparing(MpiOperation& op);
  /// MPI has been given a request of the operation, unless it has failed.
  void began(MpiOperation& op, int code, Request request, const char* what);
  void advance(MpiOperation& op);
  /// MPI has ended what it moved.
  void moved(MpiOperation& op);
  /// MPI has ended a receive: with that message, or as it was cancelled.
  void note_received(MpiOperation& op, const Received& message);
  void start_next();
  /// A send, recv or probe. `probed`: the ticket of the probe whose message it gets, or 0.
  void start_message(MpiOperation& op, std::uint64_t probed);
  /// Gives the recvs and probes that wait what there is for them, in the order of their calls.
  void match();
  /// Looks once: at what was put back, then at what MPI has. Sets op.found, if there is one.
  [[nodiscard]] int find_message(MpiOperation& op);
  void receive_found(MpiOperation& op);
  /// A probe has a message which this recv must get once it is put back.
  [[nodiscard]] bool may_be_put_back_for(const MpiOperation& op) const noexcept;
  /// Nobody asks for this probe any more: it ends, or its message is put back.
  void give_up(MpiOperation& probe);
  void start(MpiOperation& op);
  void make_communicators(MpiOperation& op);
  /// MPI has ended all requests of it, or one with this code.
  [[nodiscard]] bool test_all(MpiOperation& op, int& code);
  void end(MpiOperation& op, Outcome outcome);
  void look_at_clock(MpiOperation& op, TimePoint now);
  [[nodiscard]] Outcome timeout_of(const MpiOperation& op, TimePoint now) const;
  [[nodiscard]] bool all_have_answered() const noexcept;
  void check_left(MpiOperation& op, TimePoint now);
  void wrong_length(MpiOperation& op, std::int64_t expected);
  /// Cancels the requests of an operation that fails with that outcome, or keeps their memory. The
  /// outcome says so if MPI has the caller's tensors.
  [[nodiscard]] Outcome drop_requests(MpiOperation& op, Outcome outcome);
  void mpi_failed(MpiOperation& op, const char* what, int code);
  void tell_all(const Note& note);
  void free_communicators();

  MpiWorld& world_;
  Spec spec_;
  Place place_;
  foreign::CallComparison comparison_;
  foreign::OperationList<MpiOperation> operations_;
  std::deque<MpiOperation*> queue_;     ///< collectives that MPI has not got yet, in their order
  std::vector<MpiOperation*> waiting_;  ///< recvs and probes for their message, in that order
  std::vector<MpiOperation*> held_;     ///< probes that have a message
  std::vector<FoundMessage> returned_;  ///< messages that were put back, in the order of finding
  std::uint64_t found_ = 0;             ///< messages found so far
  MpiGroup* child_ = nullptr;
  int color_ = -1;
  int key_ = 0;
  std::vector<std::int64_t> answers_;  ///< by rank, to our question; -1: none yet
  /// By rank: the last operation before it left, and the time when we heard of it. Absent: it has
  /// not left.
  std::vector<std::optional<std::pair<std::uint64_t, TimePoint>>> left_;
  bool any_left_ = false;
  std::vector<std::uint64_t> sent_;      ///< messages to each rank
  std::vector<std::uint64_t> received_;  ///< messages from each rank
  std::vector<std::uint64_t> sent_us_;   ///< messages from each rank, as it has told when it left
  bool leaves_later_ = false;
  Outcome fails_later_;
  bool gone_ = false;
  bool was_broken_ = false;  ///< here when this rank left it, or for another rank
  bool released_ = false;
  bool freed_ = false;
  bool unfinished_ = false;  ///< MPI has not ended all that it was given
};

}  // namespace tutti::mpi
