#include "group/common_secret.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <barrier>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <tutti/init.hpp>
#include <tutti/log.hpp>

#include "support/temporary_folder.hpp"
#include "support/variable.hpp"

namespace tutti::group {
namespace {

using namespace std::chrono_literals;

/// A home of its own, so that no test touches the user's key.
class CommonSecret : public testing::Test {
 protected:
  std::string secret_file(const char* name, char letter) const {
    const std::string path = home_.file(name, std::string(40, letter));
    EXPECT_EQ(::chmod(path.c_str(), 0600), 0);
    return path;
  }
  /// What a rank offers whose environment has one variable.
  static SecretOffer offer_with(const std::string& name, const std::string& value) {
    auto offer = SecretOffer::make(
        [&](const char* asked) -> const char* { return name == asked ? value.c_str() : nullptr; });
    EXPECT_TRUE(offer.ok()) << offer.status().message();
    return std::move(*offer);
  }
  static SecretOffer offer_of_user() { return offer_with("", ""); }

  test::TemporaryFolder home_;
  test::Variable variable_{"HOME", home_.path()};
};

TEST_F(CommonSecret, IsTheKeyOfOneUser) {
  const SecretOffer ours = offer_of_user();
  auto common = ours.common({ours.line(), offer_of_user().line()});
  ASSERT_TRUE(common.ok() && common->has_value());
  EXPECT_EQ(**common, job_secret());
}

TEST_F(CommonSecret, IsNoneWhereKeysDiffer) {
  const SecretOffer ours = offer_of_user();
  std::filesystem::remove_all(home_.at(".config"));
  const SecretOffer theirs = offer_of_user();
  EXPECT_NE(ours.line(), theirs.line());
  auto common = ours.common({ours.line(), theirs.line()});
  ASSERT_TRUE(common.ok());
  EXPECT_FALSE(common->has_value());
}

TEST_F(CommonSecret, IsNoneWhereNobodyHasOne) {
  const SecretOffer none = offer_with("TUTTI_INSECURE", "1");
  auto common = none.common({none.line(), none.line()});
  ASSERT_TRUE(common.ok());
  EXPECT_FALSE(common->has_value());
}

TEST_F(CommonSecret, IsRefusedWhereGivenSecretsDiffer) {
  const SecretOffer one = offer_with("TUTTI_SECRET_FILE", secret_file("one", 'a'));
  const SecretOffer two = offer_with("TUTTI_SECRET_FILE", secret_file("two", 'b'));
  const SecretOffer users = offer_of_user();
  for (const SecretOffer* const rank : {&one, &two, &users}) {
    auto common = rank->common({users.line(), one.line(), two.line()});
    EXPECT_THAT(std::string(common.status().message()),
                testing::HasSubstr("rank 1 was given a secret (TUTTI_SECRET_FILE or "
                                   "TUTTI_SECRET_FD), and rank 0 has another one or none"));
  }
}

/// Two ranks that are threads meet by an exchange that others may read. Gives the texts that went
/// through it. `foreign`: the line of rank 1 is that of somebody else's key.
std::vector<std::string> meet(bool foreign, std::vector<int>& authenticated) {
  std::vector<std::string> texts(2);
  std::barrier<> both(2);
  const auto rank_main = [&](int rank) {
    InitOptions options{.rank = rank, .size = 2, .master_addr = "127.0.0.1", .timeout = 10s};
    options.exchange_is_private = false;
    options.exchange = [&, rank](const std::string& name, const std::string& mine) {
      std::string told = mine;
      if (foreign && name == "world" && rank == 1) told = "key 0123456789abcdef\n";
      both.arrive_and_wait();
      texts[static_cast<std::size_t>(rank)] = told;
      both.arrive_and_wait();
      return Result<std::vector<std::string>>(texts);
    };
    ProcessGroup world = init_process_group(options);
    double values[] = {rank + 1.0};
    world.all_reduce(values).wait();
    EXPECT_EQ(values[0], 3);
    authenticated[static_cast<std::size_t>(rank)] = world.authenticated() ? 1 : 0;
  };
  std::thread other(rank_main, 1);
  rank_main(0);
  other.join();
  return texts;
}

TEST_F(CommonSecret, MakesAWorldAuthenticatedThatMetByAnOpenExchange) {
  std::vector<int> authenticated(2);
  meet(false, authenticated);
  EXPECT_THAT(authenticated, testing::Each(1));
}

TEST_F(CommonSecret, IsHandedOutByRank0WhereThereIsNone) {
  std::vector<int> authenticated(2);
  std::vector<std::string> heard;
  std::mutex mutex;
  set_log_sink(
      [&](LogLevel, std::string_view text) {
        const std::lock_guard lock(mutex);
        heard.emplace_back(text);
      },
      LogLevel::info);
  meet(true, authenticated);
  set_log_sink({});
  EXPECT_THAT(authenticated, testing::Each(0));
  EXPECT_THAT(heard, testing::Contains(testing::HasSubstr(
                         "rank 0 hands out a secret by the store in which they meet")));
}

}  // namespace
}  // namespace tutti::group
