#include "gpu/direct_call.hpp"

#include <algorithm>
#include <vector>

#include <tutti/backend/kinds.hpp>

#include "base/index.hpp"
#include "call/gpu_calls.hpp"

namespace tutti::gpu {
namespace {

constexpr std::size_t kAligned = 16;  // bytes that a kernel reads at once

}  // namespace

Collective rendezvous_call_of(const Collective& call, const call::Extent& extent) {
  const bool even = !extent.uneven() && extent.agreed != call::kSplits;
  Collective made;
  made.kind = call.kind;
  made.op = call.op;
  made.root = call.root;
  made.digest = call::gpu_call_digest(even ? extent.digest : call::kUncompared);
  made.input = TensorView(nullptr, extent.dtype, even ? call.input.count() : 0);
  made.output = TensorView(nullptr, extent.dtype, even ? call.output.count() : 0);
  return made;
}

DirectCall::DirectCall(const HostCall& call, const call::Extent& extent, IpcPeers& peers)
    : call_(call),
      peers_(peers),
      rendezvous_call_(rendezvous_call_of(call.call(), extent)),
      element_(size_of(extent.dtype)) {
  const Layout layout = traits_of(rendezvous_call_.kind).layout;
  const auto ranks = base::as_size(peers.size());
  if (layout == Layout::scatter || layout == Layout::exchange) blocks_ = ranks;
  parts_.count = layout == Layout::same ? extent.count : extent.each;
  parts_.most = peers.slot_bytes() / blocks_ / kAligned * kAligned / element_;
  // With two ranks a single round reads as few bytes.
  two_rounds_ = rendezvous_call_.kind == Kind::all_reduce && ranks > 2 &&
                parts_.count * element_ >= peers.options().two_rounds_from;
}

DirectCall::Range DirectCall::slice_of(int rank, std::uint64_t part) const noexcept {
  const std::size_t length = parts_.length_of(part);
  const auto ranks = base::as_size(peers_.size());
  const std::size_t step = kAligned / element_;
  const std::size_t most = ((length + ranks - 1) / ranks + step - 1) / step * step;
  const std::size_t begin = std::min(base::as_size(rank) * most, length);
  return {begin, std::min(most, length - begin)};
}

bool DirectCall::lead(PartCopy work) const {
  const bool combines = two_rounds_ && met > 0 && met <= parts();
  return (!combines || combine_slice(work, met - 1)) && (met >= parts() || fill(work, met));
}

bool DirectCall::trail(PartCopy work) const {
  if (two_rounds_) return met < 2 || take_slices(work, met - 2);
  return met < 1 || read(work, met - 1);
}

bool DirectCall::fill(PartCopy& work, std::uint64_t part) const {
  if (!call_.reads()) return work.calls.ok();
  const std::size_t length = parts_.length_of(part);
  const bool scales =
      traits_of(rendezvous_call_.kind).reduces && rendezvous_call_.op == ReduceOp::premul_sum;
  bool filled = true;
  for (std::size_t block = 0; block < blocks_; ++block) {
    const std::size_t begin = block * parts_.count + parts_.begin_of(part);
    const cuda::Address slot =
        peers_.slot(peers_.rank(), first + part) + block * parts_.most * element_;
    filled = filled && (scales ? scale(work, begin, length, slot)
                               : work.move(call_.in(), begin, length, element_, slot, true));
  }
  return filled;
}

/// As on the CPU, each rank multiplies its own input and rounds the product before the sum.
bool DirectCall::scale(PartCopy& work, std::size_t begin, std::size_t count,
                       cuda::Address slot) const {
  const TensorView& factor = call_.factor();
  const bool on_gpu = factor.device().type == DeviceType::cuda;
  const auto one = on_gpu ? reinterpret_cast<cuda::Address>(factor.data()) : 0;
  bool scaled = work.calls.ok();
  cuda::Packer packer(work.calls, work.cuda, work.stream, true);
  each_part(call_.in(), begin, count, [&](const Piece& piece, std::size_t before) {
    const cuda::Address to = slot + before * element_;
    cuda::Address from = to;
    if (piece.view.contiguous())
      from = reinterpret_cast<cuda::Address>(piece.view.data()) + piece.first * element_;
    else
      scaled = scaled && packer.run(piece, to);
    const auto run = [&](const cuda::Run& its) {
      const auto step = its.step / static_cast<std::int64_t>(element_);
      return peers_.gpu()->reducer.scale(work.calls, factor.dtype(), to + its.before * element_,
                                         from + its.before * element_,
                                         {its.first, factor.data(), step}, its.count, work.stream);
    };
    if (factor.count() > 1)
      scaled = scaled && cuda::each_run({factor, begin + before, piece.count}, run);
    else
      scaled = scaled && run({one, piece.count, 0, 0});
  });
  return scaled;
}

bool DirectCall::read(PartCopy& work, std::uint64_t part) const {
  if (!call_.writes()) return work.calls.ok();
  return traits_of(rendezvous_call_.kind).reduces ? combine(work, part) : copy(work, part);
}

bool DirectCall::combine(PartCopy& work, std::uint64_t part) const {
  const int k = ranks_in_result(rendezvous_call_.kind, peers_.rank(), 0, peers_.size()).count;
  const std::size_t offset =
      blocks_ > 1 ? base::as_size(peers_.rank()) * parts_.most * element_ : 0;
  std::vector<cuda::Address> sources;
  for (int rank = 0; rank < k; ++rank) sources.push_back(peers_.slot(rank, first + part) + offset);
  const std::size_t begin = parts_.begin_of(part);
  const std::size_t length = parts_.length_of(part);
  // Straight into the output, if a kernel can write to it.
  cuda::Address to = 0;
  each_part(call_.out(), begin, length, [&](const Piece& piece, std::size_t /*before*/) {
    if (piece.count == length && piece.view.contiguous())
      to = reinterpret_cast<cuda::Address>(piece.view.data()) + piece.first * element_;
  });
  const bool right = to != 0 && to % kAligned == 0;
  if (!right) to = peers_.results(first + part);
  return reduce(work, to, sources, length) &&
         (right || work.move(call_.out(), begin, length, element_, to, false));
}

/// In this round no other rank reads or writes this slice.
bool DirectCall::combine_slice(PartCopy& work, std::uint64_t part) const {
  const Range slice = slice_of(peers_.rank(), part);
  std::vector<cuda::Address> sources;
  for (int rank = 0; rank < peers_.size(); ++rank)
    sources.push_back(peers_.slot(rank, first + part) + slice.begin * element_);
  return reduce(work, sources[base::as_size(peers_.rank())], sources, slice.count);
}

/// The slots of PREMUL_SUM hold products, so they are only added.
bool DirectCall::reduce(PartCopy& work, cuda::Address to, std::span<const cuda::Address> sources,
                        std::size_t count) const {
  const ReduceOp op =
      rendezvous_call_.op == ReduceOp::premul_sum ? ReduceOp::sum : rendezvous_call_.op;
  return work.calls.ok() &&
         peers_.gpu()->reducer.run(work.calls, op, rendezvous_call_.input.dtype(), to, sources,
                                   count, static_cast<std::int64_t>(sources.size()), work.stream);
}

bool DirectCall::take_slices(PartCopy& work, std::uint64_t part) const {
  bool taken = true;
  for (int rank = 0; rank < peers_.size(); ++rank) {
    const Range slice = slice_of(rank, part);
    taken =
        taken && work.move(call_.out(), parts_.begin_of(part) + slice.begin, slice.count, element_,
                           peers_.slot(rank, first + part) + slice.begin * element_, false);
  }
  return taken;
}

bool DirectCall::copy(PartCopy& work, std::uint64_t part) const {
  const Layout layout = traits_of(rendezvous_call_.kind).layout;
  const bool from_all = layout == Layout::gather || layout == Layout::exchange;
  const std::size_t offset =
      blocks_ > 1 ? base::as_size(peers_.rank()) * parts_.most * element_ : 0;
  const RankRange from =
      ranks_in_result(rendezvous_call_.kind, peers_.rank(), rendezvous_call_.root, peers_.size());
  bool copied = true;
  for (int rank = from.first; rank < from.first + from.count; ++rank) {
    const std::size_t block = from_all ? base::as_size(rank) * parts_.count : 0;
    copied = copied && work.move(call_.out(), block + parts_.begin_of(part), parts_.length_of(part),
                                 element_, peers_.slot(rank, first + part) + offset, false);
  }
  return copied;
}

}  // namespace tutti::gpu
