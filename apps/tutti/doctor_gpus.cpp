#include <string>

#include "apps/tutti/doctor.hpp"
#include "base/format.hpp"
#include "cuda/calls.hpp"
#include "cuda/library.hpp"

namespace tutti::cli {
namespace {

/// Whether the GPUs reach the memory of each other.
std::string peer_text(cuda::CudaApi& cuda, cuda::Calls& calls, int gpus) {
  int pairs = 0;
  int open = 0;
  std::string closed;
  for (int from = 0; from < gpus; ++from) {
    for (int to = 0; to < gpus; ++to) {
      bool may = false;
      if (from == to) continue;
      if (!calls.cuda("cuDeviceCanAccessPeer", cuda.can_access_peer(from, to, may)))
        return calls.failure();
      ++pairs;
      if (may)
        ++open;
      else if (closed.empty())
        closed = base::format("cuda:{} not that of cuda:{}", from, to);
    }
  }
  if (open == pairs) return "each GPU reaches the memory of each other one";
  return base::format("{} of {} pairs; {}", open, pairs, closed);
}

}  // namespace

void look_at_gpus(Findings& findings) {
  if (!cuda::has_gpu()) return;
  findings.section("GPUs");
  Result<cuda::CudaApi*> found = cuda::driver();
  if (!found) {
    findings.fact("CUDA", "no");
    findings.wrong(base::format("tensors of GPUs cannot be used: {}", found.status().message()));
    return;
  }
  cuda::CudaApi& cuda = **found;
  findings.fact("CUDA", cuda.about());
  cuda::Calls calls(cuda);
  int gpus = 0;
  if (!calls.cuda("cuInit", cuda.init()) ||
      !calls.cuda("cuDeviceGetCount", cuda.device_count(gpus))) {
    findings.wrong(base::format("tensors of GPUs cannot be used: {}", calls.failure()));
    return;
  }
  if (gpus == 0) findings.fact("gpus", "none that this process may use (CUDA_VISIBLE_DEVICES)");
  for (int gpu = 0; gpu < gpus; ++gpu) {
    std::string name;
    std::size_t bytes = 0;
    if (!calls.cuda("cuDeviceGetName", cuda.device_name(gpu, name)) ||
        !calls.cuda("cuDeviceTotalMem", cuda.device_memory(gpu, bytes))) {
      findings.wrong(base::format("cuda:{} tells nothing of itself: {}", gpu, calls.failure()));
      return;
    }
    findings.fact(base::format("cuda:{}", gpu),
                  base::format("{}, {:.1f} GiB", name, static_cast<double>(bytes) / (1 << 30)));
  }
  if (gpus > 1) findings.fact("peer access", peer_text(cuda, calls, gpus));
}

}  // namespace tutti::cli
