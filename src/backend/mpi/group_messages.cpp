#include <algorithm>
#include <utility>

#include "backend/mpi/driver.hpp"
#include "backend/mpi/group.hpp"
#include "backend/mpi/world.hpp"

// Which message a recv or probe gets. Among recvs MPI decides. But MPI has no probe that waits in
// its turn, and takes no message back. So a recv stays here while a probe before it waits for the
// same messages, or has found one that may be put back: then it gets its message as a probe does.
namespace tutti::mpi {
namespace {

/// One message may be for both.
bool compete(const MpiOperation& one, const MpiOperation& other) noexcept {
  const bool same_tag = one.tag == other.tag || (one.tag < 0 && fits_any_tag(other.call.tag)) ||
                        (other.tag < 0 && fits_any_tag(one.call.tag));
  return same_tag && (one.call.root == any_source || other.call.root == any_source ||
                      one.call.root == other.call.root);
}

bool fits(const FoundMessage& message, const MpiOperation& op) noexcept {
  return (message.tag == op.tag || (op.tag < 0 && message.of_caller)) &&
         (op.call.root == any_source || op.call.root == message.source);
}

}  // namespace

void MpiGroup::start_message(MpiOperation& op, std::uint64_t probed) {
  if (op.call.kind == Kind::send) {
    ++sent_[static_cast<std::size_t>(op.call.root)];
    return start(op);
  }
  op.tag = op.call.tag == any_tag ? -1 : tag_of(place_, op.call.tag);
  if (probed != 0) {
    MpiOperation* const probe = operations_.find(probed);
    const auto held = std::find(held_.begin(), held_.end(), probe);
    if (held == held_.end())
      return end(op, Outcome(Errc::internal, text_of(op) + ": the message is not there"));
    held_.erase(held);
    op.found = std::exchange(probe->found, std::nullopt);
    return receive_found(op);
  }
  const bool waits = std::any_of(waiting_.begin(), waiting_.end(),
                                 [&](const MpiOperation* one) { return compete(*one, op); });
  const bool put_back = std::any_of(returned_.begin(), returned_.end(),
                                    [&](const FoundMessage& one) { return fits(one, op); });
  if (op.call.kind == Kind::recv && op.tag >= 0 && !waits && !put_back && !may_be_put_back_for(op))
    return start(op);
  op.state = MpiOperation::State::waiting;
  waiting_.push_back(&op);
  match();
  const bool only_looks = op.call.kind == Kind::probe && op.call.timeout.count() == 0;
  if (only_looks && op.state == MpiOperation::State::waiting) end(op, Outcome());
}

bool MpiGroup::may_be_put_back_for(const MpiOperation& op) const noexcept {
  return std::any_of(held_.begin(), held_.end(),
                     [&](const MpiOperation* probe) { return fits(*probe->found, op); });
}

int MpiGroup::find_message(MpiOperation& op) {
  const auto first = std::find_if(returned_.begin(), returned_.end(),
                                  [&](const FoundMessage& one) { return fits(one, op); });
  if (first != returned_.end()) {
    op.found = *first;
    returned_.erase(first);
  }
  const int largest = largest_tag_of_callers(place_);
  while (!op.found) {
    FoundMessage message;
    Received described;
    bool is_there = false;
    const int code =
        place_.api.improbe(op.call.root, op.tag, place_.comm, is_there, message.handle, described);
    if (code != 0 || !is_there) return code;
    message.source = described.source;
    message.tag = described.tag;
    message.of_caller = described.tag <= largest && fits_any_tag(described.tag);
    message.bytes = described.bytes;
    message.number = found_++;
    if (fits(message, op))
      op.found = message;
    else
      returned_.push_back(message);  // of the library itself, whose recv finds it there
  }
  if (op.tag < 0) op.call.tag = op.tag = op.found->tag;
  return 0;
}

void MpiGroup::match() {
  for (std::size_t i = 0; i < waiting_.size();) {  // callees may take from it
    MpiOperation& op = *waiting_[i];
    const auto own = waiting_.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::any_of(waiting_.begin(), own,
                    [&](const MpiOperation* before) { return compete(*before, op); })) {
      ++i;
      continue;
    }
    if (const int code = find_message(op); code != 0)
      return mpi_failed(op, "looking for its message", code);
    const bool receives = op.call.kind == Kind::recv;
    if (!op.found && (!receives || op.tag < 0 || may_be_put_back_for(op))) {
      ++i;
      continue;
    }
    waiting_.erase(own);
    if (!op.found) {
      start(op);  // nothing is before it any more: MPI's own recv
    } else if (receives) {
      receive_found(op);
    } else {
      held_.push_back(&op);
      end(op, Outcome());
    }
  }
}

void MpiGroup::receive_found(MpiOperation& op) {
  const auto expected = static_cast<std::int64_t>(op.extent.count * size_of(op.extent.dtype));
  if (op.found->bytes == expected) return start(op);
  op.source = op.found->source;
  op.received = op.found->bytes;
  wrong_length(op, expected);
}

std::optional<ProbedMessage> MpiGroup::probed(std::uint64_t ticket) const {
  const MpiOperation* const op = operations_.find(ticket);
  if (op == nullptr || op->call.kind != Kind::probe || !op->found) return std::nullopt;
  ProbedMessage message;
  message.source = op->found->source;
  message.tag = op->call.tag;
  message.count = static_cast<std::size_t>(op->found->bytes);
  message.is_bytes = true;
  return message;
}

bool MpiGroup::cancel(std::uint64_t ticket) {
  MpiOperation* const op = operations_.find(ticket);
  if (op == nullptr || op->call.kind != Kind::recv || op->found ||
      op->state == MpiOperation::State::done)
    return false;
  if (op->state == MpiOperation::State::moving) {
    bool done = false;
    Received message;
    if (const int code = place_.api.cancel(op->requests.front(), done, message); code != 0) {
      mpi_failed(*op, "cancelling it", code);
      return false;
    }
    if (!done) return false;
    op->requests.clear();
    note_received(*op, message);
  }
  const bool cancelled = op->source < 0;
  moved(*op);
  operations_.tidy();
  return cancelled;
}

void MpiGroup::give_up(MpiOperation& probe) {
  if (probe.state == MpiOperation::State::waiting) return end(probe, Outcome());
  const auto held = std::find(held_.begin(), held_.end(), &probe);
  if (held == held_.end()) return;
  held_.erase(held);
  const auto behind =
      std::find_if(returned_.begin(), returned_.end(),
                   [&](const FoundMessage& one) { return one.number > probe.found->number; });
  returned_.insert(behind, *std::exchange(probe.found, std::nullopt));
}

}  // namespace tutti::mpi
