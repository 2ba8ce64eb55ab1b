#include "os/shared_memory.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

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
  }
}

TEST(SharedMemory, SoftLimitOnFileSizesDoesNotCountForIt) {
  const test::SoftLimit few(RLIMIT_FSIZE, kFew);
  const Result<Fd> memory = make_memfd("test", kBytes);
  EXPECT_TRUE(memory) << memory.status().message();
  rlimit after{};
  EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &after), 0);
  EXPECT_EQ(after.rlim_cur, kFew) << "the limit was not put back";
}

TEST(SharedMemory, HardLimitOnFileSizesIsAnErrorAndNoSignal) {
  const int end = test::end_of(test::start_child([] {
    const rlimit few{kFew, kFew};
    if (setrlimit(RLIMIT_FSIZE, &few) != 0) _exit(2);
    const Outcome status = make_memfd("test", kBytes).status();
    if (status.code() != Errc::resource) _exit(3);
    if (status.message().find("allow it more (ulimit -f)") == std::string::npos) _exit(4);
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
  const Mapping mapping = map_shared(make_memfd("test", kBytes).value(), kBytes, true).value();
  EXPECT_TRUE(populate(mapping.data() + 100, 5000).ok());
  unsigned char there[3] = {};
  ASSERT_EQ(mincore(mapping.data(), 3 * 4096, there), 0);
  EXPECT_EQ(there[0] & 1, 1);
  EXPECT_EQ(there[1] & 1, 1);
}

TEST(SharedMemory, MoreThanTheMachineHasIsAnErrorAndEndsNobody) {
  struct sysinfo all = {};
  ASSERT_EQ(::sysinfo(&all), 0);
  const std::size_t much = (all.totalram + all.totalswap) * all.mem_unit + kBytes;
  const Mapping mapping = map_shared(make_memfd("test", much).value(), much, true).value();
  EXPECT_EQ(populate(mapping.data(), much).code(), Errc::resource);
}

/// From now on this process is of another user, which may look into its own /proc.
void become_another() {
  constexpr uid_t kAnother = 54321;
  if (::setgid(kAnother) != 0 || ::setuid(kAnother) != 0 || ::prctl(PR_SET_DUMPABLE, 1) != 0)
    _exit(10);
}

/// Opens the memory once more for writing: 0 or errno.
int reopen_for_writing(const Fd& memory) {
  const std::string path = "/proc/self/fd/" + std::to_string(memory.get());
  return Fd(::open(path.c_str(), O_RDWR | O_CLOEXEC)).valid() ? 0 : errno;
}

TEST(SharedMemory, CannotBeReopenedByAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can run a process of another user";
  for (const bool forbidden : {false, true}) {
    const int end = test::end_of(test::start_child([forbidden] {
      const Fd memory = make_memfd("test", kBytes).value();
      if (forbidden && !forbid_reopening(memory).ok()) _exit(3);
      become_another();
      _exit(reopen_for_writing(memory) == EACCES ? 0 : 4);
    }));
    EXPECT_EQ(end, 0);
  }
}

/// As for a rank that is not root's, for which modes count.
TEST(SharedMemory, CannotBeReopenedByItsUserOnceForbidden) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can run a process of another user";
  const int end = test::end_of(test::start_child([] {
    become_another();
    const Fd memory = make_memfd("test", kBytes).value();
    if (!forbid_reopening(memory).ok()) _exit(3);
    if (reopen_for_writing(memory) != EACCES) _exit(4);
    if (!map_shared(memory, kBytes, true)) _exit(5);
  }));
  EXPECT_EQ(end, 0);
}

TEST(PartialMapping, ShowsTheSameMemoryWhereverItIsMapped) {
  Fd memory = make_memfd("test", kBytes).value();
  const Mapping whole = map_shared(memory, kBytes, true).value();
  Result<PartialMapping> part = PartialMapping::map(std::move(memory), kBytes, false);
  ASSERT_TRUE(part) << part.status().message();
  EXPECT_FALSE(part->whole());
  // Apart, across two parts, again, to the end.
  for (const auto& [begin, bytes] : {std::pair(100'000UL, 10UL),
                                     {200'000, 50'000},
                                     {90'000, 150'000},
                                     {100'000, 10},
                                     {kBytes - 5, 5}}) {
    ASSERT_TRUE(part->add(begin, bytes).ok());
    ASSERT_TRUE(part->add_writable(begin, bytes).ok());
    for (const std::size_t at : {begin, begin + bytes - 1}) {
      part->data()[at] = std::byte{7};
      EXPECT_EQ(whole.data()[at], std::byte{7});
      whole.data()[at] = std::byte{8};
      EXPECT_EQ(part->data()[at], std::byte{8});
    }
  }
}

TEST(PartialMapping, NamesTheLimitOfTheAddressSpace) {
  const int end = test::end_of(test::start_child([] {
    constexpr std::size_t kMuch = std::size_t{1} << 40;
    Result<Fd> memory = make_memfd("test", kMuch);
    if (!memory || address_space_is_limited()) _exit(2);
    const rlimit limit{rlim_t{4} << 30, rlim_t{4} << 30};
    if (setrlimit(RLIMIT_AS, &limit) != 0 || !address_space_is_limited()) _exit(3);
    Result<PartialMapping> part = PartialMapping::map(std::move(*memory), kMuch, false);
    if (!part || !part->add(kMuch / 2, kBytes).ok()) _exit(4);
    const Outcome much = part->add(0, kMuch);
    if (much.code() != Errc::resource) _exit(5);
    if (much.message().find("(ulimit -v)") == std::string::npos) _exit(6);
    if (!part->add_writable(kMuch / 2, 1).ok()) _exit(7);
    part->data()[kMuch / 2] = std::byte{1};
  }));
  EXPECT_EQ(end, 0);
}

}  // namespace
}  // namespace tutti::os
