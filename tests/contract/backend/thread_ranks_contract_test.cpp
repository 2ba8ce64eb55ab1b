#include "backend/native/native_backend.hpp"

#include <tutti/backend/group_access.hpp>

#include "backend_contract.hpp"
#include "forwarding_backend.hpp"
#include "group/thread_ranks.hpp"
#include "support/rotation.hpp"

// Ranks as threads, over shared memory, over TCP, over both, and on a backend that a program has
// registered: what tsan can see.
namespace tutti::test {
namespace {

/// A backend of another name that does what it does through the native one, and checks what the
/// rest of the library promises to every backend.
class WatchedBackend final : public ForwardingBackend {
 public:
  static constexpr std::string_view kName = "watched";

  /// Makes it known, once.
  static void make_known() {
    if (is_available(kName)) return;
    const auto make_world = [](const WorldOptions& options) {
      return around(native::factory().make_world(options),
                    [](Backend* world) { return new WatchedBackend(world); });
    };
    register_backend({.name = std::string(kName),
                      .make_world = make_world,
                      .promises = native::factory().promises});
  }
  /// Of all groups: how often make_child was called.
  static std::atomic<int>& children_asked() {
    static std::atomic<int> count{0};
    return count;
  }
  /// Groups that live.
  static std::atomic<int>& living() {
    static std::atomic<int> count{0};
    return count;
  }

  ~WatchedBackend() override {
    EXPECT_EQ(closed_, 1) << "before the last reference goes, and once";
    --living();
  }

  [[nodiscard]] std::string_view name() const noexcept override { return kName; }
  [[nodiscard]] std::string unsupported(const Collective& call) const override {
    std::string why = inner().unsupported(call);
    const std::string native = "'native'";
    if (const auto at = why.find(native); at != std::string::npos)
      why.replace(at, native.size(), "'watched'");
    return why;
  }
  Pending submit(const Collective& call, bool asynchronous) noexcept override {
    EXPECT_EQ(inner().unsupported(call), "") << "it was to be asked before";
    EXPECT_TRUE(call.timeout.count() > 0 || call.kind == Kind::probe);
    EXPECT_EQ(std::exchange(child_begun_, false), call.kind == Kind::new_group)
        << "a group is begun, and right afterwards the ranks agree on it";
    return inner().submit(call, asynchronous);
  }
  [[nodiscard]] Result<Backend*> make_child(std::span<const int> ranks,
                                            std::string name) noexcept override {
    ++children_asked();
    EXPECT_FALSE(std::exchange(child_begun_, true));
    EXPECT_TRUE(ranks.empty() || std::ranges::count(ranks, rank()) == 1)
        << "ranks of another group";
    return around(inner().make_child(ranks, std::move(name)),
                  [](Backend* child) { return new WatchedBackend(child); });
  }
  [[nodiscard]] Result<Backend*> make_among(std::span<const int> ranks, std::string_view tag,
                                            std::string name) noexcept override {
    return inner().make_among(ranks, tag, std::move(name));
  }
  void close(std::chrono::nanoseconds drain) noexcept override {
    ++closed_;
    inner().close(drain);
  }

 private:
  explicit WatchedBackend(Backend* inner) : ForwardingBackend(inner) { ++living(); }

  bool child_begun_ = false;
  std::atomic<int> closed_{0};
};

/// `change`: what stands in the config of a rank.
Arrangement threads(const std::string& name, int size,
                    const std::function<void(Config& config, int rank)>& change) {
  const auto run = [size, change](const Arrangement::Body& body) {
    group::run_thread_ranks(size, body, [&](int rank) {
      Config config = patient();
      change(config, rank);
      return config;
    });
  };
  return {.name = name + std::to_string(size), .size = size, .run = run};
}

std::vector<Arrangement> worlds_of_threads() {
  WatchedBackend::make_known();
  std::vector<Arrangement> all;
  for (const int size : world_sizes()) {
    all.push_back(threads("Shm", size, [](Config&, int) {}));
    all.push_back(threads(
        "Tcp", size, [](Config& config, int) { config.transport = Config::TransportChoice::tcp; }));
    all.push_back(threads("Mixed", size, [](Config& config, int rank) {
      config.host_id = rank % 2 == 0 ? "even" : "odd";
    }));
    if (size % 2 == 0) continue;  // does it as the native one does
    all.push_back(threads("Registered", size,
                          [](Config& config, int) { config.backend = WatchedBackend::kName; }));
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Threads, BackendContract, testing::ValuesIn(worlds_of_threads()), name_of);
INSTANTIATE_TEST_SUITE_P(Threads, BackendContractOfSeveral,
                         testing::ValuesIn(of_several(worlds_of_threads())), name_of);

// What takes more than operations to arrange.

class BackendsOfThreads : public BackendContract {};
INSTANTIATE_TEST_SUITE_P(Threads, BackendsOfThreads,
                         testing::ValuesIn(of_several(worlds_of_threads())), name_of);

TEST_P(BackendsOfThreads, WhoMakesAGroupThatWasBrokenBeforeHearsOfIt) {
  std::atomic<bool> broken{false};
  run([&](ProcessGroup& world) {
    std::vector<int> all(static_cast<std::size_t>(world.size()));
    std::iota(all.begin(), all.end(), 0);
    const auto make = [&] {
      Result<Backend*> child = GroupAccess::backend(world).make_child(all, "broken early");
      raise_if(child.status());
      return GroupAccess::make({*child, "broken early", all, kForever});
    };
    ProcessGroup group;
    if (world.rank() == 0) {
      group = make();
      group.abort("too early");
      broken = true;
      broken.notify_all();
    } else {
      broken.wait(false);
      group = make();
      EXPECT_TRUE(breaks_soon(group)) << "though it calls nothing";
      EXPECT_EQ(group.health().code(), Errc::aborted);
    }
    Collective agree{.kind = Kind::new_group, .input = {}, .output = {}};
    GroupAccess::submit(world, agree, std::nullopt, false).wait();
  });
}

class RegisteredBackend : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, RegisteredBackend, testing::Values(4));

TEST_P(RegisteredBackend, IsAskedOnEveryRankForEveryGroup) {
  WatchedBackend::make_known();
  WatchedBackend::children_asked() = 0;
  run_threads(
      GetParam(),
      [](ProcessGroup& world) {
        EXPECT_EQ(world.backend(), WatchedBackend::kName);
        (void)world.new_group({1, 2});
        (void)world.split(world.rank() == 0 ? std::nullopt : std::optional<int>(1));
        (void)world.new_subgroups(2);
        EXPECT_GT(WatchedBackend::living(), 0);
      },
      patient(WatchedBackend::kName));
  EXPECT_EQ(WatchedBackend::children_asked(), 3 * GetParam());
  EXPECT_EQ(WatchedBackend::living(), 0) << "a group was never closed";
}

}  // namespace
}  // namespace tutti::test
