#include "backend/nccl/nccl_backend.hpp"

#include <atomic>
#include <utility>
#include <vector>

#include "backend/native/native_backend.hpp"
#include "backend/nccl/library.hpp"
#include "backend/nccl/mapping.hpp"
#include "backend/nccl/promises.hpp"

namespace tutti::nccl {
namespace {

std::atomic<int>& living() {
  static std::atomic<int> count{0};
  return count;
}

}  // namespace

Result<Backend*> NcclBackend::make_world(Api& nccl, CudaApi& cuda, const WorldOptions& options) {
  Result<Backend*> mesh = native::NativeBackend::make_world(options, {});
  if (!mesh) return mesh.status();
  return make_gpu_group(nccl, cuda, *mesh, options);
}

Result<Backend*> NcclBackend::make_gpu_group(Api& nccl, CudaApi& cuda, Backend* mesh,
                                             const WorldOptions& options) {
  auto group = std::make_shared<NcclGroup>(nccl, cuda, options.config, mesh, options.name);
  auto made = std::make_unique<NcclWorld>(nccl, cuda);  // may throw, having no thread
  ++living();
  const std::shared_ptr<NcclWorld> world(made.release(), [](NcclWorld* one) {
    delete one;
    --living();
  });
  return static_cast<Backend*>(new NcclBackend(world, std::move(group)));
}

NcclBackend::~NcclBackend() {
  group_->leave();
  std::vector<cuda::Due> due;
  (void)group_->make_progress(due);
  world_->progress_thread().deliver(std::move(due));
}

std::string NcclBackend::unsupported(const Collective& call) const {
  return why_unsupported(call, world_->nccl().version());
}

Pending NcclBackend::submit(const Collective& call, bool /*asynchronous*/) noexcept {
  const std::uint64_t ticket = group_->submit(call);
  world_->progress_thread().wake();  // it has a timeout, though nobody may wait for it on the host
  return {this, ticket};
}

bool NcclBackend::wait(std::uint64_t ticket, std::optional<std::chrono::nanoseconds> limit,
                       Outcome& outcome) noexcept {
  return group_->wait(ticket, limit, outcome);
}

std::optional<Outcome> NcclBackend::poll(std::uint64_t ticket) noexcept {
  return group_->poll(ticket);
}

void NcclBackend::on_done(std::uint64_t ticket, Callback callback) noexcept {
  group_->on_done(ticket, callback);
  world_->progress_thread().wake();
}

Received NcclBackend::received(std::uint64_t ticket) noexcept { return group_->received(ticket); }

Received NcclBackend::release(std::uint64_t ticket) noexcept { return group_->release(ticket); }

void NcclBackend::abort(const Outcome& cause) noexcept {
  group_->abort(cause);
  world_->progress_thread().wake();
}

Outcome NcclBackend::health() noexcept { return group_->health(); }

Result<Backend*> NcclBackend::make_child(std::span<const int> ranks, std::string name) noexcept {
  Result<std::shared_ptr<NcclGroup>> child = group_->make_child(ranks, std::move(name));
  if (!child) return child.status();
  if (*child == nullptr) return static_cast<Backend*>(nullptr);
  return static_cast<Backend*>(new NcclBackend(world_, std::move(*child)));
}

void NcclBackend::close(std::chrono::nanoseconds /*drain*/) noexcept {}

std::string NcclBackend::location(int rank) const { return group_->location(rank); }

BackendFactory factory() {
  BackendFactory factory;
  factory.name = kName;
  factory.missing = missing_libraries;
  factory.about = [] {
    const Result<Libraries> found = open_libraries();
    return found ? found.value().nccl->about() + "; " + found.value().cuda->about() : std::string();
  };
  factory.make_world = [](const WorldOptions& options) -> Result<Backend*> {
    Result<Libraries> found = open_libraries();
    if (!found) return found.status();
    return NcclBackend::make_world(*found->nccl, *found->cuda, options);
  };
  factory.make_gpu_group = [](Backend* host, const WorldOptions& options) -> Result<Backend*> {
    Result<Libraries> found = open_libraries();
    if (!found) {
      host->drop_reference();
      return found.status();
    }
    return NcclBackend::make_gpu_group(*found->nccl, *found->cuda, host, options);
  };
  factory.version = [] {
    const Result<Libraries> found = open_libraries();
    return found ? found.value().nccl->version() : 0;
  };
  factory.alive = [] { return living().load(); };
  factory.promises = kPromises;
  return factory;
}

}  // namespace tutti::nccl
