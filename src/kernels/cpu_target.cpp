#include "kernels/cpu_target.hpp"

#include <atomic>

#include "base/instruction_sets.hpp"

namespace tutti::kernels {
namespace {

CpuTarget best_target() noexcept {
  for (const CpuTarget target : {CpuTarget::avx3, CpuTarget::avx2, CpuTarget::sve}) {
    if (runs(target)) return target;
  }
  return CpuTarget::baseline;
}

std::atomic<CpuTarget>& choice() noexcept {
  static std::atomic<CpuTarget> target = best_target();
  return target;
}

}  // namespace

bool runs(CpuTarget target) noexcept {
  switch (target) {
    case CpuTarget::baseline: return true;
    case CpuTarget::sve: return (HWY_TARGETS & HWY_SVE) != 0 && base::has_sve();
    case CpuTarget::avx2: return (HWY_TARGETS & HWY_AVX2) != 0 && base::has_avx2();
    case CpuTarget::avx3: return (HWY_TARGETS & HWY_AVX3) != 0 && base::has_avx3();
  }
  return false;
}

CpuTarget chosen_target() noexcept { return choice().load(); }

void choose_target(CpuTarget target) noexcept { choice().store(target); }

}  // namespace tutti::kernels
