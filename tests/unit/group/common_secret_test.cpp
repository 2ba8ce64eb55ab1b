#include "group/common_secret.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <barrier>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include <tutti/backend/group_access.hpp>
#include <tutti/init.hpp>
#include <tutti/log.hpp>

#include "os/host.hpp"
#include "support/temporary_folder.hpp"
#include "support/variable.hpp"
#include "unit/in_threads.hpp"

namespace tutti::group {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

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
    return SecretOffer(
        [&](const char* asked) -> const char* { return name == asked ? value.c_str() : nullptr; });
  }
  static SecretOffer offer_of_user() { return offer_with("", ""); }

  test::TemporaryFolder home_;
  test::Variable variable_{"HOME", home_.path()};
};

TEST_F(CommonSecret, IsTheKeyOfOneUser) {
  const SecretOffer ours = offer_of_user();
  EXPECT_EQ(ours.common({ours.line(), offer_of_user().line()}).value(), job_secret());
}

TEST_F(CommonSecret, IsRefusedWhereKeysDiffer) {
  const SecretOffer ours = offer_of_user();
  std::filesystem::remove_all(home_.at(".config"));
  const SecretOffer theirs = offer_of_user();
  const SecretOffer none = offer_with("TUTTI_INSECURE", "pickle");
  const std::string key = " on host " + os::host_name() + " it is " + home_.path() + "/.config";
  for (const SecretOffer* const rank : {&ours, &theirs, &none}) {
    EXPECT_THAT(rank->common({ours.line(), ours.line(), theirs.line()}).status().message(),
                AllOf(HasSubstr("rank 0 and rank 2 do not have the same secret:" + key),
                      HasSubstr("and" + key), HasSubstr("copy the file"),
                      HasSubstr("TUTTI_INSECURE=pickle for all")));
    EXPECT_THAT(rank->common({none.line(), ours.line()}).status().message(),
                HasSubstr("it is none (TUTTI_INSECURE=pickle), and" + key));
  }
}

TEST_F(CommonSecret, IsNoneWhereNobodyIsToHaveOne) {
  const SecretOffer none = offer_with("TUTTI_INSECURE", "1");
  EXPECT_TRUE(none.common({none.line(), none.line()}).value().empty());
}

TEST_F(CommonSecret, AllRanksAreToldWhyOneHasNone) {
  const SecretOffer ours = offer_of_user();
  const SecretOffer wrong = offer_with("TUTTI_SECRET_FILE", home_.at("nowhere"));
  const SecretOffer odd = offer_with("TUTTI_INSECURE", "yes\n");
  for (const SecretOffer* const rank : {&ours, &wrong, &odd}) {
    EXPECT_THAT(rank->common({ours.line(), wrong.line()}).status().message(),
                AllOf(HasSubstr("rank 1 has no secret on host " + os::host_name()),
                      HasSubstr(home_.at("nowhere").string())));
    EXPECT_THAT(rank->common({odd.line(), ours.line()}).status().message(),
                HasSubstr("it must be 0, 1 or pickle"));
  }
}

TEST_F(CommonSecret, IsRefusedWhereGivenSecretsDiffer) {
  const SecretOffer one = offer_with("TUTTI_SECRET_FILE", secret_file("one", 'a'));
  const SecretOffer two = offer_with("TUTTI_SECRET_FILE", secret_file("two", 'b'));
  const SecretOffer users = offer_of_user();
  for (const SecretOffer* const rank : {&one, &two, &users}) {
    EXPECT_THAT(rank->common({users.line(), one.line(), two.line()}).status().message(),
                HasSubstr("rank 1 was given a secret (TUTTI_SECRET_FILE or TUTTI_SECRET_FD), and "
                          "rank 0 has another one or none"));
  }
}

/// Two ranks that are threads meet by an exchange that others may read. Gives what each got: its
/// error, or how its world trusts. `foreign`: the line of rank 1 is that of somebody else's key.
std::vector<std::string> meet(bool foreign) {
  std::vector<std::string> texts(2);
  std::vector<std::string> got(2);
  std::barrier<> both(2);
  test::in_threads(2, [&](int rank) {
    InitOptions options{.rank = rank, .size = 2, .master_addr = "127.0.0.1", .timeout = 10s};
    options.exchange_is_private = false;
    options.exchange = [&, rank](const std::string& name, const std::string& mine) {
      std::string told = mine;
      if (foreign && name == "world" && rank == 1)
        told = "key 0123456789abcdef\ton host x it is y\n";
      both.arrive_and_wait();
      texts[static_cast<std::size_t>(rank)] = told;
      both.arrive_and_wait();
      return Result<std::vector<std::string>>(texts);
    };
    std::string& mine = got[static_cast<std::size_t>(rank)];
    try {
      ProcessGroup world = init_process_group(options);
      double values[] = {rank + 1.0};
      world.all_reduce(values).wait();
      EXPECT_EQ(values[0], 3);
      mine = world.authenticated() ? "authenticated" : "joined";
      GroupAccess::check_objects(world, "an object");
      mine += ", takes objects";
    } catch (const InvalidArgument& refused) {
      mine += refused.what();
    }
  });
  return got;
}

TEST_F(CommonSecret, MakesAWorldAuthenticatedThatMetByAnOpenExchange) {
  EXPECT_THAT(meet(false), Each("authenticated, takes objects"));
}

TEST_F(CommonSecret, OfAnotherKeyOpensNothing) {
  const auto got = meet(true);
  EXPECT_THAT(got[0], HasSubstr("on host x it is y"));
  EXPECT_THAT(got, Each(HasSubstr("rank 0 and rank 1 do not have the same secret")));
}

TEST_F(CommonSecret, IsHandedOutByRank0WhereAllSaySo) {
  std::vector<std::string> heard;
  std::mutex mutex;
  set_log_sink(
      [&](LogLevel level, std::string_view text) {
        const std::lock_guard lock(mutex);
        if (level == LogLevel::warning) heard.emplace_back(text);
      },
      LogLevel::info);
  {
    const test::Variable insecure("TUTTI_INSECURE", "1");
    EXPECT_THAT(meet(false), Each(AllOf(testing::StartsWith("joinedan object in group 'world'"),
                                        HasSubstr("TUTTI_INSECURE=pickle for all"))));
  }
  const test::Variable insecure("TUTTI_INSECURE", "pickle");
  EXPECT_THAT(meet(false), Each("joined, takes objects"));
  set_log_sink({});
  EXPECT_THAT(heard, testing::Contains(HasSubstr("rank 0 hands out one where they meet")));
}

}  // namespace
}  // namespace tutti::group
