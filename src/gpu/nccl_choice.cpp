#include "gpu/nccl_choice.hpp"

#include <chrono>
#include <numeric>
#include <utility>

#include <tutti/backend/kinds.hpp>

#include "base/fnv.hpp"
#include "base/format.hpp"
#include "base/index.hpp"
#include "base/log.hpp"
#include "gpu/host_call.hpp"
#include "os/host.hpp"

namespace tutti::gpu {

bool NcclChoice::may_take(const Collective& call) const {
  // The factor of PREMUL_SUM may have another form on each rank, and NCCL does not have all forms.
  return state_ != State::host && is_collective(call.kind) && is_on_gpu(call) && call.digest == 0 &&
         !(traits_of(call.kind).reduces && call.op == ReduceOp::premul_sum) &&
         (nccl_ == nullptr || nccl_->unsupported(call).empty());
}

Result<Collective> NcclChoice::next(cuda::CudaApi& cuda, const Gpu& gpu, const std::string& group) {
  Collective call;
  if (state_ == State::unknown) {
    state_ = State::asking;
    // The bus id, as NCCL does: two parts of one GPU (MIG) have different UUIDs, but NCCL refuses
    // them.
    std::string id;
    const Result<std::string> boot = os::boot_id();
    if (boot && cuda.bus_id(gpu.device->index(), id) == 0)
      mine_ = {base::fnv_of(boot.value()) | 1, base::fnv_of(id)};
    all_.assign(base::as_size(cpus_.size()), Note());
    call.kind = Kind::all_gather;
    call.tag = kLibraryTag;
    call.input = TensorView(&mine_, DType::uint8, sizeof mine_);
    call.output = TensorView(all_.data(), DType::uint8, sizeof mine_ * all_.size());
    return call;
  }
  std::vector<int> ranks(base::as_size(cpus_.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  // A separate group, so that the host calls of NCCL's group are not counted as calls of the
  // program.
  Result<Backend*> made = cpus_.make_child(ranks, group);
  if (!made) return made.status();
  mesh_ = *made;
  call.kind = Kind::new_group;
  return call;
}

std::string NcclChoice::why_not() const {
  for (int rank = 0; rank < cpus_.size(); ++rank) {
    const Note& one = base::at(all_, rank);
    if (one.host == 0) return base::format("rank {} cannot tell which GPU it uses", rank);
    for (int other = 0; other < rank; ++other) {
      const Note& its = base::at(all_, other);
      if (its.host == one.host && its.gpu == one.gpu)
        return base::format("ranks {} and {} share a GPU", other, rank);
    }
  }
  return {};
}

Outcome NcclChoice::take(const std::string& group) {
  if (state_ == State::asking) {
    const std::string why = why_not();
    state_ = why.empty() ? State::making : State::host;
    if (cpus_.rank() == 0)
      base::log(base::Level::info,
                why.empty() ? base::format("group '{}': collectives on GPUs go to {}, as each rank "
                                           "has a GPU of its own (TUTTI_BACKEND=auto)",
                                           group, options_.name)
                            : base::format("group '{}': collectives on GPUs go to {}, and not to "
                                           "{}: {} (TUTTI_BACKEND=auto)",
                                           group, cpus_.name(), options_.name, why));
    return {};
  }
  Result<Backend*> made = options_.make(std::exchange(mesh_, nullptr), group);
  if (!made) return made.status();
  nccl_ = *made;
  nccl_->set_owner(*owner_);
  state_ = State::nccl;
  return {};
}

void NcclChoice::release() noexcept {
  opened_.store(nullptr, std::memory_order_release);  // nobody calls any more
  if (nccl_ != nullptr) std::exchange(nccl_, nullptr)->drop_reference();
  if (mesh_ != nullptr) std::exchange(mesh_, nullptr)->drop_reference();
}

}  // namespace tutti::gpu
