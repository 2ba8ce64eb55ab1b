#include "gpu/staged_backend.hpp"

#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "call/call_side.hpp"

namespace tutti::staged {
namespace {

bool is_ours(std::uint64_t ticket) noexcept { return ticket >> kTicketShift == kTicketMark; }

// Tickets of a backend for GPUs are below 2^61, and have the bits 001 on top here.
constexpr std::uint64_t kBesideMark = 1;
constexpr std::uint64_t kNumber = (std::uint64_t{1} << kTicketShift) - 1;

bool is_beside(std::uint64_t ticket) noexcept { return ticket >> kTicketShift == kBesideMark; }

/// The ticket of a call in a forked child.
constexpr std::uint64_t kForked = (kTicketMark << kTicketShift) | ((std::uint64_t{1} << 61) - 1);

TensorView on_cpu(const TensorView& view) noexcept {
  return TensorView(view.data(), view.dtype(), view.count());
}

}  // namespace

Backend* StagedBackend::make(Backend* cpus, std::string name, Gpus::Source source,
                             const DirectOptions& direct, BesideOptions beside) {
  return new StagedBackend(std::make_shared<Gpus>(std::move(source), direct, std::move(beside)),
                           cpus, std::move(name));
}

StagedBackend::StagedBackend(std::shared_ptr<Gpus> gpus, Backend* cpus, std::string name)
    : cpus_(*cpus),
      gpus_(std::move(gpus)),
      group_(std::make_shared<Group>(*gpus_, cpus, std::move(name))) {
  const std::lock_guard lock(gpus_->mutex());
  gpus_->add(group_);
}

StagedBackend::~StagedBackend() {
  if (forked()) {
    // They belong to the parent of this fork.
    new std::shared_ptr<Group>(std::move(group_));
    new std::shared_ptr<Gpus>(std::move(gpus_));
    return;
  }
  group_->leave();
  std::vector<cuda::Due> due;
  (void)group_->pass(due);
  {
    const std::lock_guard lock(gpus_->mutex());
    gpus_->deliver(std::move(due));
  }
  group_->leave_beside();
}

std::string StagedBackend::unsupported(const Collective& call) const {
  if (!is_on_gpu(call)) return cpus_.unsupported(call);
  if (forked()) return {};  // `submit` says so, with the error of a call in a forked child
  const TensorView& view = call::telling_view(call);
  if (const std::string why = gpus_->missing(view.device().index); !why.empty())
    return std::string("the ") + (&view == &call.output ? "output" : "input") +
           " is in the memory of " + to_string(view.device()) + ", which cannot be used: " + why;
  Collective other = call;
  other.input = on_cpu(call.input);
  other.output = on_cpu(call.output);
  return cpus_.unsupported(other);
}

std::uint64_t StagedBackend::submit(const Collective& call, bool asynchronous) noexcept {
  if (!is_on_gpu(call) &&
      (!group_->has_waiting() || call.kind == Kind::recv || call.kind == Kind::probe)) [[likely]]
    return cpus_.submit(call, asynchronous);
  if (forked()) return kForked;
  Backend* beside = group_->beside_for(call);
  if (beside == nullptr) {
    if (const std::optional<std::uint64_t> ticket = group_->submit(call)) return *ticket;
    beside = group_->beside();
  }
  return kBesideMark << kTicketShift | beside->submit(call, asynchronous);
}

bool StagedBackend::wait(std::uint64_t ticket, std::optional<std::chrono::nanoseconds> limit,
                         Outcome& outcome) noexcept {
  if (is_beside(ticket)) return group_->beside()->wait(ticket & kNumber, limit, outcome);
  if (!is_ours(ticket)) [[likely]]
    return cpus_.wait(ticket, limit, outcome);
  if (!forked()) return group_->wait(ticket, limit, outcome);
  outcome = base::forked_status();
  return true;
}

std::optional<Outcome> StagedBackend::poll(std::uint64_t ticket) noexcept {
  if (is_beside(ticket)) return group_->beside()->poll(ticket & kNumber);
  if (!is_ours(ticket)) return cpus_.poll(ticket);
  return forked() ? base::forked_status() : group_->poll(ticket);
}

void StagedBackend::on_done(std::uint64_t ticket, Callback callback) noexcept {
  if (is_beside(ticket)) return group_->beside()->on_done(ticket & kNumber, callback);
  if (!is_ours(ticket)) return cpus_.on_done(ticket, callback);
  if (forked()) return callback.function(callback.context, base::forked_status());
  group_->on_done(ticket, callback);
}

int StagedBackend::source(std::uint64_t ticket) noexcept {
  if (is_beside(ticket)) return -1;  // no collective has one
  if (!is_ours(ticket)) return cpus_.source(ticket);
  return forked() ? -1 : group_->source(ticket);
}

int StagedBackend::release(std::uint64_t ticket) noexcept {
  if (is_beside(ticket)) return group_->beside()->release(ticket & kNumber);
  if (!is_ours(ticket)) [[likely]]
    return cpus_.release(ticket);
  return forked() ? -1 : group_->release(ticket);
}

void StagedBackend::abort(const Outcome& cause) noexcept {
  if (forked()) return cpus_.abort(cause);
  group_->abort(cause);
}

Outcome StagedBackend::health() noexcept {
  return forked() ? base::forked_status() : group_->health();
}

Result<Backend*> StagedBackend::make_child(std::span<const int> ranks, std::string name) noexcept {
  if (forked()) return base::forked_status();
  group_->give_all();
  Result<Backend*> child = cpus_.make_child(ranks, name);
  if (!child || *child == nullptr) return child;
  return static_cast<Backend*>(new StagedBackend(gpus_, *child, std::move(name)));
}

}  // namespace tutti::staged
