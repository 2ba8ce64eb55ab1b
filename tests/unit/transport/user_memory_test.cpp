#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <span>

#include "support/sanitized.hpp"
#include "transport/shm/host.hpp"
#include "unit/child.hpp"

// Memory of the arena that a rank hands out to its user.
namespace tutti::transport::shm {
namespace {

std::unique_ptr<Host> alone() {
  auto host = Host::prepare(0, "", true);
  if (!host || !(*host)->stay_alone().ok()) return nullptr;
  return std::move(*host);
}

/// The kernel takes no locked page back.
TEST(UserMemory, IsZeroWhenItIsHandedOutAgain) {
  constexpr std::size_t kBytes = 20'000;
  const std::unique_ptr<Host> host = alone();
  ASSERT_NE(host, nullptr);
  const std::byte* before = nullptr;
  for (const bool locked : {false, true, false}) {
    auto memory = host->allocate(kBytes);
    ASSERT_TRUE(memory && *memory != nullptr);
    const std::span<std::byte> bytes(memory->get(), kBytes);
    EXPECT_TRUE(before == nullptr || before == bytes.data()) << "its place is used again";
    before = bytes.data();
    EXPECT_EQ(std::ranges::count(bytes, std::byte{0}), std::ssize(bytes));
    std::ranges::fill(bytes, std::byte{7});
    ASSERT_TRUE(!locked || ::mlock(bytes.data(), kBytes) == 0);
  }
}

/// There others could not read it: its addresses are not reserved.
TEST(UserMemory, IsNoneWhereTheAddressSpaceIsLimited) {
  if (tutti::test::kSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  const int end = tutti::test::end_of(tutti::test::start_child([] {
    const rlimit limit{rlim_t{4} << 30, rlim_t{4} << 30};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) _exit(2);
    const std::unique_ptr<Host> host = alone();
    if (host == nullptr || host->regions().user_bytes != 0) _exit(3);
    auto memory = host->allocate(1);
    if (!memory || *memory != nullptr) _exit(4);
  }));
  EXPECT_EQ(end, 0);
}

}  // namespace
}  // namespace tutti::transport::shm
