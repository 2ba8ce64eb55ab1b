#include <tutti/process_group.hpp>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <utility>

#include "base/format.hpp"
#include "base/index.hpp"
#include "base/shown.hpp"
#include "call/call_check.hpp"
#include "call/factor.hpp"
#include "call/memory.hpp"
#include "group/on_stream.hpp"
#include "group/overlap.hpp"
#include "group/overlapping_call.hpp"
#include "group/process_group_impl.hpp"
#include "store/job_secret.hpp"

namespace tutti {
inline namespace v0 {
namespace {

[[noreturn]] void refuse(std::string text) {
  raise(Outcome(Errc::invalid_argument, std::move(text)));
}

bool is_plain(const TensorView& view) noexcept {
  return view.contiguous() && view.data() != nullptr;
}

/// True if `all` are `size` blocks of `one`. Without a division, which is slow.
bool are_blocks(std::size_t all, std::size_t one, std::size_t size) noexcept {
  std::size_t product = 0;
  return !__builtin_mul_overflow(one, size, &product) && product == all;
}

/// True if the counts of the two sides fit the layout.
bool counts_fit(const Collective& call, std::size_t size) noexcept {
  const std::size_t in = call.input.count();
  const std::size_t out = call.output.count();
  switch (traits_of(call.kind).layout) {
    case Layout::same: return in == out;
    case Layout::gather: return are_blocks(out, in, size);
    case Layout::scatter: return are_blocks(in, out, size);
    case Layout::exchange:  // structs are not divided
      return in == out && in % (size * call.input.struct_size()) == 0 &&
             call.input.struct_size() == call.output.struct_size();
    case Layout::none:
    case Layout::pair: break;
  }
  return false;
}

/// Accepts the usual calls with a few compares: barriers, and contiguous tensors in even blocks, in
/// place or apart. False: the call needs the full check.
bool plainly_right(const Collective& call, int rank, int size) noexcept {
  const KindTraits& traits = traits_of(call.kind);
  if (call.details != nullptr || call.timeout <= std::chrono::nanoseconds(0)) return false;
  if (traits.layout == Layout::none) return true;
  if (traits.rooted && (call.root < 0 || call.root >= size)) return false;
  if (traits.reduces && call.op == ReduceOp::premul_sum) return false;
  const bool in_place = traits.layout == Layout::same && call.input.data() == call.output.data();
  const bool reads = uses_input(call.kind, rank, call.root);
  const bool writes = uses_output(call.kind, rank, call.root);
  // A rank that does not have the blocks of all ranks has one side only.
  if (traits.layout != Layout::same && !(reads && writes))
    return is_plain(reads ? call.input : call.output);
  if (!is_plain(call.input) || !is_plain(call.output) || !call.input.alike(call.output) ||
      !counts_fit(call, static_cast<std::size_t>(size)))
    return false;
  return in_place ||
         !call::range_of_contiguous(call.input).overlaps(call::range_of_contiguous(call.output));
}

}  // namespace

ProcessGroup GroupAccess::make(GroupParts parts) {
  return ProcessGroup(std::make_shared<ProcessGroup::Impl>(std::move(parts)));
}

Backend& GroupAccess::backend(const ProcessGroup& group) { return group.impl_->entry(); }

Work GroupAccess::submit(ProcessGroup& group, Collective& call,
                         std::optional<std::chrono::nanoseconds> timeout, bool asynchronous) {
  return group.impl_->submit(call, timeout, asynchronous);
}

void GroupAccess::check_objects(const ProcessGroup& group, std::string_view operation) {
  if (group.trust() != Trust::none) return;
  refuse(base::format(
      "{} in group '{}': an object is a pickle, which can run any code, and not every rank has "
      "proved that it belongs to the job; give all ranks one secret (unset TUTTI_INSECURE; where "
      "the ranks meet in a store of their own, set TUTTI_SECRET_FILE), or, in a network that only "
      "the job reaches, set TUTTI_INSECURE=pickle for all",
      operation, group.name()));
}

void ProcessGroup::Shared::refuse() {
  tutti::refuse(
      "this ProcessGroup has no group: it was made without one or moved from, or this rank is no "
      "member of what new_group or split has made");
}

int ProcessGroup::rank() const { return impl_->rank; }
int ProcessGroup::size() const { return impl_->size; }
std::string_view ProcessGroup::name() const { return impl_->name; }
std::string_view ProcessGroup::backend() const { return impl_->backend->name(); }
std::chrono::nanoseconds ProcessGroup::get_timeout() const { return impl_->default_timeout(); }
std::shared_ptr<Store> ProcessGroup::store() const { return impl_->store; }
std::shared_ptr<std::byte> ProcessGroup::allocate(std::size_t bytes) const {
  Result<std::shared_ptr<std::byte>> memory = impl_->entry().allocate(bytes);
  if (!memory) raise(memory.status());
  return std::move(*memory);
}
Trust ProcessGroup::trust() const { return impl_->trust; }
SecretBytes ProcessGroup::derive_secret(std::string_view text) const {
  if (impl_->secret.empty()) return {};
  auto derived = store::derive_secret(impl_->secret, text);
  if (!derived) raise(derived.status());
  return std::move(*derived);
}
Outcome ProcessGroup::health() const { return impl_->entry().health(); }

void ProcessGroup::set_timeout(std::chrono::nanoseconds timeout) {
  if (timeout <= std::chrono::nanoseconds(0))
    refuse(base::format("set_timeout in group '{}': the timeout must be positive", impl_->name));
  impl_->current_timeout.store(timeout, std::memory_order_relaxed);  // relaxed: it stands alone
}

int ProcessGroup::global_rank(int rank) const {
  if (rank < 0 || rank >= size()) {
    refuse(base::format("global_rank: rank {} is not in group '{}' of size {}", rank, impl_->name,
                        size()));
  }
  return base::at(impl_->global_ranks, rank);
}

std::optional<int> ProcessGroup::group_rank(int global_rank) const {
  const auto at = std::find(impl_->global_ranks.begin(), impl_->global_ranks.end(), global_rank);
  if (at == impl_->global_ranks.end()) return std::nullopt;
  return static_cast<int>(at - impl_->global_ranks.begin());
}

void ProcessGroup::Impl::check_supported(const Collective& call, const TensorView& view) {
  auto& bits = known[static_cast<std::size_t>(call.kind)][static_cast<std::size_t>(call.op) % kOps];
  const unsigned device = static_cast<unsigned>(view.device().type) * kDTypes;
  const std::uint64_t bit = std::uint64_t{1} << (device + static_cast<unsigned>(view.dtype()));
  // relaxed: the bits stand alone.
  if ((bits.load(std::memory_order_relaxed) & bit) != 0) [[likely]]
    return;
  if (const std::string why = entry().unsupported(call); !why.empty()) [[unlikely]]
    refuse(describe(call) + " in group '" + name + "': " + why);
  bits.fetch_or(bit, std::memory_order_relaxed);
}

Work ProcessGroup::Impl::submit(Collective& call, std::optional<std::chrono::nanoseconds> limit,
                                bool asynchronous) {
  // Of Message and of bindings; those of ProcessGroup go through point_to_point.cpp.
  if (call.kind == Kind::send || call.kind == Kind::recv) {
    if (!check_transfer(call, limit)) return Work::with_nobody();
    return start_transfer(call, asynchronous);
  }
  call.timeout = limit.value_or(default_timeout());
  const bool by_output = traits_of(call.kind).layout == Layout::scatter;
  const TensorView& told = by_output ? call.output : call.input;
  Overlap overlap = Overlap::none;
  if (!plainly_right(call, rank, size)) [[unlikely]] {
    if (const std::string wrong = call::what_is_wrong(call, rank, size); !wrong.empty())
      refuse(describe(call) + " in group '" + name + "': " + wrong);
    overlap = overlap_of(call, rank);
    if (overlap != Overlap::none && told.device() != Device()) {
      refuse(base::format("{} in group '{}': {}", describe(call), name, to_string(overlap)));
    }
  }
  check_supported(call, told);
  Backend& target = entry();
  if (told.device() != Device()) [[unlikely]]
    return Work(target.submit(OnStream(call).call(), asynchronous), true);
  if (overlap != Overlap::none)
    return submit_overlapping(target, rank, call, overlap, asynchronous);
  return Work(target.submit(call, asynchronous));
}

Work ProcessGroup::all_reduce(const TensorView& buffer, const AllReduceOptions& options) {
  Collective call;
  call.kind = Kind::all_reduce;
  call.op = options.op;
  call.input = buffer;
  call.output = buffer;
  if (options.op != ReduceOp::premul_sum && !options.factor && !call::is_given(options.factors))
      [[likely]]
    return impl_->submit(call, options.timeout, false);
  call::Factor factor(options.op, buffer.dtype(), options.factor, options.factors);
  Details details;
  details.factor = factor.view();
  call.details = &details;
  return impl_->submit(call, options.timeout, false);
}

Work ProcessGroup::broadcast(const TensorView& buffer, const BroadcastOptions& options) {
  Collective call;
  call.kind = Kind::broadcast;
  call.root = options.root;
  call.input = buffer;
  call.output = buffer;
  return impl_->submit(call, options.timeout, false);
}

Work ProcessGroup::barrier(const BarrierOptions& options) {
  Collective call;
  call.kind = Kind::barrier;
  return impl_->submit(call, options.timeout, false);
}

void ProcessGroup::abort(std::string_view reason) {
  impl_->entry().abort(Outcome(
      Errc::aborted, base::format("group '{}' was aborted by {}, rank {}: {}", impl_->name,
                                  impl_->backend->location(rank()), rank(), base::shown(reason))));
}

void wait_all(std::span<Work> works) {
  std::exception_ptr first;
  for (Work& work : works) {
    try {
      work.wait();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace v0
}  // namespace tutti
