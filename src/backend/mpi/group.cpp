#include "backend/mpi/group.hpp"

#include <algorithm>
#include <new>

#include <tutti/backend/kinds.hpp>
#include "backend/mpi/driver.hpp"
#include "backend/mpi/world.hpp"
#include "base/deadline.hpp"
#include "base/kept.hpp"

// The life of an operation: it is compared, given to MPI, and ended. group_messages.cpp matches
// messages, group_ends.cpp has the failures.
namespace tutti::mpi {
namespace {

/// Messages of a comparison have a tag for the operation and the round. Every MPI has tags up to
/// 32767. So operations further apart share tags, and must not be compared at once.
constexpr std::uint64_t kComparedAtOnce = 1024;
constexpr int kMostRounds = 31;

}  // namespace

MpiGroup::MpiGroup(MpiWorld& world, Spec spec)
    : world_(world),
      spec_(std::move(spec)),
      place_{world.driver().api(),
             world.driver().types(),
             spec_.data,
             spec_.compare,
             spec_.rank,
             static_cast<int>(spec_.members.size()),
             world.driver().largest_tag()},
      comparison_(*this,
                  {.name = spec_.name, .id = spec_.id, .rank = spec_.rank, .size = place_.size},
                  world.config()),
      operations_(world.driver().due()),
      answers_(spec_.members.size(), -1),
      left_(spec_.members.size()),
      sent_(spec_.members.size()),
      received_(spec_.members.size()),
      sent_us_(spec_.members.size()) {}

MpiGroup::~MpiGroup() {
  // MPI may still use the memory of operations that have failed.
  if (unfinished_) base::keep_for_good(std::move(operations_));
}

tutti::Received MpiGroup::release(std::uint64_t ticket) noexcept {
  MpiOperation* const op = operations_.find(ticket);
  if (op != nullptr && op->call.kind == Kind::probe) give_up(*op);
  return operations_.release(ticket);
}

// ---- From submit to the end

std::uint64_t MpiGroup::submit(const Collective& call) {
  MpiOperation& op = operations_.add(call);
  const std::uint64_t ticket = operations_.ticket_of(op);
  if (!operations_.healthy()) return ticket;
  const std::uint64_t probed = call.details == nullptr ? 0 : call.details->probed;
  try {
    prepare(op, rank(), size());
  } catch (const std::bad_alloc&) {
    fail(Outcome(Errc::resource, "group '" + name() + "': no memory for a copy of the tensors of " +
                                     describe(call) + "; the group is broken")
             .with_culprit(rank()),
         true);
    return ticket;
  }
  if (!is_collective(call.kind)) {
    if (call.tag != any_tag &&
        tag_of(place_, call.tag) < 0) {  // both sides refuse it, so nobody waits
      end(op,
          Outcome(Errc::unsupported,
                  "tag " + std::to_string(call.tag) + " is beyond the largest of this MPI (" +
                      std::to_string(largest_tag_of_callers(place_)) + "); take a smaller one"));
      operations_.tidy();
      return ticket;
    }
    start_message(op, probed);
  } else {
    comparison_.take(op);
    queue_.push_back(&op);
    if (queue_.size() <= kComparedAtOnce) begin(op);
    start_next();
  }
  return ticket;
}

void MpiGroup::begin(MpiOperation& op) {
  op.state = MpiOperation::State::comparing;
  comparison_.begin(op);
}

void MpiGroup::began(MpiOperation& op, int code, Request request, const char* what) {
  if (code != 0) return mpi_failed(op, what, code);
  op.requests.push_back(request);
}

void MpiGroup::begin_maximum(foreign::ForeignOperation& call) {
  auto& op = static_cast<MpiOperation&>(call);
  op.greatest = op.fingerprint;
  op.round = 0;
  compare_round(op);
}

void MpiGroup::compare_round(MpiOperation& op) {
  const int distance = 1 << op.round;
  op.sent = op.greatest;
  const int to = (rank() + distance) % size();
  const int from = (rank() + size() - distance) % size();
  const int tag = static_cast<int>(op.seq % kComparedAtOnce) * kMostRounds + op.round;
  constexpr int kBytes = sizeof(op.sent);
  Request request{};
  int code = place_.api.ireceive(op.heard.data(), kBytes, place_.api.byte(), from, tag,
                                 spec_.compare, request);
  if (code == 0) {
    op.requests.push_back(request);
    code = place_.api.isend(op.sent.data(), kBytes, place_.api.byte(), to, tag, spec_.compare,
                            request);
  }
  began(op, code, request, "comparing the calls of the ranks");
}

bool MpiGroup::next_round(MpiOperation& op) {
  for (std::size_t i = 0; i < op.heard.size(); ++i)
    op.greatest[i] = std::max(op.greatest[i], op.heard[i]);
  ++op.round;
  if (1 << op.round >= size()) return false;
  compare_round(op);
  return true;
}

void MpiGroup::begin_lengths(foreign::ForeignOperation& call) {
  auto& op = static_cast<MpiOperation&>(call);
  Request request{};
  const int code =
      place_.api.iall_to_all(op.lengths_sent.data(), op.lengths_got.data(), sizeof(std::uint64_t),
                             place_.api.byte(), spec_.data, request);
  began(op, code, request, "telling the others what it sends");
}

void MpiGroup::begin_codes(foreign::ForeignOperation& call) {
  auto& op = static_cast<MpiOperation&>(call);
  Request request{};
  const int code = place_.api.iall_gather(op.code.data(), op.codes.data(), sizeof(call::CallCode),
                                          place_.api.byte(), spec_.data, request);
  began(op, code, request, "telling the others its call");
}

/// A primitive of the comparison is over.
void MpiGroup::go_on_comparing(MpiOperation& op) {
  if (op.agreement == foreign::Agreement::comparing && next_round(op)) return;
  if (const Outcome found = comparison_.ended(op); !found.ok()) return fail(found, true);
  start_next();
}

/// Later operations wait while one is compared.
void MpiGroup::start_next() {
  while (!queue_.empty() && comparison_.settle(*queue_.front())) {
    MpiOperation& op = *queue_.front();
    queue_.pop_front();
    start(op);
    if (queue_.size() >= kComparedAtOnce) begin(*queue_[kComparedAtOnce - 1]);
  }
}

void MpiGroup::start(MpiOperation& op) {
  op.state = MpiOperation::State::moving;
  if (op.call.kind == Kind::new_group) return make_communicators(op);
  // No elements, on all ranks.
  const bool none = has_data(op.call.kind) && is_collective(op.call.kind) && op.extent.agreed == 0;
  if (none) return end(op, Outcome());
  int code = 0;
  try {
    code = mpi::start(place_, op);
  } catch (const std::bad_alloc&) {
    return fail(Outcome(Errc::resource, "group '" + name() + "': no memory to begin " +
                                            text_of(op) + "; the group is broken"),
                true);
  }
  if (code != 0) return mpi_failed(op, "beginning it", code);
  if (op.requests.empty()) {
    mpi::finish(op, rank(), size());
    return end(op, Outcome());
  }
  advance(op);  // what is done at once costs no pass
}

void MpiGroup::make_communicators(MpiOperation& op) {
  MpiGroup* const child = std::exchange(child_, nullptr);
  Comm data{};
  // Blocks until the other ranks call it, too. They do, since their calls were compared.
  int code = place_.api.split(spec_.data, child == nullptr ? -1 : color_, key_, data);
  if (code == 0 && child != nullptr) code = place_.api.return_errors(data);
  if (code != 0) return mpi_failed(op, "making the communicator of a group", code);
  if (child == nullptr) return end(op, Outcome());
  child->spec_.data = data;
  child->place_.comm = data;
  op.child = child;
  Request request{};
  code = place_.api.iduplicate(data, child->spec_.compare, request);
  if (code != 0) return mpi_failed(op, "duplicating the communicator of a group", code);
  op.requests.push_back(request);
}

bool MpiGroup::test_all(MpiOperation& op, int& code) {
  std::size_t left = 0;
  for (Request& request : op.requests) {
    bool done = false;
    Received received;
    const bool receives = op.call.kind == Kind::recv;
    code = place_.api.test(request, done, receives ? &received : nullptr);
    if (code != 0) {
      // MPI does not tell whether the request has ended, so it keeps its memory. But a receive has:
      // its message was too long, or its sender failed.
      const auto at = op.requests.begin() + (&request - op.requests.data());
      op.requests.erase(op.requests.begin() + static_cast<std::ptrdiff_t>(left),
                        receives ? at + 1 : at);
      return true;
    }
    if (!done) {
      op.requests[left++] = request;
    } else if (receives) {
      note_received(op, received);
    }
  }
  op.requests.resize(left);
  return left == 0;
}

void MpiGroup::note_received(MpiOperation& op, const Received& message) {
  if (message.source < 0) return;
  op.source = message.source;
  op.received = message.bytes;
  ++received_[static_cast<std::size_t>(message.source)];
}

void MpiGroup::advance(MpiOperation& op) {
  int code = 0;
  if (op.requests.empty() || !test_all(op, code)) return;
  if (code != 0) return mpi_failed(op, "MPI's progress", code);
  if (op.state == MpiOperation::State::comparing) return go_on_comparing(op);
  if (op.state == MpiOperation::State::moving) moved(op);
}

void MpiGroup::moved(MpiOperation& op) {
  int code = 0;
  if (op.call.kind == Kind::recv) {
    if (op.source < 0)
      return end(op, Outcome(Errc::aborted, text_of(op) + ": this rank has cancelled it"));
    const auto expected = static_cast<std::int64_t>(op.extent.count * size_of(op.extent.dtype));
    if (op.received != expected) return wrong_length(op, expected);
  }
  if (op.child != nullptr) {
    code = place_.api.return_errors(op.child->spec_.compare);
    if (code != 0) return mpi_failed(op, "making the communicators of a group", code);
    op.child->spec_.made = true;
    op.child->place_.compare = op.child->spec_.compare;
  }
  mpi::finish(op, rank(), size());
  end(op, Outcome());
}

void MpiGroup::end(MpiOperation& op, Outcome outcome) {
  if (op.state == MpiOperation::State::done) return;
  if (op.state == MpiOperation::State::waiting) std::erase(waiting_, &op);
  if (!outcome.ok()) outcome = drop_requests(op, std::move(outcome));
  if (op.requests.empty()) {
    for (Type& type : op.types) (void)place_.api.free(type);
    op.types.clear();
  }
  operations_.end(op, std::move(outcome));
}

void MpiGroup::progress(bool look) {
  if (!fails_later_.ok()) fail(fails_later_, true);
  if (leaves_later_) leave();
  if (gone_ && look) free_communicators();
  if (operations_.idle()) return;
  if (!waiting_.empty()) match();
  operations_.each_running([&](MpiOperation& op) { advance(op); });
  if (look) {
    const TimePoint now = std::chrono::steady_clock::now();
    operations_.each_running([&](MpiOperation& op) {
      if (any_left_) check_left(op, now);
      if (op.state != MpiOperation::State::done) look_at_clock(op, now);
    });
  }
  operations_.tidy();
}

std::uint64_t MpiGroup::child_id(int color) const noexcept {
  return call::chain(spec_.id, {comparison_.last() + 1, static_cast<std::uint64_t>(color), 1});
}

}  // namespace tutti::mpi
