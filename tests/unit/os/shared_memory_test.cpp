#include "os/shared_memory.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "unit/child.hpp"
#include "unit/os/limit.hpp"

namespace {

constexpr unsigned kNoExecSeal = 8;

/// The kernel's answer to memfd_create.
enum class Kernel { this_one, refuses_what_may_be_executed, knows_no_such_flag };
Kernel kernel = Kernel::this_one;

}  // namespace

extern "C" int memfd_create(const char* name, unsigned flags) noexcept {
  const bool sealed = (flags & kNoExecSeal) != 0;
  // vm.memfd_noexec = 2; kernels before 6.3.
  const bool refuses = kernel == Kernel::refuses_what_may_be_executed && !sealed;
  if (refuses || (kernel == Kernel::knows_no_such_flag && sealed)) {
    errno = refuses ? EACCES : EINVAL;
    return -1;
  }
  using Create = int (*)(const char*, unsigned);
  static const auto kCreate = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "memfd_create"));
  return kCreate(name, flags);
}

namespace tutti::os {
namespace {

constexpr std::size_t kBytes = std::size_t{64} << 20;
constexpr rlim_t kFew = rlim_t{1} << 20;

TEST(SharedMemory, IsMadeWhateverTheKernelThinksOfExecution) {
  for (const Kernel each :
       {Kernel::this_one, Kernel::refuses_what_may_be_executed, Kernel::knows_no_such_flag}) {
    kernel = each;
    Result<Fd> memory = make_memfd("test", kBytes);
    kernel = Kernel::this_one;
    ASSERT_TRUE(memory) << memory.status().message();
    EXPECT_TRUE(check_memfd(*memory, kBytes).ok());
    EXPECT_TRUE(reopen_read_only(*memory));
  }
}

TEST(SharedMemory, SoftLimitOnFileSizesDoesNotCountForIt) {
  const test::SoftLimit few(RLIMIT_FSIZE, kFew);
  Result<Fd> memory = make_memfd("test", kBytes);
  rlimit after{};
  EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &after), 0);
  EXPECT_TRUE(memory) << memory.status().message();
  EXPECT_EQ(after.rlim_cur, kFew) << "the limit was not put back";
}

TEST(SharedMemory, HardLimitOnFileSizesIsAnErrorAndNoSignal) {
  const int end = test::end_of(test::start_child([] {
    const rlimit few{kFew, kFew};
    if (setrlimit(RLIMIT_FSIZE, &few) != 0) _exit(2);
    Result<Fd> memory = make_memfd("test", kBytes);
    if (memory) _exit(3);
    const std::string text(memory.status().message());
    const bool clear = memory.status().code() == Errc::resource &&
                       text.find("allow it more (ulimit -f)") != std::string::npos;
    _exit(clear ? 0 : 4);
  }));
  EXPECT_EQ(end, 0) << "negative: the signal that ended it";
}

TEST(SharedMemory, PagesOfARangeAreWholeWhateverTheirSize) {
  auto* const base = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 30);
  for (const std::size_t page : {std::size_t{4096}, std::size_t{65536}}) {
    const auto check = [&](std::size_t at, std::size_t size, std::size_t begin, std::size_t end) {
      const std::span<std::byte> pages = pages_of(base + at, size, page);
      EXPECT_EQ(pages.data() - base, static_cast<std::ptrdiff_t>(begin)) << at << " " << size;
      EXPECT_EQ(pages.size(), end - begin) << at << " " << size;
    };
    check(0, 1, 0, page);
    check(page, page, page, 2 * page);
    check(page - 1, 2, 0, 2 * page);
    check(3 * page + 4096 % page, 2 * page, 3 * page, page == 4096 ? 5 * page : 6 * page);
  }
}

TEST(SharedMemory, AnyRangeCanBeTaken) {
  Result<Fd> memory = make_memfd("test", kBytes);
  ASSERT_TRUE(memory);
  Result<Mapping> mapping = map_shared(*memory, kBytes, true);
  ASSERT_TRUE(mapping);
  EXPECT_TRUE(populate(mapping->data() + 100, 5000).ok());
  unsigned char there[3] = {};
  ASSERT_EQ(mincore(mapping->data(), 3 * 4096, there), 0);
  EXPECT_EQ(there[0] & 1, 1);
  EXPECT_EQ(there[1] & 1, 1);
}

}  // namespace
}  // namespace tutti::os
