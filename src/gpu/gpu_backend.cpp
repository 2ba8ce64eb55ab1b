#include "gpu/gpu_backend.hpp"

#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "call/call_side.hpp"

namespace tutti::gpu {
namespace {

bool is_ours(std::uint64_t ticket) noexcept { return ticket >> kTicketShift == kTicketMark; }

// NCCL's tickets are below 2^61; here their top bits are 001.
constexpr std::uint64_t kNcclMark = 1;
constexpr std::uint64_t kNumber = (std::uint64_t{1} << kTicketShift) - 1;

bool is_on_nccl(std::uint64_t ticket) noexcept { return ticket >> kTicketShift == kNcclMark; }

/// The ticket of every call in a forked child.
constexpr std::uint64_t kForked = (kTicketMark << kTicketShift) | ((std::uint64_t{1} << 61) - 1);

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
    : cpus_(*cpus),
      gpus_(std::move(gpus)),
      group_(std::make_shared<Group>(*gpus_, cpus, std::move(name))) {
  const std::lock_guard lock(gpus_->mutex());
  gpus_->add(group_);
}

GpuBackend::~GpuBackend() {
  if (forked()) {
    // Leaks them: they belong to the parent of this fork.
    new std::shared_ptr<Group>(std::move(group_));
    new std::shared_ptr<Gpus>(std::move(gpus_));
    return;
  }
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
  if (forked()) return {};  // `submit` says so, with the error of a call in a forked child
  const TensorView& view = call::reference_view(call);
  if (const std::string why = gpus_->missing(view.device().index); !why.empty())
    return std::string("the ") + (&view == &call.output ? "output" : "input") +
           " is in the memory of " + to_string(view.device()) + ", which cannot be used: " + why;
  Collective other = call;
  other.input = on_cpu(call.input);
  other.output = on_cpu(call.output);
  return cpus_.unsupported(other);
}

std::uint64_t GpuBackend::submit(const Collective& call, bool asynchronous) noexcept {
  if (!is_on_gpu(call) &&
      (!group_->has_waiting() || call.kind == Kind::recv || call.kind == Kind::probe)) [[likely]]
    return cpus_.submit(call, asynchronous);
  if (forked()) return kForked;
  Backend* nccl = group_->nccl_for(call);
  if (nccl == nullptr) {
    if (const std::optional<std::uint64_t> ticket = group_->submit(call)) return *ticket;
    nccl = group_->nccl();
  }
  return kNcclMark << kTicketShift | nccl->submit(call, asynchronous);
}

bool GpuBackend::wait(std::uint64_t ticket, std::optional<std::chrono::nanoseconds> limit,
                      Outcome& outcome) noexcept {
  if (is_on_nccl(ticket)) return group_->nccl()->wait(ticket & kNumber, limit, outcome);
  if (!is_ours(ticket)) [[likely]]
    return cpus_.wait(ticket, limit, outcome);
  if (!forked()) return group_->wait(ticket, limit, outcome);
  outcome = base::forked_status();
  return true;
}

std::optional<Outcome> GpuBackend::poll(std::uint64_t ticket) noexcept {
  if (is_on_nccl(ticket)) return group_->nccl()->poll(ticket & kNumber);
  if (!is_ours(ticket)) return cpus_.poll(ticket);
  return forked() ? base::forked_status() : group_->poll(ticket);
}

void GpuBackend::on_done(std::uint64_t ticket, Callback callback) noexcept {
  if (is_on_nccl(ticket)) return group_->nccl()->on_done(ticket & kNumber, callback);
  if (!is_ours(ticket)) return cpus_.on_done(ticket, callback);
  if (forked()) return callback.function(callback.context, base::forked_status());
  group_->on_done(ticket, callback);
}

int GpuBackend::source(std::uint64_t ticket) noexcept {
  if (is_on_nccl(ticket)) return -1;  // no collective has one
  if (!is_ours(ticket)) return cpus_.source(ticket);
  return forked() ? -1 : group_->source(ticket);
}

int GpuBackend::release(std::uint64_t ticket) noexcept {
  if (is_on_nccl(ticket)) return group_->nccl()->release(ticket & kNumber);
  if (!is_ours(ticket)) [[likely]]
    return cpus_.release(ticket);
  return forked() ? -1 : group_->release(ticket);
}

void GpuBackend::abort(const Outcome& cause) noexcept {
  if (forked()) return cpus_.abort(cause);
  group_->abort(cause);
}

Outcome GpuBackend::health() noexcept {
  return forked() ? base::forked_status() : group_->health();
}

Result<Backend*> GpuBackend::make_child(std::span<const int> ranks, std::string name) noexcept {
  if (forked()) return base::forked_status();
  group_->give_all();
  Result<Backend*> child = cpus_.make_child(ranks, name);
  if (!child || *child == nullptr) return child;
  return static_cast<Backend*>(new GpuBackend(gpus_, *child, std::move(name)));
}

}  // namespace tutti::gpu
