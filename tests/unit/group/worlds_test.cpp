#include "group/worlds.hpp"

#include <gmock/gmock.h>

#include <any>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <tutti/backend/registry.hpp>
#include <tutti/init.hpp>
#include <tutti/launch.hpp>
#include <tutti/store.hpp>

#include "backend/native/native_backend.hpp"
#include "group/thread_ranks.hpp"
#include "support/variable.hpp"
#include "unit/group/error_text.hpp"

namespace tutti {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

/// The native backend under another name.
BackendFactory called(const std::string& name) {
  BackendFactory factory = native::factory();
  factory.name = name;
  return factory;
}

/// A world of one rank.
InitOptions options_alone() { return {.store = make_hash_store(), .rank = 0, .size = 1}; }

Config on(const std::string& backend) {
  Config config;
  config.backend = backend;
  return config;
}

/// What an init that must not work says.
std::string refusal(const std::string& backend) {
  InitOptions options = options_alone();
  options.config = on(backend);
  return test::text_of<InvalidArgument>([&] { (void)init_process_group(options); });
}

/// Two ranks that do nothing.
void run_on(const Config& config) {
  run_threads(
      2, [](ProcessGroup&) {}, config);
}

TEST(Backends, TheNativeOneIsTheDefaultAndAlwaysThere) {
  EXPECT_EQ(Config().backend, "auto");
  EXPECT_TRUE(is_available("auto"));
  run_threads(2, [](ProcessGroup& world) { EXPECT_EQ(world.backend(), "native"); });
  EXPECT_TRUE(is_available("native"));
  ASSERT_FALSE(available_backends().empty());
  EXPECT_EQ(available_backends().front(), "native");
}

TEST(Backends, AnUnknownNameIsToldWithThoseThatThereAre) {
  for (const char* const name : {"gloo", "Native", "", "ucc"}) {
    EXPECT_FALSE(is_available(name));
    EXPECT_THAT(refusal(name), AllOf(HasSubstr("'" + std::string(name) + "'"),
                                     HasSubstr("TUTTI_BACKEND"), HasSubstr("available: native")));
  }
  EXPECT_THAT(refusal("ucc"),
              AllOf(HasSubstr("no world can be made on the backend 'ucc' (TUTTI_BACKEND): there is "
                              "none of this name, nor a plug-in tutti_backend_ucc.so in /"),
                    HasSubstr(" (TUTTI_BACKEND_PATH names other folders); available: native")));
  EXPECT_THROW(run_on(on("gloo")), InvalidArgument);
}

TEST(Backends, TheVariableSaysWhichOne) {
  {
    const test::Variable variable("TUTTI_BACKEND", "gloo");
    EXPECT_EQ(Config::from_environment().value().backend, "gloo");
    EXPECT_THROW(run_threads(1, [](ProcessGroup&) {}), InvalidArgument);
  }
  EXPECT_EQ(Config::from_environment().value().backend, "auto");
}

TEST(Backends, OneThatIsRegisteredRunsWorlds) {
  register_backend(called("mine"));
  EXPECT_TRUE(is_available("mine"));
  EXPECT_THAT(available_backends(), Contains("mine"));
  std::atomic<int> sum{0};
  const auto body = [&](ProcessGroup& world) {
    std::vector<int> one{1};
    world.all_reduce(one).wait();
    sum += one[0];
    EXPECT_TRUE(is_initialized());
  };
  run_threads(3, body, on("mine"));
  EXPECT_EQ(sum, 9);
  EXPECT_FALSE(is_initialized());
}

TEST(Backends, OneThatDoesNotEncryptIsRefusedWhereThatIsAskedFor) {
  BackendFactory open = called("open");
  open.promises = {};
  register_backend(open);
  register_backend(called("closed"));
  const test::Variable variable("TUTTI_TLS", "1");
  const auto refusal_by = [](const std::string& backend) {
    InitOptions options = options_alone();
    options.backend = backend;
    return test::text_of<InvalidArgument>([&] { (void)init_process_group(options); });
  };
  EXPECT_THAT(refusal_by("open"),
              AllOf(HasSubstr("'open'"), HasSubstr("does not encrypt, but TUTTI_TLS is 1"),
                    HasSubstr("choose 'native', or unset TUTTI_TLS")));
  EXPECT_THAT(refusal_by("cpu:open"), HasSubstr("'open'"));
  Config config = on("open");
  config.tls = true;
  EXPECT_THROW(run_on(config), InvalidArgument);
  for (const char* const backend : {"closed", "native", "auto", "cpu:native,cuda:native"})
    EXPECT_EQ(refusal_by(backend), "no error") << backend;
  config.tls = false;
  run_on(config);
}

TEST(Backends, WhatInitIsToldGoesBeforeTheVariable) {
  const test::Variable variable("TUTTI_BACKEND", "nobodys");
  InitOptions options = options_alone();
  EXPECT_THROW((void)init_process_group(options), InvalidArgument);
  options.backend = "native";
  EXPECT_EQ(init_process_group(options).backend(), "native");
  options.backend = "nobodys";
  EXPECT_THROW((void)init_process_group(options), InvalidArgument);
}

TEST(Backends, GetAStoreAndWhatTheCallerOfInitGivesThem) {
  std::string seen;
  std::shared_ptr<Store> kept;
  BackendFactory factory = called("asking");
  factory.make_world = [&](const WorldOptions& options) -> Result<Backend*> {
    const auto* const text = std::any_cast<std::string>(&options.backend_options);
    seen = text == nullptr ? "nothing" : *text;
    kept = options.store;
    if (kept) kept->set("key", "the backend's");
    return native::factory().make_world(options);
  };
  register_backend(factory);
  InitOptions options = options_alone();
  options.backend = "asking";
  options.backend_options = std::string("a hint");
  const ProcessGroup world = init_process_group(options);
  EXPECT_EQ(seen, "a hint");
  // Each has its own keys.
  world.store()->set("key", "the program's");
  EXPECT_EQ(kept->get("key"), "the backend's");
  EXPECT_EQ(world.store()->get("key"), "the program's");
  EXPECT_FALSE(options.store->check("key"));

  run_threads(
      1, [](ProcessGroup& threads) { EXPECT_EQ(threads.store(), nullptr); }, on("asking"));
  EXPECT_EQ(seen, "nothing");
  EXPECT_EQ(kept, nullptr);
}

TEST(Backends, GroupsShareTheStoreOfTheirWorld) {
  ProcessGroup world = init_process_group(options_alone());
  const auto group = world.new_group({0});
  world.store()->set("key", "value");
  EXPECT_EQ(group.store()->get("key"), "value");
}

TEST(Backends, TheTimeoutOfAGroupCanBeChanged) {
  using namespace std::chrono_literals;
  ProcessGroup world = init_process_group(options_alone());
  ProcessGroup group = world.new_group({0}, {.timeout = 20s});
  EXPECT_EQ(group.get_timeout(), 20s);
  const ProcessGroup same = group;
  group.set_timeout(10ms);
  EXPECT_EQ(same.get_timeout(), 10ms) << "copies mean the same group";
  EXPECT_NE(world.get_timeout(), 10ms);
  std::vector<int> never{1};
  EXPECT_THROW(group.recv(never, 0), TimeoutError);
  for (const auto wrong : {0ns, -1ns}) EXPECT_THROW(world.set_timeout(wrong), InvalidArgument);
}

TEST(Backends, OneThatCannotRunHereSaysWhy) {
  BackendFactory factory = called("absent");
  factory.missing = [] { return "libabsent.so is not installed"; };
  register_backend(factory);
  EXPECT_FALSE(is_available("absent"));
  EXPECT_THAT(available_backends(), Not(Contains("absent")));
  EXPECT_THAT(refusal("absent"), AllOf(HasSubstr("'absent'"), HasSubstr("libabsent.so"),
                                       HasSubstr("available: native")));
}

TEST(Backends, ANameIsTakenOnce) {
  for (const char* const name : {"native", "", "two\nlines"})
    EXPECT_THROW(register_backend(called(name)), InvalidArgument) << name;
  BackendFactory nothing;
  nothing.name = "nothing";
  EXPECT_THROW(register_backend(nothing), InvalidArgument);
  EXPECT_FALSE(is_available("nothing"));
}

/// The native backend, but rank 1 does `instead`.
void register_with(const std::string& name,
                   const std::function<Result<Backend*>(const WorldOptions&)>& instead) {
  BackendFactory factory = called(name);
  factory.make_world = [instead, make = factory.make_world](const WorldOptions& options) {
    return options.identity.rank == 1 ? instead(options) : make(options);
  };
  register_backend(factory);
}

TEST(Backends, OneThatThrowsOnARankIsToldToTheOthersAtOnce) {
  register_with("throws", [](const WorldOptions&) -> Result<Backend*> {
    throw std::out_of_range("no worker_address of this number");
  });
  Config config = on("throws");
  config.timeout = std::chrono::seconds(60);  // more than the test has
  EXPECT_THROW(run_threads(
                   2, [](ProcessGroup&) { ADD_FAILURE() << "a rank had a world"; }, config),
               std::out_of_range);

  const std::shared_ptr<Store> store = make_hash_store();
  const auto rank_main = [&](int rank) {
    (void)init_process_group({.store = store, .rank = rank, .size = 2, .config = config});
  };
  const std::jthread other([&] { EXPECT_THROW(rank_main(1), std::out_of_range); });
  EXPECT_THAT(test::text_of<Error>([&] { rank_main(0); }),
              AllOf(HasSubstr("rank 1"), HasSubstr("no worker_address of this number")));
}

TEST(Backends, OneThatMakesNoWorldIsAnError) {
  register_with("empty", [](const WorldOptions&) { return Result<Backend*>(nullptr); });
  EXPECT_THAT(test::text_of<Error>([] { run_on(on("empty")); }),
              HasSubstr("'empty' made no world"));
}

TEST(Backends, RanksThatWantUnlikeOnesAreTold) {
  register_backend(called("other"));
  const auto config_of = [](int rank) {
    Config config = rank == 1 ? on("other") : Config();
    config.timeout = std::chrono::seconds(30);
    return config;
  };
  const auto run = [&] {
    group::run_thread_ranks(
        3, [](ProcessGroup&) { ADD_FAILURE() << "a rank had a world"; }, config_of);
  };
  EXPECT_THAT(
      test::text_of<DisagreementError>(run),
      testing::MatchesRegex("settings differ: rank ((0|2) wants the backend 'native' and rank 1 "
                            "'other'|1 wants the backend 'other' and rank (0|2) 'native') "
                            "\\(TUTTI_BACKEND\\); give all ranks the same"));
}

}  // namespace
}  // namespace tutti
