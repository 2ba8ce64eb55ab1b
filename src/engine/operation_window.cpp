#include "engine/operation_window.hpp"

#include <algorithm>

#include "engine/group.hpp"

namespace tutti::engine {

namespace shm = transport::shm;

OperationWindow::OperationWindow(Group& group) noexcept : group_(group) {
  for (Op& op : slots_) op.group = &group;
}

bool OperationWindow::has_room(int most) noexcept {
  const std::uint64_t seq = started_ + 1;
  if (at(seq).state == Op::State::running) return false;
  const auto back = static_cast<std::uint64_t>(most);
  if (seq <= back || group_.local_members.empty()) return true;
  return is_passed_by_all(seq - back);
}

const Op* OperationWindow::first_running() const noexcept {
  const Op* first = nullptr;
  for (const Op& op : slots_) {
    if (op.state == Op::State::running && (first == nullptr || op.seq < first->seq)) first = &op;
  }
  return first;
}

bool OperationWindow::shares_memory_with_running(const Collective& call) const noexcept {
  return std::ranges::any_of(slots_, [&](const Op& op) {
    return op.state == Op::State::running && op.shares_memory_with(call, group_.rank);
  });
}

/// A handle on a group that has ended may be kept for long. It must not hold back slots or staging.
void OperationWindow::close() noexcept { done_upto_ = kClosed; }

bool OperationWindow::is_passed_by_all(std::uint64_t seq) noexcept {
  if (peers_done_ >= seq && done_upto_ >= seq) return true;
  std::uint64_t least = ~std::uint64_t{0};
  for (const int rank : group_.local_members) {
    Member& member = group_.member(rank);
    if (member.block == nullptr && !find_block(group_, member)) return false;
    const std::uint64_t done = shm::value_of(member.block->done);
    least = std::min(least, shm::number_of(done));
    if (has_other_calls(done)) [[unlikely]]
      disagreeing_ = rank;
  }
  peers_done_ = least;
  return least >= seq && done_upto_ >= seq;
}

bool OperationWindow::is_read_by_all(std::uint64_t seq) noexcept {
  if (is_passed_by_all(seq)) return true;
  if (done_upto_ < seq) return false;
  return std::all_of(group_.local_members.begin(), group_.local_members.end(), [&](int rank) {
    Member& member = group_.member(rank);
    if (is_gone(group_, member)) return true;
    if (member.block == nullptr && !find_block(group_, member)) return false;
    return passed_by(*member.block) >= seq;
  });
}

/// We know the fingerprints of the last operations by our own lines.
bool OperationWindow::has_other_calls(std::uint64_t done) const noexcept {
  const std::uint64_t number = shm::number_of(done);
  if (number == 0 || number > started_ || number + shm::kLines <= started_) return false;
  const shm::Arrival& ours = group_.block->line(number);
  return shm::has_come(ours, number) && shm::done_word(number, ours.fingerprint) != done;
}

Queued OperationWindow::dequeue() noexcept {
  Queued first = std::move(queue_.front());
  queue_.pop_front();
  return first;
}

void OperationWindow::take_noted_callbacks(Op& op) {
  op.callbacks.reserve(callbacks_.size());
  for (const auto& [seq, callback] : callbacks_) {
    if (seq == op.seq) op.callbacks.push_back(callback);
  }
  std::erase_if(callbacks_, [&](const auto& entry) { return entry.first == op.seq; });
}

int OperationWindow::fail_queue(CompletionQueue& completions, const Outcome& cause) noexcept {
  for (const auto& [seq, callback] : callbacks_) completions.complete({&callback, 1}, cause);
  callbacks_.clear();
  const auto waiting = static_cast<int>(queue_.size());
  queue_.clear();
  return waiting;
}

}  // namespace tutti::engine
