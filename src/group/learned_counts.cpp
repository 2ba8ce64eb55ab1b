#include <chrono>

#include <tutti/backend/backend.hpp>
#include <tutti/backend/group_access.hpp>
#include <tutti/process_group.hpp>

#include "base/call_purpose.hpp"
#include "base/format.hpp"
#include "base/index.hpp"
#include "base/kept.hpp"
#include "call/call_check.hpp"
#include "call/views_check.hpp"
#include "group/after_counts.hpp"
#include "group/process_group_impl.hpp"

// Operations on blocks whose sizes the ranks learn first.
namespace tutti {
inline namespace v0 {
namespace {

static_assert(sizeof(std::size_t) == sizeof(std::uint64_t));

TensorView numbers_of(std::vector<std::size_t>& counts) noexcept {
  return TensorView(counts.data(), DType::uint64, counts.size());
}

}  // namespace

std::vector<std::size_t> GroupAccess::learn_counts(const ProcessGroup& group, Kind kind,
                                                   const ConstTensorView& input,
                                                   std::span<const std::size_t> sent, int root,
                                                   std::chrono::nanoseconds& limit) {
  return group.impl_->learn_counts(kind, input, sent, root, limit);
}

std::vector<std::size_t> ProcessGroup::Impl::learn_counts(Kind kind, const ConstTensorView& input,
                                                          std::span<const std::size_t> sent,
                                                          int root,
                                                          std::chrono::nanoseconds& limit) {
  const auto begin = std::chrono::steady_clock::now();
  const bool exchange = kind == Kind::all_to_all;
  std::vector<std::size_t> given{input.count() / input.struct_size()};
  if (exchange) given.assign(sent.begin(), sent.end());
  std::vector<std::size_t> learned(uses_output(kind, rank, root) ? base::as_size(size) : 0);
  Collective call;
  call.kind = kind;
  call.root = root;
  call.tag = kLibraryTag;  // works on backends without CPU tensors, too
  call.digest = base::learned_counts_digest(input.dtype(), input.struct_size());
  call.timeout = limit;
  call.input = numbers_of(given);
  call.output = numbers_of(learned);
  Collective moves;
  moves.kind = kind;
  moves.root = root;
  moves.input.read_only() = input;
  moves.output = moves.input;
  std::string wrong = call::check_memory(moves.input, "input", false);
  if (wrong.empty() && exchange)
    wrong = call::what_is_wrong_with_counts(sent, true, "input", moves.input, size);
  if (wrong.empty()) wrong = call::what_is_wrong(call, rank, size);
  if (!wrong.empty())
    raise(Outcome(Errc::invalid_argument,
                  base::format("{} in group '{}': {}", describe(call), name, wrong)));
  check_supported(moves, moves.input);
  try {
    Work(entry().submit(call, false)).wait();
  } catch (const Error& error) {
    // For good: the backend may still use them.
    if (error.status().tensors_in_use())
      base::keep_for_good(std::pair(std::move(given), std::move(learned)));
    throw;
  }
  limit = group::left_of(limit, begin);
  return learned;
}

Work ProcessGroup::gather_v(const ConstTensorView& input, const MakeBlocks& make,
                            const GatherOptions& options) {
  group::refuse_counts(*this, "gather_v", options.output_counts);
  std::chrono::nanoseconds limit = options.timeout.value_or(get_timeout());
  std::vector<std::size_t> counts =
      impl_->learn_counts(Kind::gather, input, {}, options.root, limit);
  return group::go_on(*this, "gather_v", [&] {
    if (rank() != options.root) counts = {input.count() / input.struct_size()};
    const TensorView output = rank() == options.root ? make(counts) : TensorView();
    return gather(output, input, {.root = options.root, .output_counts = counts, .timeout = limit});
  });
}

Work ProcessGroup::all_gather_v(const ConstTensorView& input, const MakeBlocks& make,
                                const AllGatherOptions& options) {
  group::refuse_counts(*this, "all_gather_v", options.output_counts);
  std::chrono::nanoseconds limit = options.timeout.value_or(get_timeout());
  const std::vector<std::size_t> counts =
      impl_->learn_counts(Kind::all_gather, input, {}, 0, limit);
  return group::go_on(*this, "all_gather_v", [&] {
    return all_gather(make(counts), input, {.output_counts = counts, .timeout = limit});
  });
}

Work ProcessGroup::all_to_all_v(const ConstTensorView& input,
                                std::span<const std::size_t> send_counts, const MakeBlocks& make,
                                const AllToAllOptions& options) {
  group::refuse_counts(*this, "all_to_all_v", options.output_splits);
  group::refuse_counts(*this, "all_to_all_v", options.input_splits);
  std::chrono::nanoseconds limit = options.timeout.value_or(get_timeout());
  const std::vector<std::size_t> counts =
      impl_->learn_counts(Kind::all_to_all, input, send_counts, 0, limit);
  return group::go_on(*this, "all_to_all_v", [&] {
    return all_to_all(make(counts), input,
                      {.output_splits = counts, .input_splits = send_counts, .timeout = limit});
  });
}

}  // namespace v0
}  // namespace tutti
