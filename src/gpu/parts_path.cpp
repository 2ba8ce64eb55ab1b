#include "gpu/parts_path.hpp"

#include <algorithm>
#include <utility>

#include <tutti/backend/kinds.hpp>

#include "base/index.hpp"
#include "gpu/direct_call.hpp"

namespace tutti::gpu {
namespace {

std::size_t count_of(const call::CallSide& side) noexcept {
  std::size_t count = 0;
  side.each([&](const Piece& piece) { count += piece.count; });
  return count;
}

}  // namespace

PartsPath::PartsPath(const HostCall& whole, const call::Extent& extent, int ranks,
                     std::size_t part_bytes)
    : extent_(extent), element_(size_of(extent.dtype)), in_place_(whole.in_place()) {
  const Layout layout = traits_of(whole.call().kind).layout;
  const auto all = base::as_size(ranks);
  if (layout == Layout::scatter || layout == Layout::exchange) in_.blocks = all;
  if (layout == Layout::gather || layout == Layout::exchange) out_.blocks = all;
  in_.empty = count_of(whole.in()) == 0;
  out_.empty = count_of(whole.out()) == 0;
  parts_.count = layout == Layout::same ? extent.count : extent.each;
  parts_.most = std::max<std::size_t>(1, part_bytes / std::max(in_.blocks, out_.blocks) / element_);
}

std::size_t PartsPath::bytes_of(const Side& side) const noexcept {
  return side.empty ? 0 : whole_lines(side.blocks * parts_.most * element_);
}

std::byte* PartsPath::place_of(const Side& side, std::uint64_t part) const noexcept {
  std::byte* const place = memory_ + (part % 2) * place_bytes();
  return &side == &out_ && !in_place_ ? place + bytes_of(in_) : place;
}

Collective PartsPath::call_of(const Collective& whole) const noexcept {
  Collective made;
  made.kind = whole.kind;
  made.op = whole.op;
  made.root = whole.root;
  const auto view = [&](const Side& side) {
    if (side.empty) return TensorView(nullptr, extent_.dtype, 0);
    return TensorView(place_of(side, done_), extent_.dtype, side.blocks * parts_.length_of(done_));
  };
  made.input = view(in_);
  made.output = view(out_);
  return made;
}

bool PartsPath::move(const call::CallSide& tensors, const Side& side, PartCopy work,
                     std::uint64_t part, bool packs) const {
  const std::size_t length = parts_.length_of(part);
  bool moved = work.calls.ok();
  for (std::size_t block = 0; block < side.blocks; ++block) {
    moved =
        moved &&
        work.move(tensors, block * parts_.count + parts_.begin_of(part), length, element_,
                  reinterpret_cast<cuda::Address>(place_of(side, part)) + block * length * element_,
                  packs);
  }
  return moved;
}

/// The mark comes last. After a failure it shows when earlier work has ended.
bool PartsPath::fill(GpuOperation& op, GpuScope& on, std::uint64_t part) const {
  const bool filled = !op.host_call.reads() ||
                      move(op.host_call.in(), in_, {on.calls, on.cuda, op.gpu->out}, part, true);
  return on.record(op.ready, op.gpu->out) && filled;
}

bool PartsPath::store(const GpuOperation& op, GpuScope& on, std::uint64_t part) const {
  return !op.host_call.writes() ||
         move(op.host_call.out(), out_, {on.calls, on.cuda, op.gpu->out}, part, false);
}

Step PartsPath::step(GpuOperation& op) {
  using State = GpuOperation::State;
  if (op.state == State::waiting) {
    if (!op.may_submit()) return {Step::To::waits};
    if (op.compared) return begin(op);
    // The ranks compare the call first: a rank with another call would not join all parts.
    return op.submit(rendezvous_call_of(op.host_call.call(), extent_), false);
  }
  if (op.state == State::moving) {
    bool there = false;
    if (const auto failed = op.look(op.ready, there)) return *failed;
    return there ? submit_part(op) : Step{Step::To::waits};
  }
  if (const auto step = op.look_at_host_call()) return *step;
  op.drop_host_call();
  return std::exchange(op.compared, true) ? end_part(op) : begin(op);
}

/// Copies the first input, when the operation is the next of its lane.
Step PartsPath::begin(GpuOperation& op) {
  GpuScope on(op);
  if (!on.calls.ok() || !op.gpu->pool->acquire(on.calls, 2 * place_bytes(), op.block))
    return op.failed(on.calls.failure());
  memory_ = op.block.data();
  op.state = GpuOperation::State::moving;
  if (!fill(op, on, 0)) return op.failed(on.calls.failure());
  return {Step::To::waits};
}

/// Submits the host call of a part whose input is on the host, and copies the next input.
Step PartsPath::submit_part(GpuOperation& op) {
  const bool last = done_ + 1 == parts();
  Step step = op.submit(call_of(op.host_call.call()), last);
  if (last) return step;
  // The next input takes the place of the previous part, whose result was copied out on the same
  // stream.
  GpuScope on(op);
  if (!on.calls.ok() || !fill(op, on, done_ + 1)) return op.failed(on.calls.failure());
  return step;
}

/// The host call of a part has succeeded: copies its result.
Step PartsPath::end_part(GpuOperation& op) {
  GpuScope on(op);
  if (!on.calls.ok()) return op.failed(on.calls.failure());
  const bool stored = store(op, on, done_);
  ++done_;
  op.state = done_ == parts() ? GpuOperation::State::returning : GpuOperation::State::moving;
  if (!on.record(op.end, op.gpu->out) || !stored) return op.failed(on.calls.failure());
  return {Step::To::runs};
}

}  // namespace tutti::gpu
