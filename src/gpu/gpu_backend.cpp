#include "gpu/gpu_backend.hpp"

#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "call/call_side.hpp"

namespace tutti::gpu {
namespace {

TensorView on_cpu(const TensorView& view) noexcept {
  return TensorView(view.data(), view.dtype(), view.count());
}

}  // namespace

Backend* GpuBackend::make(Backend* cpus, std::string name, Gpus::Source source,
                          const DirectOptions& direct, NcclOptions nccl) {
  return new GpuBackend(std::make_shared<Gpus>(std::move(source), direct, std::move(nccl)), cpus,
                        std::move(name));
}

GpuBackend::GpuBackend(std::shared_ptr<Gpus> gpus, Backend* cpus, std::string name)
    : Operations(static_cast<Backend&>(*this)),
      cpus_(*cpus),
      gpus_(std::move(gpus)),
      group_(std::make_shared<Group>(*gpus_, cpus, std::move(name))) {
  join(*this);
  const std::lock_guard lock(gpus_->mutex());
  gpus_->add(group_);
}

GpuBackend::~GpuBackend() {
  group_->leave();
  std::vector<cuda::Due> due;
  (void)group_->make_progress(due);
  {
    const std::lock_guard lock(gpus_->mutex());
    gpus_->deliver(std::move(due));
  }
  group_->leave_nccl();
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

Pending GpuBackend::submit(const Collective& call, bool asynchronous) noexcept {
  if (!is_on_gpu(call) &&
      (!group_->has_waiting() || call.kind == Kind::recv || call.kind == Kind::probe)) [[likely]]
    return cpus_.submit(call, asynchronous);
  Backend* nccl = group_->nccl_for(call);
  if (nccl == nullptr) {
    if (const std::optional<std::uint64_t> ticket = group_->submit(call)) return {this, *ticket};
    nccl = group_->nccl();
  }
  return nccl->submit(call, asynchronous);
}

bool GpuBackend::wait(std::uint64_t ticket, std::optional<std::chrono::nanoseconds> limit,
                      Outcome& outcome) noexcept {
  return group_->wait(ticket, limit, outcome);
}

std::optional<Outcome> GpuBackend::poll(std::uint64_t ticket) noexcept {
  return group_->poll(ticket);
}

void GpuBackend::on_done(std::uint64_t ticket, Callback callback) noexcept {
  group_->on_done(ticket, callback);
}

int GpuBackend::source(std::uint64_t ticket) noexcept { return group_->source(ticket); }

int GpuBackend::release(std::uint64_t ticket) noexcept { return group_->release(ticket); }

void GpuBackend::abort(const Outcome& cause) noexcept { group_->abort(cause); }

Outcome GpuBackend::health() noexcept { return group_->health(); }

Result<Backend*> GpuBackend::make_child(std::span<const int> ranks, std::string name) noexcept {
  group_->give_all();
  Result<Backend*> child = cpus_.make_child(ranks, name);
  if (!child || *child == nullptr) return child;
  return static_cast<Backend*>(new GpuBackend(gpus_, *child, std::move(name)));
}

void GpuBackend::join(Backend& whole) noexcept {
  set_group(whole);
  group_->join(whole);
}

}  // namespace tutti::gpu
