#include "gpu/host_parts.hpp"

#include <algorithm>

#include <tutti/kinds.hpp>

#include "base/index.hpp"

namespace tutti::gpu {
namespace {

std::size_t count_of(const call::CallSide& side) noexcept {
  std::size_t count = 0;
  side.each([&](const Piece& piece) { count += piece.count; });
  return count;
}

}  // namespace

HostParts::HostParts(const HostCall& whole, const call::Extent& extent, int ranks,
                     std::size_t part_bytes)
    : dtype_(extent.dtype), element_(size_of(extent.dtype)), in_place_(whole.in_place()) {
  const Layout layout = traits_of(whole.call().kind).layout;
  const auto all = base::as_size(ranks);
  if (layout == Layout::scatter || layout == Layout::exchange) in_.blocks = all;
  if (layout == Layout::gather || layout == Layout::exchange) out_.blocks = all;
  in_.empty = count_of(whole.in()) == 0;
  out_.empty = count_of(whole.out()) == 0;
  count_ = layout == Layout::same ? extent.count : extent.each;
  most_ = std::max<std::size_t>(1, part_bytes / std::max(in_.blocks, out_.blocks) / element_);
  if (count_ != 0) parts_ = (count_ - 1) / most_ + 1;
}

std::size_t HostParts::length_of(std::uint64_t part) const noexcept {
  return std::min(most_, count_ - static_cast<std::size_t>(part) * most_);
}

std::size_t HostParts::bytes_of(const Side& side) const noexcept {
  return side.empty ? 0 : whole_lines(side.blocks * most_ * element_);
}

std::byte* HostParts::place_of(const Side& side, std::uint64_t part) const noexcept {
  std::byte* const place = memory_ + (part % 2) * place_bytes();
  return &side == &out_ && !in_place_ ? place + bytes_of(in_) : place;
}

Collective HostParts::call(const HostCall& whole, std::uint64_t part) const noexcept {
  Collective made;
  made.kind = whole.call().kind;
  made.op = whole.call().op;
  made.root = whole.call().root;
  const auto view = [&](const Side& side) {
    if (side.empty) return TensorView(nullptr, dtype_, 0);
    return TensorView(place_of(side, part), dtype_, side.blocks * length_of(part));
  };
  made.input = view(in_);
  made.output = view(out_);
  return made;
}

bool HostParts::move(const call::CallSide& tensors, const Side& side, PartCopy& work,
                     std::uint64_t part, bool packs) const {
  const std::size_t length = length_of(part);
  bool moved = work.calls.ok();
  for (std::size_t block = 0; block < side.blocks; ++block) {
    moved = moved &&
            work.move(
                tensors, block * count_ + static_cast<std::size_t>(part) * most_, length, element_,
                reinterpret_cast<cuda::Address>(place_of(side, part)) + block * length * element_,
                packs);
  }
  return moved;
}

bool HostParts::fill(const HostCall& whole, PartCopy& work, std::uint64_t part) const {
  return whole.reads() ? move(whole.in(), in_, work, part, true) : work.calls.ok();
}

bool HostParts::store(const HostCall& whole, PartCopy& work, std::uint64_t part) const {
  return whole.writes() ? move(whole.out(), out_, work, part, false) : work.calls.ok();
}

}  // namespace tutti::gpu
