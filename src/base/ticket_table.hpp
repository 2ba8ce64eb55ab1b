#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

namespace tutti::base {

/// Where an operation stands in its TicketTable. Operations derive from it; only the table writes
/// it.
struct TicketPlace {
  bool used = false;
  std::uint32_t generation = 1;  ///< the first use, the second one, ...; never 0
  std::uint32_t index = 0;
};

/// The operations of one group, by their tickets. A ticket says a place and which use of it this
/// is: a ticket that was given up finds nothing. None is 0. Operations stay where they are in
/// memory.
///
/// `Operation` derives from TicketPlace; `reset()` makes it as it was at first, its place aside.
/// Threads: those that hold the lock of the group.
template <class Operation>
class TicketTable {
 public:
  /// An operation that is not used.
  [[nodiscard]] Operation& take() {
    if (free_.empty()) {
      const auto index = static_cast<std::uint32_t>(operations_.size());
      operations_.emplace_back().index = index;
      free_.push_back(index);
    }
    Operation& op = operations_[free_.back()];
    free_.pop_back();
    op.used = true;
    return op;
  }
  [[nodiscard]] static std::uint64_t ticket_of(const Operation& op) noexcept {
    return static_cast<std::uint64_t>(op.generation) << 32 | op.index;
  }
  /// Null: it was given up.
  [[nodiscard]] const Operation* find(std::uint64_t ticket) const noexcept {
    const auto index = static_cast<std::size_t>(ticket & 0xffffffffU);
    if (index >= operations_.size()) return nullptr;
    const Operation& op = operations_[index];
    const auto generation = static_cast<std::uint32_t>(ticket >> 32);
    return op.used && op.generation == generation ? &op : nullptr;
  }
  [[nodiscard]] Operation* find(std::uint64_t ticket) noexcept {
    return const_cast<Operation*>(std::as_const(*this).find(ticket));
  }
  /// Gives the ticket of an operation up, and its place to another one.
  void recycle(Operation& op) {
    const std::uint32_t index = op.index;
    const std::uint32_t next = std::max(op.generation + 1, 1U);  // it may wrap
    op.reset();
    static_cast<TicketPlace&>(op) = {false, next, index};
    free_.push_back(index);
  }

  /// All places, also those that are not used.
  [[nodiscard]] auto begin() noexcept { return operations_.begin(); }
  [[nodiscard]] auto end() noexcept { return operations_.end(); }

 private:
  std::deque<Operation> operations_;
  std::vector<std::uint32_t> free_;
};

}  // namespace tutti::base
