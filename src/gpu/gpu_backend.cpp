#include "gpu/gpu_backend.hpp"

#include <mutex>
#include <utility>

#include "call/call_side.hpp"

namespace tutti::gpu {
namespace {

TensorView on_cpu(const TensorView& view) noexcept {
  return TensorView(view.data(), view.dtype(), view.count());
}

}  // namespace

Backend* GpuBackend::make(Backend* cpus, std::string name, GpuSet::Source source,
                          const DirectOptions& direct, NcclOptions nccl) {
  return new GpuBackend(std::make_shared<GpuSet>(std::move(source), direct, std::move(nccl)), cpus,
                        std::move(name));
}

GpuBackend::GpuBackend(std::shared_ptr<GpuSet> gpus, Backend* cpus, std::string name)
    : cpus_(*cpus),
      gpus_(std::move(gpus)),
      group_(std::make_shared<GpuGroup>(*this, *gpus_, cpus, std::move(name))) {
  set_owner(*this);
  const std::lock_guard lock(gpus_->mutex());
  gpus_->add(group_);
}

std::string GpuBackend::unsupported(const Collective& call) const {
  if (!is_on_gpu(call)) return cpus_.unsupported(call);
  const TensorView& view = call::reference_view(call);
  if (const std::string why = gpus_->missing(view.device().index); !why.empty())
    return std::string("the ") + (&view == &call.output ? "output" : "input") +
           " is in the memory of " + to_string(view.device()) + ", which cannot be used: " + why;
  Collective other = call;
  other.input = on_cpu(call.input);
  other.output = on_cpu(call.output);
  return cpus_.unsupported(other);
}

/// True if the call goes to the CPUs, past the calls that wait.
bool GpuBackend::is_for_cpus(const Collective& call) const noexcept {
  return !is_on_gpu(call) &&
         (!group_->has_waiting() || call.kind == Kind::recv || call.kind == Kind::probe);
}

Pending GpuBackend::submit(const Collective& call, bool asynchronous) noexcept {
  if (is_for_cpus(call)) [[likely]]
    return cpus_.submit(call, asynchronous);
  return group_->submit(call, asynchronous);
}

std::optional<Received> GpuBackend::run(const Collective& call, Outcome& outcome) noexcept {
  if (is_for_cpus(call)) [[likely]]
    return cpus_.run(call, outcome);
  return Backend::run(call, outcome);
}

Result<Backend*> GpuBackend::make_child(std::span<const int> ranks, std::string name) noexcept {
  group_->submit_all();
  Result<Backend*> child = cpus_.make_child(ranks, name);
  if (!child || *child == nullptr) return child;
  return static_cast<Backend*>(new GpuBackend(gpus_, *child, std::move(name)));
}

}  // namespace tutti::gpu
