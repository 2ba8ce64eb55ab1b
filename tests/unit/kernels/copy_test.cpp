#include "kernels/copy.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tutti::kernels {
namespace {

constexpr std::size_t kGuard = 64;

void check(void (*copy_bytes)(void*, const void*, std::size_t) noexcept, std::size_t bytes,
           std::size_t dst_shift, std::size_t src_shift) {
  std::vector<std::byte> src(src_shift + bytes);
  for (std::size_t i = 0; i < src.size(); ++i) src[i] = static_cast<std::byte>(i * 7 + i / 251);
  std::vector<std::byte> dst(dst_shift + bytes + kGuard, std::byte{0xa5});
  std::vector<std::byte> wanted = dst;
  for (std::size_t i = 0; i < bytes; ++i) wanted[dst_shift + i] = src[src_shift + i];
  copy_bytes(dst.data() + dst_shift, src.data() + src_shift, bytes);
  EXPECT_EQ(dst, wanted) << bytes << " bytes, shifts " << dst_shift << " and " << src_shift;
}

TEST(CopyKernels, CopyEverySizeAtAnyAlignment) {
  for (std::size_t bytes = 0; bytes <= 300; ++bytes) {
    for (const std::size_t shift : {0, 1, 8, 63}) {
      check(&copy, bytes, shift, (shift + bytes) % 64);
      check(&copy_nt, bytes, shift, (shift + bytes) % 64);
    }
  }
  check(&copy_nt, 100'000, 5, 11);
}

TEST(CopyKernels, CopiesInRunsLeaveNothingOut) {
  for (std::size_t bytes = 0; bytes <= 1200; ++bytes) check(&copy_in_runs, bytes, 0, bytes % 64);
  for (const std::size_t bytes : {16384U, 16385U, 32704U, 65599U, 100'000U})
    check(&copy_in_runs, bytes, 5, 11);
}

TEST(CopyKernels, NothingIsCopiedFromNowhere) {
  copy(nullptr, nullptr, 0);
  copy_in_runs(nullptr, nullptr, 0);
  copy_nt(nullptr, nullptr, 0);
}

}  // namespace
}  // namespace tutti::kernels
