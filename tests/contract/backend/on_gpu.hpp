#pragma once

#include "forwarding_backend.hpp"
#include "gpu_stage.hpp"

namespace tutti::test {

/// Takes tensors of the CPU and gives them to the backend as those of a GPU; and what is waited for
/// is there for the host. So tests of all backends run. With a GPU they are copied to its memory
/// and back; without one (mocks) the memory of the CPU is said to be that of a GPU.
class OnGpu final : public ForwardingBackend {
 public:
  OnGpu(Backend* inner, std::string_view name, std::optional<Gpu> gpu)
      : ForwardingBackend(inner), name_(name), gpu_(gpu) {
    if (gpu_) device_.index = static_cast<std::int16_t>(gpu_->index);
  }

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] std::string unsupported(const Collective& call) const override {
    std::string why = inner().unsupported(Moved(call, device_, nullptr).call());
    // A tensor that was said to be on another GPU is one of the CPU to the backend.
    const std::string own = "'" + std::string(name_) + "'";
    for (const auto& [theirs, ours] :
         {std::pair(std::string("of cpu,"), std::string("of cuda:1,")),
          std::pair(std::string("'nccl'"), own), std::pair(std::string("'native'"), own)}) {
      if (const auto at = why.find(theirs); at != std::string::npos)
        why.replace(at, theirs.size(), ours);
    }
    return why;
  }
  Pending submit(const Collective& call, bool asynchronous) noexcept override {
    std::shared_ptr<GpuStage> stage;
    if (gpu_ && call.tag != kLibraryTag) stage = std::make_shared<GpuStage>(*gpu_, call);
    const Pending begun = inner().submit(Moved(call, device_, stage.get()).call(), asynchronous);
    return WrappedOperation::wrap(std::make_unique<Fetched>(*this, std::move(stage)), begun);
  }
  [[nodiscard]] Result<Backend*> make_child(std::span<const int> ranks,
                                            std::string name) noexcept override {
    return around(inner().make_child(ranks, std::move(name)),
                  [&](Backend* child) { return new OnGpu(child, name_, gpu_); });
  }
  [[nodiscard]] Result<Backend*> make_among(std::span<const int> ranks, std::string_view tag,
                                            std::string name) noexcept override {
    return inner().make_among(ranks, tag, std::move(name));
  }

 private:
  /// Its output is there for the host when it is done.
  class Fetched final : public WatchedOperation {
   public:
    Fetched(OnGpu& backend, std::shared_ptr<GpuStage> stage)
        : WatchedOperation(backend), backend_(backend), stage_(std::move(stage)) {}
    [[nodiscard]] bool wait(std::uint64_t ticket, std::optional<std::chrono::nanoseconds> limit,
                            Outcome& outcome) noexcept override {
      return WatchedOperation::wait(ticket, limit.value_or(std::chrono::nanoseconds::max()),
                                    outcome);
    }
    void on_done(std::uint64_t /*ticket*/, Callback callback) noexcept override {
      struct Later {
        std::shared_ptr<GpuStage> stage;
        Callback callback;
      };
      inner().on_done({[](void* context, const Outcome& outcome) noexcept {
                         const std::unique_ptr<Later> later(static_cast<Later*>(context));
                         if (outcome.ok() && later->stage != nullptr) later->stage->fetch();
                         later->callback.function(later->callback.context, outcome);
                       },
                       new Later{stage_, callback}});
    }
    Received release(std::uint64_t ticket) noexcept override {
      if (stage_ != nullptr && !inner().poll()) backend_.keep(std::move(stage_));
      return WatchedOperation::release(ticket);
    }

   private:
    void ended_well() noexcept override {
      if (stage_ != nullptr) stage_->fetch();
    }

    OnGpu& backend_;
    std::shared_ptr<GpuStage> stage_;
  };

  /// The operation may still run.
  void keep(std::shared_ptr<GpuStage> stage) {
    const std::lock_guard lock(mutex_);
    kept_.push_back(std::move(stage));
  }

  /// A call whose tensors are on the device.
  class Moved {
   public:
    Moved(const Collective& call, Device device, const GpuStage* stage)
        : call_(call), device_(device), stage_(stage) {
      if (call.tag == kLibraryTag) return;
      call_.input = moved(call.input);
      call_.output = moved(call.output);
      if (call.details == nullptr) return;
      details_ = *call.details;
      views(inputs_, details_.inputs);
      views(outputs_, details_.outputs);
      pieces(in_pieces_, details_.input_pieces);
      pieces(out_pieces_, details_.output_pieces);
      if (details_.factor.count() > 1) details_.factor = moved(details_.factor);  // else a number
      call_.details = &details_;
    }
    Moved(const Moved&) = delete;
    Moved& operator=(const Moved&) = delete;
    [[nodiscard]] const Collective& call() const noexcept { return call_; }

   private:
    [[nodiscard]] TensorView moved(const TensorView& view) const {
      if (view.dims() == 0 && view.count() == 0) return view;
      const Device device = view.device() == Device() ? device_ : Device();
      void* const data = stage_ == nullptr ? view.data() : stage_->place_of(view.data());
      if (view.contiguous()) return {data, view.dtype(), view.count(), device};
      return {data, view.dtype(), view.shape(), view.strides(), device};
    }
    void views(std::vector<TensorView>& list, std::span<const TensorView>& span) const {
      for (const TensorView& view : span) list.push_back(moved(view));
      span = list;
    }
    void pieces(std::vector<Piece>& list, std::span<const Piece>& span) const {
      for (const Piece& piece : span) list.push_back({moved(piece.view), piece.first, piece.count});
      span = list;
    }

    Collective call_;
    Device device_;
    const GpuStage* stage_;
    Details details_;
    std::vector<TensorView> inputs_;
    std::vector<TensorView> outputs_;
    std::vector<Piece> in_pieces_;
    std::vector<Piece> out_pieces_;
  };

  std::string_view name_;
  std::optional<Gpu> gpu_;
  Device device_{DeviceType::cuda, 0};
  std::mutex mutex_;
  std::vector<std::shared_ptr<GpuStage>> kept_;
};

}  // namespace tutti::test
