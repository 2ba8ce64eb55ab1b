#include <string>
#include <string_view>
#include <vector>

#include "base/format.hpp"
#include "base/index.hpp"
#include "call/factor.hpp"
#include "group/process_group_impl.hpp"

// Several tensors in one operation, which treats their pieces as one tensor.
namespace tutti {
inline namespace v0 {
namespace {

/// The view that stands for all tensors: it has dtype, device and count, but no memory.
TensorView standing_for(std::span<const Piece> pieces) noexcept {
  std::size_t count = 0;
  for (const Piece& piece : pieces) count += piece.count;
  const TensorView& like = pieces.front().view;
  return TensorView(nullptr, like.dtype(), count, like.device());
}

/// All tensors one after the other.
std::vector<Piece> whole(std::span<const TensorView> views) {
  std::vector<Piece> pieces;
  pieces.reserve(views.size());
  for (const TensorView& view : views) pieces.push_back({view, 0, view.count()});
  return pieces;
}

/// The blocks of rank 0 of all tensors, then those of rank 1, ...
std::vector<Piece> by_blocks(std::span<const TensorView> views, int size) {
  const auto ranks = base::as_size(size);
  std::vector<Piece> pieces;
  pieces.reserve(views.size() * ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    for (const TensorView& view : views)
      pieces.push_back({view, r * (view.count() / ranks), view.count() / ranks});
  }
  return pieces;
}

Collective call_of(Kind kind, Details& details, std::span<const Piece> outputs,
                   std::span<const Piece> inputs) noexcept {
  details.output_pieces = outputs;
  details.input_pieces = inputs;
  Collective call;
  call.kind = kind;
  call.output = standing_for(outputs);
  call.input = standing_for(inputs);
  call.details = &details;
  return call;
}

[[noreturn]] void refuse(const char* what, std::string_view group, const std::string& text) {
  raise(Outcome(Errc::invalid_argument, base::format("{} in group '{}': {}", what, group, text)));
}

void check_list(const char* what, std::string_view group, std::span<const TensorView> views) {
  if (views.empty()) refuse(what, group, "the list of tensors is empty");
  for (std::size_t t = 1; t < views.size(); ++t) {
    if (views[t].dtype() == views[0].dtype()) continue;
    refuse(
        what, group,
        base::format("tensor {} is {}, but tensor 0 is {}; all must have one dtype: call once for "
                     "each dtype",
                     t, to_string(views[t].dtype()), to_string(views[0].dtype())));
  }
}

void check_lists(const char* what, std::string_view group, std::span<const TensorView> outputs,
                 std::span<const TensorView> inputs) {
  check_list(what, group, outputs);
  check_list(what, group, inputs);
  if (outputs.front().dtype() != inputs.front().dtype())
    refuse(what, group, "inputs and outputs must have one dtype");
}

/// Checks that each tensor of `all` has, for each rank, a block as large as its counterpart.
void check_blocks(const char* what, std::string_view group, const char* name,
                  std::span<const TensorView> all, std::span<const TensorView> blocks, int size) {
  const auto ranks = base::as_size(size);
  if (all.size() != blocks.size())
    refuse(what, group,
           base::format("{} {}s do not fit to {} tensors; give one for each", all.size(), name,
                        blocks.size()));
  for (std::size_t t = 0; t < all.size(); ++t) {
    if (all[t].count() == blocks[t].count() * ranks) continue;
    refuse(what, group,
           base::format("{} {} has {} elements; it must have {} times its counterpart's {}", name,
                        t, all[t].count(), ranks, blocks[t].count()));
  }
}

}  // namespace

Work ProcessGroup::all_reduce_coalesced(std::span<const TensorView> buffers,
                                        const AllReduceOptions& options) {
  check_list("all_reduce_coalesced", name(), buffers);
  if (buffers.size() == 1) return all_reduce(buffers.front(), options);
  const std::vector<Piece> pieces = whole(buffers);
  call::Factor factor(options.op, buffers.front().dtype(), options.factor, options.factors);
  Details details;
  details.factor = factor.view();
  Collective call = call_of(Kind::all_reduce, details, pieces, pieces);
  call.op = options.op;
  return impl_->submit(call, options.timeout, false);
}

Work ProcessGroup::broadcast_coalesced(std::span<const TensorView> buffers,
                                       const BroadcastOptions& options) {
  check_list("broadcast_coalesced", name(), buffers);
  if (buffers.size() == 1) return broadcast(buffers.front(), options);
  const std::vector<Piece> pieces = whole(buffers);
  Details details;
  Collective call = call_of(Kind::broadcast, details, pieces, pieces);
  call.root = options.root;
  return impl_->submit(call, options.timeout, false);
}

Work ProcessGroup::all_gather_coalesced(std::span<const TensorView> outputs,
                                        std::span<const TensorView> inputs,
                                        const AllGatherOptions& options) {
  constexpr const char* kName = "all_gather_coalesced";
  check_lists(kName, name(), outputs, inputs);
  if (!options.output_counts.empty())
    refuse(kName, name(), "output_counts: blocks must be alike on all ranks here");
  const std::vector<Piece> in = whole(inputs);
  std::vector<Piece> out;
  if (size() > 1 && outputs.size() == inputs.size() * base::as_size(size())) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const TensorView& input = inputs[i % inputs.size()];
      if (outputs[i].count() == input.count()) continue;
      refuse(kName, name(),
             base::format("output {} has {} elements, but input {} has {}", i, outputs[i].count(),
                          i % inputs.size(), input.count()));
    }
    out = whole(outputs);
  } else {
    check_blocks(kName, name(), "output", outputs, inputs, size());
    out = by_blocks(outputs, size());
  }
  Details details;
  Collective call = call_of(Kind::all_gather, details, out, in);
  return impl_->submit(call, options.timeout, false);
}

Work ProcessGroup::reduce_scatter_coalesced(std::span<const TensorView> outputs,
                                            std::span<const TensorView> inputs,
                                            const ReduceScatterOptions& options) {
  constexpr const char* kName = "reduce_scatter_coalesced";
  check_lists(kName, name(), outputs, inputs);
  if (!options.input_counts.empty())
    refuse(kName, name(), "input_counts: blocks must be alike on all ranks here");
  if (call::is_given(options.factors))
    refuse(kName, name(), "factors: give one number (factor) for all tensors");
  check_blocks(kName, name(), "input", inputs, outputs, size());
  const std::vector<Piece> in = by_blocks(inputs, size());
  const std::vector<Piece> out = whole(outputs);
  call::Factor factor(options.op, outputs.front().dtype(), options.factor, options.factors);
  Details details;
  details.factor = factor.view();
  Collective call = call_of(Kind::reduce_scatter, details, out, in);
  call.op = options.op;
  return impl_->submit(call, options.timeout, false);
}

}  // namespace v0
}  // namespace tutti
