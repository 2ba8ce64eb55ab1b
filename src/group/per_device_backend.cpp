#include "group/per_device_backend.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include <tutti/backend/kinds.hpp>

#include "backend/native/native_backend.hpp"
#include "base/index.hpp"
#include "base/shown.hpp"
#include "call/call_side.hpp"
#include "gpu/gpu_backend.hpp"
#include "group/wrapped_operation.hpp"

namespace tutti::group {
namespace {

bool is_for_gpus(const Collective& call) noexcept {
  if (!has_data(call.kind) || call.tag == kLibraryTag) return false;
  return call::reference_view(call).device().type == DeviceType::cuda;
}

struct Drop {
  void operator()(Backend* backend) const noexcept { backend->drop_reference(); }
};
using Held = std::unique_ptr<Backend, Drop>;

/// An operation on both, by the ticket of that on the CPUs: done when both are, well if both are.
class OnBoth final : public WrappedOperation {
 public:
  OnBoth(Backend& cpus, Backend& gpus, const Pending& on_gpus)
      : WrappedOperation(cpus), gpus_(gpus), on_gpus_(on_gpus) {}

  [[nodiscard]] bool wait(std::uint64_t /*ticket*/, std::optional<std::chrono::nanoseconds> limit,
                          Outcome& outcome) noexcept override {
    if (!inner().wait(limit, outcome)) return false;
    return !outcome.ok() || on_gpus_.wait(limit, outcome);
  }
  [[nodiscard]] std::optional<Outcome> poll(std::uint64_t /*ticket*/) noexcept override {
    const std::optional<Outcome> first = inner().poll();
    return first && first->ok() ? on_gpus_.poll() : first;
  }
  void on_done(std::uint64_t /*ticket*/, Callback callback) noexcept override {
    gpus_.add_reference();  // the operation may outlive its Work
    inner().on_done({[](void* context, const Outcome& outcome) noexcept {
                       const std::unique_ptr<Second> second(static_cast<Second*>(context));
                       if (outcome.ok())
                         second->on_gpus.on_done(second->callback);
                       else
                         second->callback.function(second->callback.context, outcome);
                       second->gpus.drop_reference();
                     },
                     new Second{gpus_, on_gpus_, callback}});
  }
  Received release(std::uint64_t ticket) noexcept override {
    (void)on_gpus_.release();
    return WrappedOperation::release(ticket);
  }

 private:
  /// A callback while the first one runs.
  struct Second {
    Backend& gpus;
    Pending on_gpus;
    Callback callback;
  };

  Backend& gpus_;
  const Pending on_gpus_;
};

}  // namespace

Result<BackendConfig> backend_config_of(std::string_view name) {
  if (name == gpu::kAgreed) return BackendConfig{std::string(native::kName), {}, true};
  if (name.find(':') == std::string_view::npos) return BackendConfig{std::string(name), {}, false};
  BackendConfig backends;
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
    std::string& its = device == "cpu" ? backends.cpu : backends.cuda;
    if (!its.empty()) return refuse("the device '" + std::string(device) + "' stands there twice");
    its = pair.substr(colon + 1);
  }
  if (backends.cpu.empty()) backends.cpu = std::exchange(backends.cuda, {});
  if (backends.cpu == backends.cuda) backends.cuda.clear();
  return backends;
}

Result<Backend*> PerDeviceBackend::make_world(Backend* cpus, const BackendFactory& cuda,
                                              std::string name, const WorldOptions& options) {
  Held world(cpus);
  std::vector<int> all(base::as_size(cpus->size()));
  std::iota(all.begin(), all.end(), 0);
  // A group of its own, so that what GPUs need of the CPUs is no call of the program's.
  Result<Backend*> made = cpus->make_child(all, options.name);
  if (!made) return made.status();
  Held host(*made);
  Collective call;
  call.kind = Kind::new_group;
  call.timeout = std::max<std::chrono::nanoseconds>(
      options.deadline - std::chrono::steady_clock::now(), std::chrono::milliseconds(1));
  const Pending agreed = cpus->submit(call, false);
  Outcome outcome;
  (void)agreed.wait(std::nullopt, outcome);
  (void)agreed.release();
  if (!outcome.ok()) return outcome;
  Result<Backend*> gpus = cuda.make_gpu_group(host.release(), options);
  if (!gpus) return gpus.status();
  return static_cast<Backend*>(new PerDeviceBackend(world.release(), *gpus, std::move(name)));
}

PerDeviceBackend::~PerDeviceBackend() {
  gpus_->drop_reference();
  cpus_->drop_reference();
}

std::string PerDeviceBackend::unsupported(const Collective& call) const {
  if (is_for_gpus(call) && call.details != nullptr && call.details->probed != 0)
    return "the probe has found a message of the backend '" + std::string(cpus_->name()) +
           "', and '" + std::string(gpus_->name()) +
           "' receives tensors of GPUs; receive it into CPU memory";
  return (is_for_gpus(call) ? gpus_ : cpus_)->unsupported(call);
}

Pending PerDeviceBackend::submit(const Collective& call, bool asynchronous) noexcept {
  if (call.kind == Kind::new_group) {
    const Pending on_cpus = cpus_->submit(call, asynchronous);
    const Pending on_gpus = gpus_->submit(call, asynchronous);
    return WrappedOperation::wrap(std::make_unique<OnBoth>(*cpus_, *gpus_, on_gpus), on_cpus);
  }
  return (is_for_gpus(call) ? gpus_ : cpus_)->submit(call, asynchronous);
}

std::optional<Received> PerDeviceBackend::run(const Collective& call, Outcome& outcome) noexcept {
  return (is_for_gpus(call) ? gpus_ : cpus_)->run(call, outcome);
}

void PerDeviceBackend::abort(const Outcome& cause) noexcept {
  cpus_->abort(cause);
  gpus_->abort(cause);
}

Outcome PerDeviceBackend::health() noexcept {
  const Outcome first = cpus_->health();
  return first.ok() ? gpus_->health() : first;
}

Result<Backend*> PerDeviceBackend::make_child(std::span<const int> ranks,
                                              std::string name) noexcept {
  Result<Backend*> cpus = cpus_->make_child(ranks, name);
  if (!cpus) return cpus.status();
  Held held(*cpus);
  Result<Backend*> gpus = gpus_->make_child(ranks, std::move(name));
  if (!gpus) return gpus.status();
  if (held == nullptr) return static_cast<Backend*>(nullptr);
  return static_cast<Backend*>(new PerDeviceBackend(held.release(), *gpus, name_));
}

void PerDeviceBackend::set_owner(Backend& owner) noexcept {
  cpus_->set_owner(owner);
  gpus_->set_owner(owner);
}

void PerDeviceBackend::close(std::chrono::nanoseconds drain) noexcept {
  cpus_->close(drain);
  gpus_->close(drain);
}

}  // namespace tutti::group
