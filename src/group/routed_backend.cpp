#include "group/routed_backend.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include <tutti/kinds.hpp>

#include "backend/native/native_backend.hpp"
#include "base/index.hpp"
#include "base/shown.hpp"
#include "call/call_side.hpp"
#include "gpu/gpu_backend.hpp"

namespace tutti::group {
namespace {

// Tickets of the CPUs' backend are its own: small numbers, or with the highest bit. Those of the
// GPUs' are below 2^61, and have these bits here.
constexpr int kShift = 61;
constexpr std::uint64_t kOfGpus = 2;
constexpr std::uint64_t kOfBoth = 3;
constexpr std::uint64_t kNumber = (std::uint64_t{1} << kShift) - 1;

std::uint64_t ticket_of(std::uint64_t whose, std::uint64_t number) noexcept {
  return whose << kShift | (number & kNumber);
}

bool is_for_gpus(const Collective& call) noexcept {
  if (!has_data(call.kind) || call.tag == kLibraryTag) return false;
  return call::reference_view(call).device().type == DeviceType::cuda;
}

struct Drop {
  void operator()(Backend* backend) const noexcept { backend->drop_reference(); }
};
using Held = std::unique_ptr<Backend, Drop>;

/// A callback of an operation on both, while the first one runs.
struct Second {
  Backend* gpus;
  std::uint64_t ticket;
  Callback callback;
};

}  // namespace

Result<Route> route_of(std::string_view name) {
  if (name == gpu::kAgreed) return Route{std::string(native::kName), {}, true};
  if (name.find(':') == std::string_view::npos) return Route{std::string(name), {}, false};
  Route route;
  const auto refuse = [&](const std::string& why) {
    return Outcome(Errc::invalid_argument, "the backend '" + base::shown(name) +
                                               "' (TUTTI_BACKEND): " + why +
                                               "; write it as \"cpu:native,cuda:nccl\"");
  };
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find(',', at), name.size());
    const std::string_view pair = name.substr(at, end - at);
    at = end + 1;
    const std::size_t colon = pair.find(':');
    const std::string_view device = pair.substr(0, colon);
    if (colon == std::string_view::npos || colon + 1 == pair.size())
      return refuse("each part is a device and a backend");
    if (device != "cpu" && device != "cuda")
      return refuse("there is no device '" + base::shown(device) + "'");
    std::string& its = device == "cpu" ? route.cpu : route.cuda;
    if (!its.empty()) return refuse("the device '" + std::string(device) + "' stands there twice");
    its = pair.substr(colon + 1);
  }
  if (route.cpu.empty()) route.cpu = std::exchange(route.cuda, {});
  if (route.cpu == route.cuda) route.cuda.clear();
  return route;
}

Result<Backend*> RoutedBackend::make_world(Backend* cpus, const BackendFactory& cuda,
                                           std::string name, const WorldOptions& options) {
  Held world(cpus);
  std::vector<int> all(base::as_size(cpus->size()));
  std::iota(all.begin(), all.end(), 0);
  // A group of its own, so that what GPUs need of the CPUs is no call of the program's.
  Result<Backend*> made = cpus->make_child(all, options.name);
  if (!made) return made.status();
  Held beside(*made);
  Collective call;
  call.kind = Kind::new_group;
  call.timeout = std::max<std::chrono::nanoseconds>(
      options.deadline - std::chrono::steady_clock::now(), std::chrono::milliseconds(1));
  const std::uint64_t ticket = cpus->submit(call, false);
  Outcome outcome;
  (void)cpus->wait(ticket, std::nullopt, outcome);
  (void)cpus->release(ticket);
  if (!outcome.ok()) return outcome;
  Result<Backend*> gpus = cuda.make_beside(beside.release(), options);
  if (!gpus) return gpus.status();
  return static_cast<Backend*>(new RoutedBackend(world.release(), *gpus, std::move(name)));
}

RoutedBackend::~RoutedBackend() {
  gpus_->drop_reference();
  cpus_->drop_reference();
}

std::string RoutedBackend::unsupported(const Collective& call) const {
  if (is_for_gpus(call) && call.details != nullptr && call.details->probed != 0)
    return "the probe has found a message of the backend '" + std::string(cpus_->name()) +
           "', and '" + std::string(gpus_->name()) +
           "' receives tensors of GPUs; receive it into CPU memory";
  return (is_for_gpus(call) ? gpus_ : cpus_)->unsupported(call);
}

std::uint64_t RoutedBackend::submit(const Collective& call, bool asynchronous) noexcept {
  if (call.kind == Kind::new_group) {
    const Both both{cpus_->submit(call, asynchronous), gpus_->submit(call, asynchronous)};
    const std::lock_guard lock(mutex_);
    const std::uint64_t ticket = ticket_of(kOfBoth, next_++);
    both_.emplace(ticket, both);
    return ticket;
  }
  if (!is_for_gpus(call)) [[likely]]
    return cpus_->submit(call, asynchronous);
  return ticket_of(kOfGpus, gpus_->submit(call, asynchronous));
}

RoutedBackend::Both RoutedBackend::both_of(std::uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  return both_.at(ticket);
}

bool RoutedBackend::wait(std::uint64_t ticket, std::optional<std::chrono::nanoseconds> limit,
                         Outcome& outcome) noexcept {
  if (ticket >> kShift == kOfGpus) return gpus_->wait(ticket & kNumber, limit, outcome);
  if (ticket >> kShift != kOfBoth) return cpus_->wait(ticket, limit, outcome);
  const Both both = both_of(ticket);
  if (!cpus_->wait(both.cpus, limit, outcome)) return false;
  return !outcome.ok() || gpus_->wait(both.gpus, limit, outcome);
}

std::optional<Outcome> RoutedBackend::poll(std::uint64_t ticket) noexcept {
  if (ticket >> kShift == kOfGpus) return gpus_->poll(ticket & kNumber);
  if (ticket >> kShift != kOfBoth) return cpus_->poll(ticket);
  const Both both = both_of(ticket);
  const std::optional<Outcome> first = cpus_->poll(both.cpus);
  return first && first->ok() ? gpus_->poll(both.gpus) : first;
}

void RoutedBackend::on_done(std::uint64_t ticket, Callback callback) noexcept {
  if (ticket >> kShift == kOfGpus) return gpus_->on_done(ticket & kNumber, callback);
  if (ticket >> kShift != kOfBoth) return cpus_->on_done(ticket, callback);
  const Both both = both_of(ticket);
  gpus_->add_reference();  // the operation may outlive its Work
  cpus_->on_done(both.cpus, {[](void* context, const Outcome& outcome) noexcept {
                               const std::unique_ptr<Second> second(static_cast<Second*>(context));
                               if (outcome.ok())
                                 second->gpus->on_done(second->ticket, second->callback);
                               else
                                 second->callback.function(second->callback.context, outcome);
                               second->gpus->drop_reference();
                             },
                             new Second{gpus_, both.gpus, callback}});
}

int RoutedBackend::source(std::uint64_t ticket) noexcept {
  if (ticket >> kShift == kOfGpus) return gpus_->source(ticket & kNumber);
  return ticket >> kShift == kOfBoth ? -1 : cpus_->source(ticket);
}

int RoutedBackend::release(std::uint64_t ticket) noexcept {
  if (ticket >> kShift == kOfGpus) return gpus_->release(ticket & kNumber);
  if (ticket >> kShift != kOfBoth) return cpus_->release(ticket);
  const Both both = both_of(ticket);
  (void)cpus_->release(both.cpus);
  (void)gpus_->release(both.gpus);
  const std::lock_guard lock(mutex_);
  both_.erase(ticket);
  return -1;
}

void RoutedBackend::abort(const Outcome& cause) noexcept {
  cpus_->abort(cause);
  gpus_->abort(cause);
}

Outcome RoutedBackend::health() noexcept {
  const Outcome first = cpus_->health();
  return first.ok() ? gpus_->health() : first;
}

Result<Backend*> RoutedBackend::make_child(std::span<const int> ranks, std::string name) noexcept {
  Result<Backend*> cpus = cpus_->make_child(ranks, name);
  if (!cpus) return cpus.status();
  Held held(*cpus);
  Result<Backend*> gpus = gpus_->make_child(ranks, std::move(name));
  if (!gpus) return gpus.status();
  if (held == nullptr) return static_cast<Backend*>(nullptr);
  return static_cast<Backend*>(new RoutedBackend(held.release(), *gpus, name_));
}

void RoutedBackend::close(std::chrono::nanoseconds drain) noexcept {
  cpus_->close(drain);
  gpus_->close(drain);
}

}  // namespace tutti::group
