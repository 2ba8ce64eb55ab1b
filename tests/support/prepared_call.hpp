#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tutti/backend/kinds.hpp>
#include <tutti/tutti.hpp>

#include "support/side.hpp"

namespace tutti::test {

/// How one side of a call is given.
enum class Form { tensor, strided, list };

/// A call as one rank makes it, without its memory.
struct CallPlan {
  Kind kind = Kind::barrier;  ///< send: in a ring, to the next rank and from the one before
  int rank = 0;
  int size = 1;
  int root = 0;
  ReduceOp op = ReduceOp::sum;  ///< results are known of SUM and MAX
  bool uneven = false;          ///< tensors with counts, or splits
  bool apart = false;           ///< all_reduce, reduce, scan: from an input into an output
  Form in = Form::tensor;
  Form out = Form::tensor;
  std::vector<std::size_t> in_counts;  ///< elements of each block
  std::vector<std::size_t> out_counts;
  std::vector<int> members;  ///< new_group
  /// Several tensors in one operation: elements of each, or of its block for each rank; empty: one.
  std::vector<std::size_t> tensors;
  /// What rank `from` gives to rank `to` (0 where all get the same), element i. Of several tensors
  /// `to` counts all of them for rank 0 first.
  std::function<double(int from, std::size_t to, std::size_t i)> value;
};

/// A call with its memory; T is the type of the elements (or support/cell.hpp). Ranks that hold
/// plans that fit can make it on a group, and each then knows whether its own memory is right.
template <class T>
class PreparedCall {
 public:
  explicit PreparedCall(CallPlan plan, DType dtype = *dtype_of<T>())
      : plan_(std::move(plan)),
        dtype_(dtype),
        in_(form_of(plan_.in), plan_.in_counts, dtype),
        out_(form_of(plan_.out), plan_.apart ? plan_.in_counts : plan_.out_counts, dtype) {
    in_.fill([&](std::size_t b, std::size_t i) { return given(b, i); });
  }

  /// Makes the call and waits for it.
  void run(ProcessGroup& group) {
    if (plan_.kind == Kind::new_group) {
      made_ = group.new_group(plan_.members);
      return;
    }
    if (plan_.kind == Kind::send) {
      Work receives = group.irecv(out_.tensor(), (plan_.rank + plan_.size - 1) % plan_.size);
      Work sends = group.isend(in_.tensor(), (plan_.rank + 1) % plan_.size);
      sends.wait();
      receives.wait();
      return;
    }
    start(group).wait();
  }

  /// Any kind but new_group and send.
  [[nodiscard]] Work start(ProcessGroup& group) {
    if (!plan_.tensors.empty()) return start_several(group);
    if (plan_.apart) return start_apart(group);
    const bool root = plan_.rank == plan_.root;
    switch (plan_.kind) {
      case Kind::all_reduce: return group.all_reduce(in_.tensor(), {.op = plan_.op});
      case Kind::broadcast: return group.broadcast(in_.tensor(), {.root = plan_.root});
      case Kind::reduce: return group.reduce(in_.tensor(), {.root = plan_.root, .op = plan_.op});
      case Kind::scan: return group.scan(in_.tensor(), {.op = plan_.op});
      case Kind::exclusive_scan:
        return group.scan(in_.tensor(), {.op = plan_.op, .exclusive = true});
      case Kind::all_gather:
        if (out_.listed()) return group.all_gather(out_.list(), in_.tensor());
        if (!plan_.uneven) return group.all_gather(out_.tensor(), in_.tensor());
        return group.all_gather(out_.tensor(), in_.tensor(), {.output_counts = out_.counts()});
      case Kind::gather:
        if (root && out_.listed())
          return group.gather(out_.list(), in_.tensor(),
                              {.root = plan_.root, .output_counts = counts_of(out_)});
        return group.gather(root ? out_.tensor() : TensorView(), in_.tensor(),
                            {.root = plan_.root, .output_counts = counts_of(out_)});
      case Kind::scatter:
        if (root && in_.listed())
          return group.scatter(out_.tensor(), in_.list(),
                               {.root = plan_.root, .input_counts = counts_of(in_)});
        return group.scatter(out_.tensor(), root ? in_.tensor() : TensorView(),
                             {.root = plan_.root, .input_counts = counts_of(in_)});
      case Kind::reduce_scatter:
        if (in_.listed()) return group.reduce_scatter(out_.tensor(), in_.list(), {.op = plan_.op});
        if (!plan_.uneven)
          return group.reduce_scatter(out_.tensor(), in_.tensor(), {.op = plan_.op});
        return group.reduce_scatter(out_.tensor(), in_.tensor(),
                                    {.op = plan_.op, .input_counts = in_.counts()});
      case Kind::all_to_all:
        if (in_.listed()) return group.all_to_all(out_.list(), in_.list());
        if (!plan_.uneven) return group.all_to_all(out_.tensor(), in_.tensor());
        return group.all_to_all(out_.tensor(), in_.tensor(),
                                {.output_splits = out_.counts(), .input_splits = in_.counts()});
      default: break;
    }
    return group.barrier();
  }

  /// After the call: how many elements are not as they must be, with inputs and gaps between
  /// blocks.
  [[nodiscard]] std::size_t wrong() const {
    if (plan_.kind == Kind::new_group) {
      const bool member = std::count(plan_.members.begin(), plan_.members.end(), plan_.rank) > 0;
      const bool right = static_cast<bool>(made_) == member &&
                         (!member || made_.size() == static_cast<int>(plan_.members.size()));
      return right ? 0 : 1;
    }
    const bool root = plan_.rank == plan_.root;
    const KindTraits& traits = traits_of(plan_.kind);
    if (plan_.apart) {
      if (!uses_output(plan_.kind, plan_.rank, plan_.root))
        return inputs_changed() + out_.touched();
      return inputs_changed() +
             out_.wrong([&](std::size_t b, std::size_t i) { return combined(b, i); });
    }
    if (traits.layout == Layout::same && traits.reduces &&
        uses_output(plan_.kind, plan_.rank, plan_.root))
      return in_.wrong([&](std::size_t b, std::size_t i) { return combined(b, i); });
    if (plan_.kind == Kind::broadcast)
      return in_.wrong([&](std::size_t b, std::size_t i) { return value(plan_.root, b, i); });
    std::size_t all = inputs_changed();
    if (plan_.kind == Kind::gather && !root) return all + out_.touched();
    all += out_.wrong([&](std::size_t b, std::size_t i) { return expected(b, i); });
    return all;
  }

  /// All memory is as it was before the call.
  [[nodiscard]] bool unchanged() const { return inputs_changed() == 0 && out_.touched() == 0; }

  [[nodiscard]] std::string text() const {
    return std::string(to_string(plan_.kind)) + " of " + std::string(to_string(dtype_)) +
           (plan_.uneven ? ", uneven" : "") + (plan_.apart ? ", two buffers" : "") +
           (in_.listed() ? ", list in" : "") + (out_.listed() ? ", list out" : "") + ", rank " +
           std::to_string(plan_.rank) + " of " + std::to_string(plan_.size) + ", block 0 of " +
           std::to_string(!out_.counts().empty()  ? out_.counts()[0]
                          : !in_.counts().empty() ? in_.counts()[0]
                                                  : 0);
  }

 private:
  [[nodiscard]] Work start_apart(ProcessGroup& group) {
    const ConstTensorView input = in_.tensor();
    if (plan_.kind == Kind::all_reduce)
      return group.all_reduce(out_.tensor(), input, {.op = plan_.op});
    if (plan_.kind == Kind::reduce)
      return group.reduce(out_.tensor(), input, {.root = plan_.root, .op = plan_.op});
    const bool exclusive = plan_.kind == Kind::exclusive_scan;
    return group.scan(out_.tensor(), input, {.op = plan_.op, .exclusive = exclusive});
  }
  [[nodiscard]] Work start_several(ProcessGroup& group) {
    switch (plan_.kind) {
      case Kind::broadcast: return group.broadcast_coalesced(in_.list(), {.root = plan_.root});
      case Kind::all_gather: return group.all_gather_coalesced(out_.list(), in_.list());
      case Kind::reduce_scatter:
        return group.reduce_scatter_coalesced(out_.list(), in_.list(), {.op = plan_.op});
      default: break;
    }
    return group.all_reduce_coalesced(in_.list(), {.op = plan_.op});
  }
  /// Of a gather or scatter. Other ranks than the root give all counts or their own alone.
  [[nodiscard]] std::span<const std::size_t> counts_of(const Side<T>& all) const {
    if (!plan_.uneven) return {};
    const std::span<const std::size_t> counts = all.counts();
    if (plan_.rank == plan_.root || plan_.rank % 2 == 0) return counts;
    return counts.subspan(static_cast<std::size_t>(plan_.rank), 1);
  }
  static typename Side<T>::Form form_of(Form form) {
    return static_cast<typename Side<T>::Form>(static_cast<int>(form));
  }
  [[nodiscard]] double value(int from, std::size_t to, std::size_t i) const {
    return plan_.value(from, to, i);
  }
  /// Block b of our input. With one rank an input of one block is a block for rank 0 all the same.
  [[nodiscard]] double given(std::size_t b, std::size_t i) const {
    if (!plan_.tensors.empty() && plan_.kind == Kind::reduce_scatter) {
      const std::size_t each = plan_.tensors[b];
      return value(plan_.rank, i / each * plan_.tensors.size() + b, i % each);
    }
    return value(plan_.rank, plan_.in_counts.size() > 1 ? b : 0, i);
  }
  [[nodiscard]] std::size_t inputs_changed() const {
    return in_.wrong([&](std::size_t b, std::size_t i) { return given(b, i); });
  }
  [[nodiscard]] double combined(std::size_t to, std::size_t i) const {
    double all = value(0, to, i);
    for (int r = 1; r < ranks_in_result(plan_.kind, plan_.rank, 0, plan_.size).count; ++r) {
      const double one = value(r, to, i);
      all = plan_.op == ReduceOp::max ? std::max(all, one) : all + one;
    }
    return all;
  }
  [[nodiscard]] double expected(std::size_t b, std::size_t i) const {
    const auto me = static_cast<std::size_t>(plan_.rank);
    if (!plan_.tensors.empty()) {
      const std::size_t each = plan_.tensors[b];
      return plan_.kind == Kind::all_gather ? value(static_cast<int>(i / each), b, i % each)
                                            : combined(me * plan_.tensors.size() + b, i);
    }
    switch (plan_.kind) {
      case Kind::all_gather:
      case Kind::gather: return value(static_cast<int>(b), 0, i);
      case Kind::scatter: return value(plan_.root, me, i);
      case Kind::reduce_scatter: return combined(me, i);
      case Kind::send: return value((plan_.rank + plan_.size - 1) % plan_.size, 0, i);
      default: return value(static_cast<int>(b), me, i);
    }
  }

  CallPlan plan_;
  DType dtype_;
  Side<T> in_;
  Side<T> out_;
  ProcessGroup made_;
};

}  // namespace tutti::test
