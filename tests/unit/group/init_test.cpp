#include <gtest/gtest.h>

#include <barrier>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <tutti/init.hpp>

namespace tutti {
namespace {

using namespace std::chrono_literals;

// Two ranks that are threads meet without a store.
class Meeting {
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

 private:
  std::barrier<> both_{2};
  std::mutex mutex_;
  std::map<std::string, std::vector<std::string>> texts_;
};

TEST(InitProcessGroup, MeetsThroughTheExchangeOfTheCaller) {
  Meeting meeting;
  std::vector<double> sums(2);
  const auto rank_main = [&](int rank) {
    InitOptions options;
    options.rank = rank;
    options.size = 2;
    options.timeout = 10s;
    options.exchange = [&, rank](const std::string& name, const std::string& mine) {
      return meeting.run(rank, name, mine);
    };
    ProcessGroup world = init_process_group(options);
    double values[] = {rank + 1.0};
    world.all_reduce(values).wait();
    sums[static_cast<std::size_t>(rank)] = values[0];
  };
  std::thread other(rank_main, 1);
  rank_main(0);
  other.join();
  EXPECT_EQ(sums, (std::vector<double>{3, 3}));
}

TEST(InitProcessGroup, WantsRankAndSizeWithAnExchange) {
  InitOptions options;
  options.exchange = [](const std::string&, const std::string& mine) {
    return Result<std::vector<std::string>>(std::vector<std::string>{mine});
  };
  EXPECT_THROW((void)init_process_group(options), InvalidArgument);
  options.rank = 2;
  options.size = 2;
  EXPECT_THROW((void)init_process_group(options), InvalidArgument);
}

TEST(InitProcessGroup, TellsThatTheExchangeFailed) {
  InitOptions options;
  options.rank = 0;
  options.size = 2;
  options.exchange = [](const std::string&,
                        const std::string&) -> Result<std::vector<std::string>> {
    return Status(Errc::store, "the store is on fire");
  };
  EXPECT_THROW((void)init_process_group(options), StoreError);
}

TEST(IsAvailable, KnowsTheBackendsThatAWorldCanRunOn) {
  EXPECT_TRUE(is_available("native"));
  EXPECT_FALSE(is_available("gloo"));  // not ours, and not taken for ours
  EXPECT_FALSE(is_available("Native"));
  EXPECT_FALSE(is_available(""));
}

}  // namespace
}  // namespace tutti
