#include "group/overlapping_call.hpp"

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <tutti/backend/kinds.hpp>

#include "call/call_side.hpp"
#include "group/wrapped_operation.hpp"
#include "kernels/pack.hpp"

namespace tutti {
inline namespace v0 {
namespace {

/// Memory that stands for tensors of a call.
///
/// Lifetime: shared by the handle of the call and by the callback that is made when it is done.
class StandIns {
 public:
  /// For so many bytes.
  explicit StandIns(std::size_t bytes) : memory_(std::make_unique<Unit[]>(units(bytes))) {}

  /// Memory that stands for a piece: in a row, and filled from it or not; written back in the end
  /// or not.
  TensorView stand_in(const Piece& piece, bool filled, bool written) {
    const TensorView& view = piece.view;
    auto* const place = reinterpret_cast<std::byte*>(memory_.get()) + used_ * sizeof(Unit);
    used_ += units(piece.count * size_of(view.dtype()));
    if (filled) kernels::pack(place, view, piece.first, piece.count);
    if (written) back_.push_back({piece, place});
    return TensorView(place, view.dtype(), piece.count);
  }

  /// The call has ended well: writes what is to be written, once.
  void finish() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Back& one : std::exchange(back_, {}))
      kernels::unpack(one.to.view, one.to.first, one.to.count, one.from);
  }

  /// Bytes that `stand_in` takes for a piece.
  static std::size_t bytes_for(const Piece& piece) noexcept {
    return units(piece.count * size_of(piece.view.dtype())) * sizeof(Unit);
  }

 private:
  struct alignas(64) Unit {  // a cache line, so that kernels find what they like
    std::byte bytes[64];
  };
  struct Back {
    Piece to;
    const std::byte* from;
  };
  static std::size_t units(std::size_t bytes) noexcept {
    return (bytes + sizeof(Unit) - 1) / sizeof(Unit);
  }

  std::unique_ptr<Unit[]> memory_;
  std::size_t used_ = 0;
  std::mutex mutex_;
  std::vector<Back> back_;
};

/// Bytes that StandIns needs for one side.
std::size_t bytes_for(const call::CallSide& side) noexcept {
  std::size_t sum = 0;
  side.each([&](const Piece& piece) { sum += StandIns::bytes_for(piece); });
  return sum;
}

/// Writes the outputs when the call is done.
class OverlappingCall final : public WrappedOperation {
 public:
  OverlappingCall(Backend& backend, std::shared_ptr<StandIns> stand_ins)
      : WrappedOperation(backend), stand_ins_(std::move(stand_ins)) {}

  [[nodiscard]] bool wait(std::uint64_t /*ticket*/, std::optional<std::chrono::nanoseconds> limit,
                          Outcome& outcome) noexcept override {
    if (!inner().wait(limit, outcome)) return false;
    if (outcome.ok()) stand_ins_->finish();
    return true;
  }
  [[nodiscard]] std::optional<Outcome> poll(std::uint64_t /*ticket*/) noexcept override {
    std::optional<Outcome> outcome = inner().poll();
    if (outcome && outcome->ok()) stand_ins_->finish();
    return outcome;
  }
  void on_done(std::uint64_t /*ticket*/, Callback callback) noexcept override {
    struct Told {
      std::shared_ptr<StandIns> stand_ins;
      Callback then;
    };
    inner().on_done({[](void* context, const Outcome& status) noexcept {
                       const std::unique_ptr<Told> told(static_cast<Told*>(context));
                       if (status.ok()) told->stand_ins->finish();
                       if (status.tensors_in_use())  // for as long as the process lives
                         new std::shared_ptr<StandIns>(told->stand_ins);
                       if (told->then.function != nullptr)
                         told->then.function(told->then.context, status);
                     },
                     new Told{stand_ins_, callback}});
  }

 private:
  std::shared_ptr<StandIns> stand_ins_;
};

}  // namespace

Work submit_overlapping(Backend& backend, int rank, const Collective& call, Overlap overlap,
                        bool asynchronous) {
  Details details = call.details != nullptr ? *call.details : Details();
  Collective other = call;
  other.details = call.details != nullptr ? &details : nullptr;
  call::CallSide in(call.input, details.inputs, details.input_pieces);
  call::CallSide out(call.output, details.outputs, details.output_pieces);
  const Layout layout = traits_of(call.kind).layout;
  const bool in_place = is_in_place(call);
  // The smaller side, unless the outputs overlap each other.
  const bool outputs = overlap == Overlap::output || layout == Layout::scatter;
  const bool filled = !outputs || (in_place && uses_input(call.kind, rank, call.root));
  call::CallSide& side = outputs ? out : in;
  const auto stand_ins = std::make_shared<StandIns>(bytes_for(side));
  side.replace([&](const Piece& piece) { return stand_ins->stand_in(piece, filled, outputs); });
  if (in_place) in = out;
  other.input = in.tensor;
  other.output = out.tensor;
  details.inputs = in.blocks;
  details.input_pieces = in.pieces;
  details.outputs = out.blocks;
  details.output_pieces = out.pieces;
  auto one = std::make_unique<OverlappingCall>(backend, stand_ins);
  const Pending pending =
      WrappedOperation::wrap(std::move(one), backend.submit(other, asynchronous));
  pending.on_done({});  // whoever drops the Work, the memory stays until it is done
  return Work(pending);
}

}  // namespace v0
}  // namespace tutti
