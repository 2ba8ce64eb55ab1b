#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <tutti/tutti.hpp>

// Random calls of the operations that have a block for each rank, in every form: one tensor, a list
// of tensors, uneven blocks, strides, in place. Results are known beforehand; whole numbers, so
// sums are exact.
namespace tutti::test {

/// One side of a call: blocks of elements of T, each somewhere in memory, with marks between them
/// that must stay as they are.
template <class T>
class Side {
 public:
  enum class Form { tensor, strided, list };

  Side(Form form, std::vector<std::size_t> counts) : form_(form), counts_(std::move(counts)) {
    std::size_t all = 0;
    for (const std::size_t count : counts_) all += count;
    const std::size_t step = form_ == Form::strided ? 2 : 1;
    memory_.assign((all + counts_.size() + 1) * step, T(kMark));
  }

  [[nodiscard]] bool listed() const { return form_ == Form::list; }
  [[nodiscard]] const std::vector<std::size_t>& counts() const { return counts_; }

  [[nodiscard]] TensorView tensor() {
    std::size_t all = 0;
    for (const std::size_t count : counts_) all += count;
    if (form_ != Form::strided) return TensorView(memory_.data(), *dtype_of<T>(), all);
    const std::int64_t shape[] = {static_cast<std::int64_t>(all)};
    const std::int64_t strides[] = {2};
    return TensorView(memory_.data(), *dtype_of<T>(), shape, strides);
  }
  [[nodiscard]] std::vector<TensorView> list() {
    std::vector<TensorView> views;
    for (std::size_t b = 0; b < counts_.size(); ++b)
      views.emplace_back(&memory_[place(b, 0)], *dtype_of<T>(), counts_[b]);
    return views;
  }

  template <class Value>
  void fill(Value value) {
    for (std::size_t b = 0; b < counts_.size(); ++b) {
      for (std::size_t i = 0; i < counts_[b]; ++i) memory_[place(b, i)] = T(value(b, i));
    }
  }
  /// How many elements, marks included, are not as they must be.
  template <class Value>
  [[nodiscard]] std::size_t wrong(Value value) const {
    std::vector<T> expected(memory_.size(), T(kMark));
    for (std::size_t b = 0; b < counts_.size(); ++b) {
      for (std::size_t i = 0; i < counts_[b]; ++i) expected[place(b, i)] = T(value(b, i));
    }
    std::size_t n = 0;
    for (std::size_t at = 0; at < memory_.size(); ++at) n += memory_[at] != expected[at] ? 1 : 0;
    return n;
  }
  [[nodiscard]] std::size_t touched() const {
    std::size_t n = 0;
    for (const T& one : memory_) n += one != T(kMark) ? 1 : 0;
    return n;
  }

 private:
  static constexpr int kMark = -77;
  [[nodiscard]] std::size_t place(std::size_t block, std::size_t index) const {
    std::size_t at = index;
    for (std::size_t b = 0; b < block; ++b) at += counts_[b] + (form_ == Form::list ? 1 : 0);
    return form_ == Form::strided ? at * 2 : at;
  }

  Form form_;
  std::vector<std::size_t> counts_;
  std::vector<T> memory_;
};

/// What rank `from` gives to rank `to`, element i.
inline double block_value(int from, std::size_t to, std::size_t i, std::uint64_t salt) {
  return static_cast<double>((i * 31 + salt * 7 + to * 17 + static_cast<std::size_t>(from) * 13) %
                             61) -
         30;
}

/// A call of one kind with its memory; T is the type of the elements.
template <class T>
class BlockCall {
 public:
  /// Drawn alike on all ranks from `random`; what is free on each rank from `own`.
  BlockCall(ProcessGroup& group, Kind kind, std::mt19937_64& random, std::mt19937_64& own,
            std::size_t most)
      : rank_(group.rank()), size_(group.size()), kind_(kind) {
    const auto ranks = static_cast<std::size_t>(size_);
    const std::size_t limits[] = {2, 13, 200, 3000, most};
    const std::size_t n = random() % (limits[random() % 5] + 1);
    salt_ = random() % 1000;
    root_ = static_cast<int>(random() % ranks);
    uneven_ = random() % 2 == 0 && (kind == Kind::all_gather || kind == Kind::reduce_scatter ||
                                    kind == Kind::all_to_all);
    max_ = random() % 4 == 0;
    table_.assign(ranks * ranks, n);
    if (uneven_) {
      for (std::size_t& count : table_) count = random() % (2 * n + 1);
    }
    if (kind != Kind::all_to_all) {  // one row for all
      for (std::size_t s = 1; s < ranks; ++s) {
        for (std::size_t d = 0; d < ranks; ++d) table_[s * ranks + d] = table_[d];
      }
    }
    const auto me = static_cast<std::size_t>(rank_);
    std::vector<std::size_t> row;
    std::vector<std::size_t> column;
    for (std::size_t r = 0; r < ranks; ++r) {
      row.push_back(table_[me * ranks + r]);
      column.push_back(table_[r * ranks + me]);
    }
    const std::vector<std::size_t> mine{table_[me]};
    const auto all_forms = [&] { return static_cast<typename Side<T>::Form>(own() % 3); };
    const auto tensor_forms = [&] { return static_cast<typename Side<T>::Form>(own() % 2); };
    // Splits are of tensors; with a list on one side only a list on the other will do.
    auto both = all_forms();
    switch (kind) {
      case Kind::all_gather:
      case Kind::gather: make(tensor_forms(), mine, all_forms(), row); break;
      case Kind::scatter:
      case Kind::reduce_scatter: make(all_forms(), row, tensor_forms(), mine); break;
      case Kind::all_to_all:
        // If one gives splits, all do: a list gives them.
        if (!uneven_ && both == Side<T>::Form::list) both = Side<T>::Form::tensor;
        make(both, row, both, column);
        break;
      default: make(tensor_forms(), mine, Side<T>::Form::tensor, {}); break;  // reduce: in place
    }
    in_->fill(
        [&](std::size_t b, std::size_t i) { return block_value(rank_, target(b), i, salt_); });
  }

  [[nodiscard]] Work start(ProcessGroup& group) {
    const ReduceOp op = max_ ? ReduceOp::max : ReduceOp::sum;
    const bool root = rank_ == root_;
    switch (kind_) {
      case Kind::reduce: return group.reduce(in_->tensor(), {.root = root_, .op = op});
      case Kind::all_gather:
        if (out_->listed()) return group.all_gather(out_->list(), in_->tensor());
        if (!uneven_) return group.all_gather(out_->tensor(), in_->tensor());
        return group.all_gather(out_->tensor(), in_->tensor(), {.output_counts = out_->counts()});
      case Kind::gather:
        if (!root) return group.gather(TensorView(), in_->tensor(), {.root = root_});
        if (out_->listed()) return group.gather(out_->list(), in_->tensor(), {.root = root_});
        return group.gather(out_->tensor(), in_->tensor(), {.root = root_});
      case Kind::scatter:
        if (!root) return group.scatter(out_->tensor(), TensorView(), {.root = root_});
        if (in_->listed()) return group.scatter(out_->tensor(), in_->list(), {.root = root_});
        return group.scatter(out_->tensor(), in_->tensor(), {.root = root_});
      case Kind::reduce_scatter:
        if (in_->listed()) return group.reduce_scatter(out_->tensor(), in_->list(), {.op = op});
        if (!uneven_) return group.reduce_scatter(out_->tensor(), in_->tensor(), {.op = op});
        return group.reduce_scatter(out_->tensor(), in_->tensor(),
                                    {.op = op, .input_counts = in_->counts()});
      default: break;
    }
    if (in_->listed()) return group.all_to_all(out_->list(), in_->list());
    if (!uneven_) return group.all_to_all(out_->tensor(), in_->tensor());
    return group.all_to_all(out_->tensor(), in_->tensor(),
                            {.output_splits = out_->counts(), .input_splits = in_->counts()});
  }

  void check() const {
    const bool root = rank_ == root_;
    const auto given = [&](std::size_t b, std::size_t i) {
      return block_value(rank_, target(b), i, salt_);
    };
    if (kind_ == Kind::reduce) {
      const auto sum = [&](std::size_t, std::size_t i) { return combined(0, i); };
      EXPECT_EQ(root ? in_->wrong(sum) : in_->wrong(given), 0U) << text();
      return;
    }
    EXPECT_EQ(in_->wrong(given), 0U) << "an input was written: " << text();
    if (kind_ == Kind::gather && !root) {
      EXPECT_EQ(out_->touched(), 0U) << text();
      return;
    }
    EXPECT_EQ(out_->wrong([&](std::size_t b, std::size_t i) { return expected(b, i); }), 0U)
        << text();
  }

 private:
  using Form = typename Side<T>::Form;
  void make(Form in, std::vector<std::size_t> in_counts, Form out,
            std::vector<std::size_t> out_counts) {
    in_ = std::make_unique<Side<T>>(in, std::move(in_counts));
    out_ = std::make_unique<Side<T>>(out, std::move(out_counts));
  }
  /// Whom block b of an input is for.
  [[nodiscard]] std::size_t target(std::size_t b) const { return in_->counts().size() > 1 ? b : 0; }
  [[nodiscard]] double combined(std::size_t to, std::size_t i) const {
    double all = block_value(0, to, i, salt_);
    for (int r = 1; r < size_; ++r) {
      const double one = block_value(r, to, i, salt_);
      all = max_ ? std::max(all, one) : all + one;
    }
    return all;
  }
  [[nodiscard]] double expected(std::size_t b, std::size_t i) const {
    // With one rank an input of one block is a block for rank 0 all the same.
    const auto me = static_cast<std::size_t>(rank_);
    switch (kind_) {
      case Kind::all_gather:
      case Kind::gather: return block_value(static_cast<int>(b), 0, i, salt_);
      case Kind::scatter: return block_value(root_, me, i, salt_);
      case Kind::reduce_scatter: return combined(me, i);
      default: return block_value(static_cast<int>(b), me, i, salt_);
    }
  }
  [[nodiscard]] std::string text() const {
    return std::string(to_string(kind_)) + " of " + std::string(to_string(*dtype_of<T>())) +
           (uneven_ ? ", uneven" : "") + (in_->listed() ? ", list in" : "") +
           (out_->listed() ? ", list out" : "") + ", rank " + std::to_string(rank_) + " of " +
           std::to_string(size_) + ", block 0 of " +
           std::to_string(out_->counts().empty() ? in_->counts()[0] : out_->counts()[0]);
  }

  int rank_;
  int size_;
  Kind kind_;
  std::uint64_t salt_ = 0;
  int root_ = 0;
  bool uneven_ = false;
  bool max_ = false;
  std::vector<std::size_t> table_;
  std::unique_ptr<Side<T>> in_;
  std::unique_ptr<Side<T>> out_;
};

inline constexpr Kind kBlockKinds[] = {Kind::reduce,  Kind::all_gather,     Kind::gather,
                                       Kind::scatter, Kind::reduce_scatter, Kind::all_to_all};

/// `rounds` rounds of up to 12 calls in flight, waited for in a random order.
template <class T>
void run_blocks(ProcessGroup& group, std::uint64_t seed, int rounds, std::size_t most) {
  std::mt19937_64 random(seed);
  std::mt19937_64 own(seed + 1000 + static_cast<std::uint64_t>(group.rank()));
  for (int round = 0; round < rounds; ++round) {
    const std::size_t n = 1 + random() % (round % 3 == 0 ? 12 : 3);
    std::vector<std::unique_ptr<BlockCall<T>>> calls;
    std::vector<Work> works;
    for (std::size_t i = 0; i < n; ++i) {
      calls.push_back(
          std::make_unique<BlockCall<T>>(group, kBlockKinds[random() % 6], random, own, most));
      works.push_back(calls.back()->start(group));
    }
    std::vector<std::size_t> order(n);
    for (std::size_t i = 0; i < n; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), own);
    for (const std::size_t i : order) works[i].wait();
    for (const auto& call : calls) call->check();
  }
}

}  // namespace tutti::test
