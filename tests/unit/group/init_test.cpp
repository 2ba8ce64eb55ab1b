#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <tutti/init.hpp>
#include <tutti/launch.hpp>
#include <tutti/store.hpp>

#include "backend/native/worker_address.hpp"
#include "base/log.hpp"
#include "support/variable.hpp"
#include "unit/group/error_text.hpp"
#include "unit/in_threads.hpp"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using test::text_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// Two ranks that are threads meet without a store.
class ThreadRendezvous {
 public:
  Result<std::vector<std::string>> run(int rank, const std::string& name, const std::string& mine) {
    {
      const std::lock_guard lock(mutex_);
      auto& texts = texts_[name];
      texts.resize(2);
      texts[static_cast<std::size_t>(rank)] = mine;
    }
    both_.arrive_and_wait();
    const std::lock_guard lock(mutex_);
    return texts_[name];
  }
  bool was_asked_for(const std::string& name) const { return texts_.contains(name); }

 private:
  std::barrier<> both_{2};
  std::mutex mutex_;
  std::map<std::string, std::vector<std::string>> texts_;
};

void meet_by_exchange(ThreadRendezvous& rendezvous, std::optional<std::string> master,
                      bool encrypted = false) {
  test::in_threads(2, [&](int rank) {
    // `master_addr` is not assigned: of that GCC 12 warns at -O3 that the old, empty one is
    // destroyed.
    InitOptions options{.rank = rank, .size = 2, .master_addr = master, .timeout = 10s};
    if (encrypted) {
      options.config.emplace().tls = true;
      options.secret = std::vector<std::byte>(32, std::byte{7});
    }
    options.exchange = [&, rank](const std::string& name, const std::string& mine) {
      return rendezvous.run(rank, name, mine);
    };
    ProcessGroup world = init_process_group(options);
    double values[] = {rank + 1.0};
    world.all_reduce(values).wait();
    EXPECT_EQ(values[0], 3);
  });
}

InitOptions alone_by_exchange() {
  InitOptions options{.rank = 0, .size = 1};
  options.exchange = [](const std::string&, const std::string& mine) {
    return std::vector<std::string>{mine};
  };
  return options;
}

std::string refusal(const InitOptions& options) {
  return text_of<InvalidArgument>([&] { (void)init_process_group(options); });
}

TEST(InitProcessGroup, MeetsThroughTheExchangeOfTheCaller) {
  ThreadRendezvous alone;
  meet_by_exchange(alone, std::nullopt);
  EXPECT_TRUE(alone.was_asked_for("hosts")) << "so that ranks of other hosts reach us";
  ThreadRendezvous with_master;
  meet_by_exchange(with_master, "127.0.0.1");
  EXPECT_FALSE(with_master.was_asked_for("hosts"));
}

TEST(InitProcessGroup, TakesTheSecretFromItsCaller) {
  ThreadRendezvous rendezvous;
  meet_by_exchange(rendezvous, "127.0.0.1", /*encrypted=*/true);
  InitOptions options = alone_by_exchange();
  options.secret = std::vector<std::byte>(31, std::byte{'s'});
  EXPECT_THAT(refusal(options), AllOf(HasSubstr("given to init_process_group holds 31 bytes"),
                                      testing::Not(HasSubstr("sss"))));
}

/// A rank of a start over TCP; `change` is given where rank 0 listens, before it is used.
ProcessGroup rank_over_tcp(ThreadRendezvous& rendezvous, int rank,
                           const std::function<void(std::string&)>& change = {}) {
  InitOptions options{.rank = rank, .size = 2, .master_addr = "127.0.0.1", .timeout = 10s};
  options.config.emplace().transport = Config::TransportChoice::tcp;
  options.secret = std::vector<std::byte>(32, std::byte{7});
  options.exchange = [&](const std::string& name, const std::string& mine) {
    auto texts = rendezvous.run(rank, name, mine);
    if (name == "world") texts->front() = "one name";  // as by hand, where nobody draws one
    // The worker address stands behind a text of any length.
    std::string& told = texts->front();
    for (std::size_t at = 0; change && at < told.size(); ++at) {
      auto worker_address = native::decode(std::string_view(told).substr(at));
      if (!worker_address) continue;
      change(worker_address->address);
      told.replace(at, std::string::npos, native::encode(*worker_address));
      break;
    }
    return texts;
  };
  return init_process_group(options);
}

// Started by hand, two starts of a job have one name, one generation and one key.
TEST(InitProcessGroup, RankLeftOfAnotherStartIsNotTakenForOneOfThis) {
  ThreadRendezvous ours;
  ThreadRendezvous theirs;
  std::promise<std::string> address;  // of our rank 0; it was one of theirs before
  std::promise<std::string> outcome;
  const std::jthread their_rank_0([&] { (void)rank_over_tcp(theirs, 0); });
  const std::jthread their_rank_1([&] {
    ProcessGroup world =
        rank_over_tcp(theirs, 1, [&](std::string& told) { told = address.get_future().get(); });
    std::vector<int> value{666};
    outcome.set_value(text_of<Error>([&] { world.send(value, 0); }));
  });
  const std::jthread our_rank_1([&] {
    ProcessGroup world =
        rank_over_tcp(ours, 1, [&](const std::string& told) { address.set_value(told); });
    EXPECT_THAT(outcome.get_future().get(), HasSubstr("another start of this one"));
    std::vector<int> value{7};
    world.send(value, 0);
  });
  ProcessGroup world = rank_over_tcp(ours, 0);
  std::vector<int> value{0};
  world.recv(value, 1);
  EXPECT_EQ(value[0], 7);
}

TEST(InitProcessGroup, WantsRankAndSizeAndNoJobNameWithAnExchange) {
  InitOptions options = alone_by_exchange();
  options.rank = options.size = std::nullopt;
  EXPECT_NE(refusal(options), "no error");
  options.rank = options.size = 2;
  EXPECT_NE(refusal(options), "no error");
  options = alone_by_exchange();
  options.job_name = "somewhere";
  EXPECT_NE(refusal(options), "no error");
}

TEST(InitProcessGroup, TellsThatTheExchangeFailed) {
  InitOptions options{.rank = 0, .size = 2};
  options.exchange = [](auto&, auto&) { return Outcome(Errc::store, "the store is on fire"); };
  EXPECT_THROW((void)init_process_group(options), StoreError);
}

InitOptions alone_with(std::optional<Config> config) {
  return {.store = make_hash_store(), .rank = 0, .size = 1, .config = std::move(config)};
}
ProcessGroup alone(std::optional<Config> config = {}) {
  return init_process_group(alone_with(std::move(config)));
}

TEST(InitProcessGroup, ListensWhereItsConfigSays) {
  Config config;
  config.interfaces = "none0";
  EXPECT_THAT(refusal(alone_with(config)), HasSubstr("\"none0\""));
  config.interfaces = "lo";
  EXPECT_EQ(alone(config).size(), 1);
  const test::Variable names("TUTTI_SOCKET_IFNAME", "ib,eth");
  EXPECT_EQ(Config::from_environment().value().interfaces, "ib,eth");
}

TEST(InitProcessGroup, TellsWhatItsConfigAdvertises) {
  Config config;
  config.advertise = "0.0.0.0";
  EXPECT_THAT(refusal(alone_with(config)), HasSubstr("TUTTI_ADVERTISE is \"0.0.0.0\""));
  config.advertise = "192.0.2.7:9000";
  config.port = 7000;
  EXPECT_EQ(alone(config).size(), 1);
  const test::Variable advertise("TUTTI_ADVERTISE", "192.0.2.7");
  const test::Variable port("TUTTI_PORT", "7000");
  EXPECT_EQ(Config::from_environment().value().advertise, "192.0.2.7");
  EXPECT_EQ(Config::from_environment().value().port, 7000);
  for (const char* const nonsense : {"0", "65536", "-1", "7000x", "any"}) {
    const test::Variable wrong("TUTTI_PORT", nonsense);
    EXPECT_THAT(Config::from_environment().status().message(), HasSubstr("TUTTI_PORT='"));
  }
}

TEST(InitProcessGroup, AnOperationMayTakeHalfAnHourUnlessSomebodySaysSo) {
  const test::Variable none("TUTTI_TIMEOUT", std::nullopt);
  const auto half_an_hour = std::chrono::minutes(30);  // torch.distributed's
  ProcessGroup world = alone();
  EXPECT_EQ(world.get_timeout(), half_an_hour);
  EXPECT_EQ(world.new_group({0}).get_timeout(), half_an_hour);
  EXPECT_EQ(world.new_group({0}, {.timeout = 3s}).get_timeout(), 3s);
  EXPECT_EQ(world.split(0, 0, {.timeout = 4s}).get_timeout(), 4s);
  EXPECT_EQ(world.new_subgroups(1, {.timeout = 5s}).get_timeout(), 5s);
}

TEST(InitProcessGroup, TellsWhatTheWorldIs) {
  EXPECT_FALSE(is_initialized());
  {
    ProcessGroup world = alone();
    EXPECT_TRUE(is_initialized());
    EXPECT_EQ(world.rank(), 0);
    EXPECT_EQ(world.size(), 1);
    EXPECT_EQ(world.backend(), "native");
    EXPECT_TRUE(is_available(world.backend()));
  }
  EXPECT_FALSE(is_initialized());
  // The same without a launcher, if the program says that it may be alone.
  for (int i = 0; i < 2; ++i) {
    ProcessGroup world = init_process_group({.or_alone = true, .name = "lone"});
    EXPECT_EQ(world.size(), 1);
    EXPECT_EQ(world.name(), "lone");
    std::vector<int> values{7};
    world.all_reduce(values).wait();
    EXPECT_EQ(values[0], 7);
    ASSERT_NE(world.store(), nullptr);
    world.store()->set("key", "value");
    EXPECT_THAT(
        text_of<InvalidArgument>([] { (void)init_process_group({.rank = 0, .or_alone = true}); }),
        testing::HasSubstr("WORLD_SIZE, MASTER_PORT are not set"));
    EXPECT_THAT(text_of<InvalidArgument>([] { (void)init_process_group(); }),
                testing::HasSubstr("are not set"));
  }
}

TEST(InitProcessGroup, KeepsTheLevelOfTheSinkUnlessOneIsSaid) {
  std::vector<std::string> heard;
  set_log_sink([&](LogLevel, std::string_view text) { heard.emplace_back(text); }, LogLevel::debug);
  const test::Variable none("TUTTI_LOG_LEVEL", std::nullopt);
  { const ProcessGroup world = alone(); }
  heard.clear();  // what a world says of itself at that level
  base::log(LogLevel::debug, "nobody said a level");
  {
    const test::Variable level("TUTTI_LOG_LEVEL", "error");
    const ProcessGroup world = alone();
  }
  base::log(LogLevel::warning, "the variable says error");
  Config config;
  config.log_level = LogLevel::info;
  { const ProcessGroup world = alone(config); }
  ASSERT_FALSE(heard.empty());
  heard.resize(1);  // without what this world says of itself
  base::log(LogLevel::debug, "the config says info");
  base::log(LogLevel::info, "and that is heard");
  set_log_sink({});
  EXPECT_THAT(heard, ElementsAre("nobody said a level", "and that is heard"));
}

TEST(InitProcessGroup, WarnsOnceOfAVariableThatIsMisspelt) {
  std::vector<std::string> heard;
  std::mutex mutex;
  const auto note = [&](LogLevel level, std::string_view text) {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(level, LogLevel::warning) << text;
    heard.emplace_back(text);
  };
  const test::Variable near_none_of_ours("TUTTI_COFFEE_MACHINE", "on");
  {
    const test::Variable one("TUTTI_TRANSPRT", "tcp");
    const test::Variable other("TUTTI_SECRETFILE", "/nowhere");
    set_log_sink(note, LogLevel::error);
    Config quiet;
    quiet.log_level = LogLevel::error;
    const ProcessGroup world = alone(quiet);
    EXPECT_EQ(heard.size(), 0U) << "nobody wants to hear warnings";
  }
  const test::Variable one("TUTTI_TIMEOT", "5");
  const test::Variable other("TUTTI_SECRET_FIL", "/nowhere");
  set_log_sink(note);
  for (int round = 0; round < 3; ++round) {
    const ProcessGroup world = alone();
    run_threads(2, [](ProcessGroup&) {});
  }
  std::sort(heard.begin(), heard.end());
  const std::string what = " is set and means nothing; did you mean ";
  EXPECT_THAT(heard, ElementsAre(StartsWith("TUTTI_SECRET_FIL" + what + "TUTTI_SECRET_FILE?"),
                                 StartsWith("TUTTI_TIMEOT" + what + "TUTTI_TIMEOUT?")));
  set_log_sink({});
}

TEST(RunThreads, WithoutAConfigReadsTheEnvironment) {
  const test::Variable timeout("TUTTI_TIMEOUT", "7");
  std::atomic<int> as_told = 0;
  run_threads(2, [&](ProcessGroup& world) { as_told += world.get_timeout() == 7s ? 1 : 0; });
  EXPECT_EQ(as_told, 2);
  Config config;
  config.timeout = 9s;
  run_threads(
      1, [](ProcessGroup& world) { EXPECT_EQ(world.get_timeout(), 9s); }, config);
  const test::Variable agree("TUTTI_AGREE", "maybe");
  EXPECT_THROW(run_threads(1, [](ProcessGroup&) {}), InvalidArgument);
}

TEST(Init, OtherStoresOfThisProcessDoNotCount) {
  const auto join = [](const std::shared_ptr<Store>& store, int rank, int size) {
    const ProcessGroup world =
        init_process_group(InitOptions{.store = store, .rank = rank, .size = size, .timeout = 5s});
    EXPECT_EQ(world.size(), size);
  };
  join(make_hash_store(), 0, 1);  // rank 0 alone, so it has met more often than rank 1
  const std::shared_ptr<Store> store = make_hash_store();
  const std::jthread other([&] { EXPECT_NO_THROW(join(store, 1, 2)); });
  EXPECT_NO_THROW(join(store, 0, 2));
}

}  // namespace
}  // namespace tutti
