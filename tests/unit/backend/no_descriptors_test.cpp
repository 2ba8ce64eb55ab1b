#include <dlfcn.h>
#include <sys/epoll.h>

#include <atomic>

#include <tutti/tutti.hpp>

#include "unit/os/limit.hpp"
#include "world_of_one.hpp"

// A process that may open no more files when its progress thread starts.

namespace {
std::atomic<int> vain_waits{0};
}  // namespace

extern "C" int epoll_wait(int epoll, epoll_event* events, int most, int timeout) {
  using Wait = int (*)(int, epoll_event*, int, int);
  static const auto kWait = reinterpret_cast<Wait>(dlsym(RTLD_NEXT, "epoll_wait"));
  if (epoll < 0) ++vain_waits;
  return kWait(epoll, events, most, timeout);
}

namespace tutti {
namespace {

TEST(NoDescriptors, TheProgressThreadWorksAndSleepsAllTheSame) {
  std::atomic<int> remarks = 0;
  set_log_sink([&](LogLevel, std::string_view text) {
    EXPECT_NE(std::string(text).find("allow it more (ulimit -n)"), std::string::npos) << text;
    ++remarks;
  });
  std::atomic<int> called = 0;
  const auto use = [&](ProcessGroup& world) {
    const int before = called;
    std::vector<int> got(1);
    Work work = world.irecv(got, 0);
    work.on_done({[](void* context, const Outcome& status) noexcept {
                    auto& calls = *static_cast<std::atomic<int>*>(context);
                    if (status.ok()) ++calls;
                    calls.notify_all();
                  },
                  &called});
    std::vector<int> given{7};
    world.send(given, 0);
    called.wait(before);  // by the progress thread, which nobody helps
    EXPECT_EQ(got[0], 7);
  };
  {
    ProcessGroup world = world_of_one();
    {
      const test::SoftLimit none = test::no_more_files();
      for (int i = 0; i < 5; ++i) use(world);
    }
    EXPECT_GE(remarks, 1) << "nobody was told";
    use(world);  // it gets its descriptors now
  }
  EXPECT_EQ(called, 6);
  EXPECT_EQ(vain_waits, 0) << "waits that return at once, for ever";
  set_log_sink({});
}

}  // namespace
}  // namespace tutti
