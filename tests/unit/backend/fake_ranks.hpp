#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/foreign/call_comparison.hpp"
#include "backend/foreign/operation_list.hpp"

namespace tutti::foreign {

struct FakeOperation : ForeignOperation {
  enum class State { running, done };
  State state = State::running;
  bool kept = false;  ///< by the library

  [[nodiscard]] bool in_use() const noexcept { return kept; }
  void reset() {
    ForeignOperation::reset();
    state = State::running;
  }
};

/// The ranks of a group in one process, with a library that moves the words of the three primitives
/// when all ranks have begun them. A backend as small as one can be: an operation is over when the
/// ranks agree.
class FakeRanks {
 public:
  struct Options {
    int size = 2;
    bool lengths_at_once = false;
    bool only_rank_0_hears = false;    ///< the codes of the others
    std::vector<Config> configs = {};  ///< by rank; empty: the default
  };

  explicit FakeRanks(Options options) : options_(std::move(options)) {
    options_.configs.resize(static_cast<std::size_t>(options_.size));
    for (int rank = 0; rank < options_.size; ++rank)
      ranks_.push_back(std::make_unique<Rank>(*this, rank));
  }

  /// Its ticket.
  std::uint64_t call(int rank, const Collective& call, const call::Extent& extent = {}) {
    Rank& one = at(rank);
    FakeOperation& op = one.operations.add(call);
    if (!one.operations.healthy()) return one.operations.ticket_of(op);
    op.extent = extent;
    op.code = call::encode(call, extent);
    one.comparison.take(op);
    one.queue.push_back(&op);
    one.comparison.begin(op);
    return one.operations.ticket_of(op);
  }

  /// Until nothing moves any more.
  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (const auto& rank : ranks_) moved = rank->start_next() || moved;
      for (const Primitive primitive : {maximum, lengths, codes})
        moved = deliver(primitive) || moved;
    }
  }

  void fail(int rank, const Outcome& cause) {
    Rank& one = at(rank);
    if (!one.operations.break_with(cause)) return;
    one.queue.clear();
    one.operations.each_running([&](FakeOperation& op) { one.operations.end(op, cause); });
  }

  [[nodiscard]] OperationList<FakeOperation>& operations(int rank) { return at(rank).operations; }
  [[nodiscard]] CallComparison& comparison(int rank) { return at(rank).comparison; }
  /// Primitives that ranks have begun, altogether.
  [[nodiscard]] int begun() const noexcept { return begun_; }

 private:
  enum Primitive : std::size_t { maximum, lengths, codes };

  struct Rank final : CallComparison::Primitives {
    Rank(FakeRanks& ranks, int rank)
        : all(ranks),
          comparison(*this,
                     {.name = "world",
                      .id = 7,
                      .rank = rank,
                      .size = ranks.options_.size,
                      .lengths_at_once = ranks.options_.lengths_at_once},
                     ranks.options_.configs[static_cast<std::size_t>(rank)]),
          operations(due) {}

    void begin(Primitive primitive, ForeignOperation& op) {
      begun[primitive].push_back(static_cast<FakeOperation*>(&op));
      ++all.begun_;
    }
    void begin_maximum(ForeignOperation& op) override { begin(maximum, op); }
    void begin_lengths(ForeignOperation& op) override { begin(lengths, op); }
    void begin_codes(ForeignOperation& op) override { begin(codes, op); }
    std::string name_of(int rank) const override { return "rank " + std::to_string(rank); }
    std::string text_of(const ForeignOperation& op) const override {
      return "operation " + std::to_string(op.seq);
    }

    bool start_next() {
      bool started = false;
      while (!queue.empty() && comparison.settle(*queue.front())) {
        operations.end(*queue.front(), Outcome());
        queue.pop_front();
        started = true;
      }
      return started;
    }

    FakeRanks& all;
    std::vector<base::Due> due;
    CallComparison comparison;
    OperationList<FakeOperation> operations;
    std::deque<FakeOperation*> queue;
    std::array<std::deque<FakeOperation*>, 3> begun;  ///< in the order of their beginning
  };

  [[nodiscard]] Rank& at(int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }

  /// The oldest one, if all ranks have begun it.
  bool deliver(Primitive primitive) {
    std::vector<FakeOperation*> ops;
    for (const auto& rank : ranks_) {
      if (rank->begun[primitive].empty()) return false;
      ops.push_back(rank->begun[primitive].front());
    }
    for (const auto& rank : ranks_) rank->begun[primitive].pop_front();
    for (std::size_t to = 0; to < ops.size(); ++to) {
      for (std::size_t from = 0; from < ops.size(); ++from) {
        if (primitive == lengths) ops[to]->lengths_got[from] = ops[from]->lengths_sent[to];
        if (primitive == codes) ops[to]->codes[from] = ops[from]->code;
        for (std::size_t i = 0; primitive == maximum && i < 2; ++i)
          ops[to]->greatest[i] =
              std::max(from == 0 ? 0 : ops[to]->greatest[i], ops[from]->fingerprint[i]);
      }
    }
    for (int rank = 0; rank < options_.size; ++rank) {
      FakeOperation& op = *ops[static_cast<std::size_t>(rank)];
      // A rank that has given up does not look at it.
      if (op.state == FakeOperation::State::done) continue;
      if (primitive == codes && options_.only_rank_0_hears && rank != 0) continue;
      const Outcome found = at(rank).comparison.ended(op);
      if (found.ok()) continue;
      for (int one = 0; one < options_.size; ++one) {
        if (one == rank || options_.only_rank_0_hears) fail(one, found);
      }
    }
    return true;
  }

  Options options_;
  int begun_ = 0;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace tutti::foreign
