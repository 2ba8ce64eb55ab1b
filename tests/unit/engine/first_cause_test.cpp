#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mman.h>

#include <cstdlib>

#include "host.hpp"

// A group breaks, and another rank of the host learns what follows from that before it learns of
// the break: a rank that has left, or whose process is gone. It names the cause all the same.
namespace tutti::engine {
namespace {

/// Runs `act` at the next access to a page of memory, before that access. What another process does
/// between two looks of the code under test happens there, each time. One trap at a time.
class PageTrap {
 public:
  PageTrap(const void* page, std::function<void()> act) : act_(std::move(act)) {
    page_ = const_cast<void*>(page);
    armed_ = this;
    struct sigaction action = {};
    action.sa_sigaction = spring;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    if (::sigaction(SIGSEGV, &action, &before_) != 0 || ::mprotect(page_, kBytes, PROT_NONE) != 0)
      std::abort();
  }
  ~PageTrap() {
    open();
    ::sigaction(SIGSEGV, &before_, nullptr);
    armed_ = nullptr;
  }
  PageTrap(const PageTrap&) = delete;
  PageTrap& operator=(const PageTrap&) = delete;

  [[nodiscard]] bool sprung() const noexcept { return sprung_; }

 private:
  static constexpr std::size_t kBytes = 4096;
  static inline PageTrap* armed_ = nullptr;

  static void spring(int /*signal*/, siginfo_t* about, void* /*context*/) {
    PageTrap& trap = *armed_;
    const auto offset = reinterpret_cast<std::uintptr_t>(about->si_addr) -
                        reinterpret_cast<std::uintptr_t>(trap.page_);
    if (offset >= kBytes || std::exchange(trap.sprung_, true)) std::abort();  // a real fault
    trap.open();
    trap.act_();
  }
  void open() const noexcept { ::mprotect(page_, kBytes, PROT_READ | PROT_WRITE); }

  std::function<void()> act_;
  void* page_;
  struct sigaction before_ = {};
  bool sprung_ = false;
};

constexpr int kFinder = 0;    // breaks the group
constexpr int kCulprit = 1;   // over this rank
constexpr int kLeaver = 2;    // hears of it and leaves
constexpr int kObserver = 3;  // sees that, and has not heard of the break

TimePoint time_now;
std::function<std::string(int)> state_now;  // of the process of a rank

class FirstCause : public testing::Test {
 protected:
  void SetUp() override {
    time_now = TimePoint(std::chrono::hours(1));
    state_now = [](int) { return std::string(); };
    make(kGroup);
  }
  void TearDown() override { state_now = nullptr; }

  void make(std::uint64_t id) { ASSERT_TRUE(host_.make_all(id)); }
  std::uint64_t call(Kind kind, std::uint64_t id = kGroup) {
    const TensorView data = kind == Kind::broadcast ? TensorView(data_) : TensorView();
    return observer().submit(host_.group(kObserver, id), {.kind = kind,
                                                          .root = kObserver,
                                                          .timeout = std::chrono::seconds(1),
                                                          .input = data,
                                                          .output = data});
  }
  Engine& observer() { return host_.engine(kObserver); }
  /// The group breaks, and the leaver's rank hears of it.
  void break_here() {
    host_.engine(kFinder).break_group(
        host_.group(kFinder, kGroup),
        Outcome(Errc::timeout, "the culprit did not come").with_culprit(kCulprit));
    host_.engine(kLeaver).tick();
    ASSERT_TRUE(host_.group(kLeaver, kGroup).broken);
  }
  void leave() {
    // release: pairs with Watchdog::check_left.
    host_.regions(kLeaver).control().words().left.store(1, std::memory_order_release);
  }
  void expect_first_cause() {
    const Group& group = host_.group(kObserver, kGroup);
    ASSERT_TRUE(group.broken);
    EXPECT_EQ(group.cause.code(), Errc::timeout) << group.cause.message();
    EXPECT_EQ(group.cause.culprit(), kCulprit) << group.cause.message();
    EXPECT_THAT(std::string(group.cause.message()), testing::HasSubstr("did not come"));
  }

  static constexpr std::uint64_t kGroup = 1;
  Host host_{4, [](World& world) {
               world.now = []() noexcept { return time_now; };
               world.process_state = [](int pid) { return state_now(pid); };
             }};
  float data_[4] = {};
};

TEST_F(FirstCause, OfARankThatLeavesWhileItsLeavingIsLookedFor) {
  call(Kind::barrier);
  // Its lines are read after the break words, and before the word that says whether it has left.
  PageTrap trap(host_.group(kLeaver, kGroup).block, [&] {
    break_here();
    leave();
  });
  observer().tick();
  EXPECT_TRUE(trap.sprung());
  expect_first_cause();
}

TEST_F(FirstCause, OfARankThatLeavesWhileACallWaitsForIt) {
  for (int i = 0; i < transport::shm::kLines; ++i)
    ASSERT_TRUE(observer().is_done(host_.group(kObserver, kGroup), call(Kind::broadcast)));
  const std::uint64_t waits = call(Kind::broadcast);
  ASSERT_FALSE(observer().is_done(host_.group(kObserver, kGroup), waits));
  observer().tick();          // begins to count
  state_now = [&](int pid) {  // asked after `done` of a rank was read, and before its `left`
    if (pid == host_.regions(kLeaver).control().words().pid) {
      break_here();
      leave();
    }
    return std::string();
  };
  observer().tick();
  expect_first_cause();
}

TEST_F(FirstCause, OfAProcessThatEndsWhileTheOneToBlameIsLookedFor) {
  call(Kind::barrier);
  observer().tick();
  time_now += std::chrono::seconds(2);
  state_now = [&](int pid) {
    if (!host_.group(kFinder, kGroup).broken) break_here();
    return std::string(pid == kLeaver ? "dead" : "");
  };
  observer().tick();
  expect_first_cause();
}

TEST_F(FirstCause, OfAProcessThatDiesOverTheBreak) {
  call(Kind::barrier);
  PageTrap trap(&host_.regions(0).control().break_word(0), [&] { break_here(); });
  observer().local_peer_died(kLeaver);
  EXPECT_TRUE(trap.sprung());
  expect_first_cause();
}

TEST_F(FirstCause, OfARankThatBreaksTheGroupLater) {
  break_here();
  observer().break_group(host_.group(kObserver, kGroup), Outcome(Errc::aborted, "enough of it"));
  expect_first_cause();
}

TEST_F(FirstCause, OfARankThatDestroysTheGroupBeforeItHasLooked) {
  const std::uint64_t ticket = call(Kind::barrier);
  observer().on_done(host_.group(kObserver, kGroup), ticket, Callback());
  break_here();
  host_.close(kObserver, kGroup);
  const std::vector<Finished> finished = observer().take_finished();
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished.front().status.culprit(), kCulprit) << finished.front().status.message();
}

TEST_F(FirstCause, OfEachOfManyGroupsThatBreakAtOnce) {
  constexpr std::uint64_t kGroups = 64;
  for (std::uint64_t id = 10; id < 10 + kGroups; ++id) make(id);
  const auto why = [](std::uint64_t id) { return "the reason of group " + std::to_string(id); };
  for (std::uint64_t id = 10; id < 10 + kGroups; ++id)
    host_.engine(kFinder).break_group(host_.group(kFinder, id), Outcome(Errc::aborted, why(id)));
  observer().tick();
  for (std::uint64_t id = 10; id < 10 + kGroups; ++id)
    EXPECT_EQ(std::string(host_.group(kObserver, id).cause.message()), why(id));
}

// A process dies, and with it two groups break: a rank that hears of one of them and leaves is not
// missed in the other, whichever is the second.
class FirstCauseOfALoss : public FirstCause, public testing::WithParamInterface<std::uint64_t> {
 protected:
  static constexpr std::uint64_t kOther = 2;
};

TEST_P(FirstCauseOfALoss, InSeveralGroups) {
  make(kOther);
  call(Kind::barrier);
  call(Kind::barrier, kOther);
  const auto hear_and_leave = [&] {
    host_.engine(kLeaver).tick();
    if (host_.group(kLeaver, kGroup).broken || host_.group(kLeaver, kOther).broken) leave();
    observer().tick();
  };
  // The note of its cause, which lies in the second page of a group's block.
  PageTrap trap(reinterpret_cast<std::byte*>(host_.group(kFinder, GetParam()).block) + 4096,
                hear_and_leave);
  host_.engine(kFinder).local_peer_died(kCulprit);
  EXPECT_TRUE(trap.sprung());
  hear_and_leave();
  for (const std::uint64_t id : {kGroup, kOther}) {
    const Group& group = host_.group(kObserver, id);
    ASSERT_TRUE(group.broken);
    EXPECT_EQ(group.cause.code(), Errc::peer_lost) << group.cause.message();
    EXPECT_EQ(group.cause.culprit(), kCulprit) << group.cause.message();
  }
}

INSTANTIATE_TEST_SUITE_P(Groups, FirstCauseOfALoss, testing::Values(1, 2));

}  // namespace
}  // namespace tutti::engine
