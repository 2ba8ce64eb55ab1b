#include "call/call_check.hpp"

#include <numeric>
#include <span>

#include <tutti/backend/kinds.hpp>
#include "base/element_unit.hpp"
#include "base/format.hpp"
#include "base/index.hpp"
#include "call/factor.hpp"
#include "call/pieces_check.hpp"
#include "call/views_check.hpp"

namespace tutti::call {
namespace {

std::string text_of_wrong_number(std::size_t counts, std::string_view side, int size) {
  return base::format("{} counts for the {} in a group of {}; give one for each rank", counts, side,
                      size);
}

/// One side of a call: one tensor, or one for each rank.
struct Side {
  std::string_view name;  ///< "input"
  const TensorView& tensor;
  std::span<const TensorView> blocks;
  std::span<const std::size_t> counts;

  [[nodiscard]] bool listed() const noexcept { return !blocks.empty(); }
  /// Elements of the block of that rank of so many.
  [[nodiscard]] std::size_t count_of(std::size_t rank, std::size_t ranks) const noexcept {
    if (listed()) return blocks[rank].count();
    return counts.empty() ? tensor.count() / ranks : counts[rank];
  }
};

/// `marked`: a list of tensors must have counts beside it if they differ (Uneven::pairwise).
std::string check_side(const Side& side, const TensorView& like, int size, bool written,
                       bool marked) {
  const auto ranks = base::as_size(size);
  const std::string_view name = side.name;
  if (!side.listed()) {
    if (std::string wrong = check_alike(side.tensor, name, like); !wrong.empty()) return wrong;
    if (!side.counts.empty()) {
      std::string wrong = what_is_wrong_with_counts(side.counts, false, name, side.tensor, size);
      if (!wrong.empty()) return wrong;
    }
    return check_memory(side.tensor, side.name, written);
  }
  if (!side.counts.empty() && !marked)
    return base::format("counts and a list of tensors for the {}: the tensors tell the counts",
                        name);
  if (side.blocks.size() != ranks)
    return base::format("a list of {} tensors as {} in a group of {}; give one for each rank",
                        side.blocks.size(), name, ranks);
  if (!side.counts.empty() && side.counts.size() != ranks)
    return text_of_wrong_number(side.counts.size(), name, size);
  for (std::size_t r = 0; r < ranks; ++r) {
    const std::string which = base::format("{} for rank {}", name, r);
    if (std::string wrong = check_alike(side.blocks[r], which, like); !wrong.empty()) return wrong;
    if (std::string wrong = check_memory(side.blocks[r], which, written); !wrong.empty())
      return wrong;
    const base::ElementUnit unit = base::unit_of(side.blocks[r]);
    if (!side.counts.empty() && side.counts[r] != side.blocks[r].count() / unit.size)
      return base::format("the count for rank {} is {}, but the {} has {} {}", r, side.counts[r],
                          which, side.blocks[r].count() / unit.size, unit.name);
  }
  return {};
}

/// The count of a rank that has only one of the blocks.
std::string check_own_count(const Side& all, const Side& one, int size) {
  if (all.counts.empty()) return {};
  if (all.counts.size() != 1)
    return text_of_wrong_number(all.counts.size(), all.name, size) +
           ", or on a rank other than the root its own count alone";
  const base::ElementUnit unit = base::unit_of(one.tensor);
  if (all.counts[0] == one.tensor.count()) return {};
  return base::format("the count for this rank is {}, but its {} has {} {}",
                      all.counts[0] / unit.size, one.name, one.tensor.count() / unit.size,
                      unit.name);
}

/// The side of all blocks against the side of one block (Layout::gather and scatter).
std::string check_blocks(const Side& all, const Side& one, Uneven sizes, int rank, int size) {
  const auto ranks = base::as_size(size);
  const TensorView& own = one.tensor;
  const base::ElementUnit unit = base::unit_of(all.tensor, own);
  const bool told = all.listed() || !all.counts.empty();
  if (!told && all.tensor.count() != own.count() * ranks)
    return base::format("the {} has {} {}; it must have {} times the {}'s {}", all.name,
                        all.tensor.count() / unit.size, unit.name, ranks, one.name,
                        own.count() / unit.size);
  const std::size_t mine = all.count_of(base::as_size(rank), ranks);
  if (mine != own.count())
    return base::format("block {} of the {} has {} {}, but this rank's {} has {}", rank, all.name,
                        mine / unit.size, unit.name, one.name, own.count() / unit.size);
  const bool alike = sizes == Uneven::pairwise && all.counts.empty();
  for (std::size_t r = 0; r < ranks && alike; ++r) {
    const std::size_t count = all.count_of(r, ranks);
    if (count != own.count())
      return base::format(
          "the {} for rank {} has {} elements, not {}; all blocks must have the same number, or "
          "all ranks give {}_counts",
          all.name, r, count, own.count(), all.name);
  }
  return {};
}

std::string check_exchange(const Side& input, const Side& output, int rank, int size) {
  const auto ranks = base::as_size(size);
  const bool in = input.listed() || !input.counts.empty();
  const bool out = output.listed() || !output.counts.empty();
  const base::ElementUnit unit = base::unit_of(input.tensor, output.tensor);
  if (in != out) return "splits (or lists of tensors) for one side only; give both or none";
  if (!in && input.tensor.count() != output.tensor.count())
    return base::format("the output has {} {} and the input {}; without splits they must be equal",
                        output.tensor.count() / unit.size, unit.name,
                        input.tensor.count() / unit.size);
  for (const TensorView* const side : {&input.tensor, &output.tensor}) {
    if (in || side->count() / side->struct_size() % ranks == 0) continue;
    return base::format("{} elements cannot be divided evenly among {} ranks; give splits",
                        side->count() / side->struct_size(), ranks);
  }
  const auto mine = base::as_size(rank);
  const std::size_t sent = input.count_of(mine, ranks);
  const std::size_t got = output.count_of(mine, ranks);
  if (sent != got)
    return base::format("this rank sends itself {} {} but expects {}", sent / unit.size, unit.name,
                        got / unit.size);
  return {};
}

/// Do the sides of this rank fit together, as its kind of call wants it?
std::string check_layout(const Collective& call, const Side& input, const Side& output, int rank,
                         int size) {
  const KindTraits& traits = traits_of(call.kind);
  switch (traits.layout) {
    case Layout::same:
      if (std::string bad = check_alike(call.output, "output", call.input); !bad.empty())
        return bad;
      if (call.output.count() == call.input.count()) return {};
      return base::format("the output has {} elements, the input {}; both must have as many",
                          call.output.count(), call.input.count());
    case Layout::gather:
      if (!uses_output(call.kind, rank, call.root)) return check_own_count(output, input, size);
      return check_blocks(output, input, traits.uneven, rank, size);
    case Layout::scatter:
      if (!uses_input(call.kind, rank, call.root)) return check_own_count(input, output, size);
      return check_blocks(input, output, traits.uneven, rank, size);
    case Layout::exchange: return check_exchange(input, output, rank, size);
    case Layout::none:
    case Layout::pair: return {};
  }
  return {};
}

std::string check_factor(const Collective& call, const TensorView& factor) {
  const KindTraits& traits = traits_of(call.kind);
  const bool scaled = call.op == ReduceOp::premul_sum && traits.reduces;
  if (!scaled && is_given(factor)) return "a factor is given, but the op is not PREMUL_SUM";
  if (scaled) {
    if (!is_given(factor)) return "PREMUL_SUM needs a factor";
    if (std::string bad = check_memory(factor, "factor", false); !bad.empty()) return bad;
    if (factor.dtype() != call.input.dtype())
      return base::format("the factor is {}; it must have the input's dtype, {}",
                          to_string(factor.dtype()), to_string(call.input.dtype()));
    const bool number_of_host = factor.count() == 1 && factor.device() == Device();
    if (!number_of_host && !factor.alike(call.input))
      return check_alike(factor, "factor", call.input);
    if (factor.count() != 1 && factor.count() != call.input.count())
      return base::format("the factor has {} elements; it must have one, or as many as the input",
                          factor.count());
  }
  return {};
}

}  // namespace

std::string text_of_large_count(std::string_view side, std::size_t count,
                                const ConstTensorView& tensor) {
  return base::format("a count of {} for the {}, which has {} elements", count, side,
                      tensor.count() / tensor.struct_size());
}

std::string what_is_wrong_with_counts(std::span<const std::size_t> counts, bool of_callers,
                                      std::string_view side, const TensorView& tensor, int size) {
  const base::ElementUnit unit = base::unit_of(tensor);
  const std::size_t divided = of_callers ? 1 : unit.size;
  const std::size_t have = tensor.count() / unit.size * divided;
  if (counts.size() != base::as_size(size)) return text_of_wrong_number(counts.size(), side, size);
  for (const std::size_t count : counts) {  // so that the sum cannot overflow
    if (count > have) return text_of_large_count(side, count / divided, tensor);
  }
  const std::size_t sum = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  if (sum == have) return {};
  return base::format("the counts for the {} sum up to {}, but it has {} {}", side, sum / divided,
                      have / divided, unit.name);
}

std::string what_is_wrong(const Collective& call, int rank, int size) {
  const KindTraits& traits = traits_of(call.kind);
  if (call.timeout <= std::chrono::nanoseconds(0)) return "the timeout must be positive";
  if (traits.rooted && (call.root < 0 || call.root >= size))
    return base::format("root must be a rank of the group, 0 to {}", size - 1);
  if (traits.layout == Layout::none) return {};
  static const Details kNone{};
  const Details& details = call.details != nullptr ? *call.details : kNone;
  const Side input{"input", call.input, details.inputs, details.input_counts};
  const Side output{"output", call.output, details.outputs, details.output_counts};
  if (!details.input_pieces.empty() || !details.output_pieces.empty()) {
    if (std::string wrong = what_is_wrong_with_pieces(call, rank, size); !wrong.empty())
      return wrong;
    return check_factor(call, details.factor);
  }
  const bool in_blocks = traits.layout == Layout::scatter || traits.layout == Layout::exchange;
  const bool out_blocks = traits.layout == Layout::gather || traits.layout == Layout::exchange;
  if ((!in_blocks && (input.listed() || !input.counts.empty())) ||
      (!out_blocks && (output.listed() || !output.counts.empty())))
    return "a list of tensors, or counts, for a side that is one tensor";
  const TensorView& like = traits.layout == Layout::scatter ? call.output : call.input;
  if (uses_input(call.kind, rank, call.root)) {
    if (std::string wrong = check_side(input, like, size, false, traits.rooted); !wrong.empty())
      return wrong;
  }
  if (uses_output(call.kind, rank, call.root)) {
    if (std::string wrong = check_side(output, like, size, true, traits.rooted); !wrong.empty())
      return wrong;
  }
  if (std::string wrong = check_layout(call, input, output, rank, size); !wrong.empty())
    return wrong;
  return check_factor(call, details.factor);
}

}  // namespace tutti::call
