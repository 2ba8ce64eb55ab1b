#include <gmock/gmock.h>
#include <unistd.h>

#include <vector>

#include <tutti/launch.hpp>
#include <tutti/tutti.hpp>

#include "group/thread_ranks.hpp"
#include "unit/child.hpp"
#include "unit/group/error_text.hpp"

// The texts of errors that docs/reference/errors.md shows, from whole worlds.
namespace tutti {
namespace {

using test::text_of;
using testing::MatchesRegex;

TEST(ToldTexts, BlocksOfOtherSizes) {
  run_threads(3, [](ProcessGroup& world) {
    const std::vector<std::size_t> one = {4, 4, 5};
    const std::vector<std::size_t> other = {5, 4, 4};  // as many in all
    const std::vector<std::size_t>& counts = world.rank() == 1 ? other : one;
    std::vector<float> mine(counts[static_cast<std::size_t>(world.rank())]);
    std::vector<float> all(13);
    EXPECT_THAT(
        text_of<Error>([&] {
          world.all_gather(TensorView(all), TensorView(mine), {.output_counts = counts}).wait();
          world.barrier().wait();
        }),
        MatchesRegex("ranks disagree in group 'world': as operation 1 rank .* called .* but rank "
                     ".* called .* of other sizes\\. All ranks must .*"));
  });
}

TEST(ToldTexts, AnAbort) {
  run_threads(2, [](ProcessGroup& world) {
    if (world.rank() == 1) world.abort("the loss is not a number");
    EXPECT_THAT(text_of<Error>([&] { world.barrier().wait(); }),
                MatchesRegex("group 'world' was aborted by .*, pid [0-9]+, rank 1: the loss is not "
                             "a number"));
  });
}

TEST(ToldTexts, SettingsThatDiffer) {
  const auto config_of = [](int rank) {
    Config config;
    if (rank == 1) config.agree = Config::Agree::strict;
    return config;
  };
  const auto body = [](ProcessGroup&) {};
  EXPECT_THAT(
      text_of<Error>([&] { group::run_thread_ranks(2, body, config_of); }),
      MatchesRegex(
          "settings differ: TUTTI_AGREE is '(normal' on rank 0 and 'strict' on rank 1|strict' on "
          "rank 1 and 'normal' on rank 0); give all ranks the same"));
}

TEST(ToldTexts, AForkedChild) {
  ProcessGroup world =
      init_process_group(InitOptions{.store = make_hash_store(), .rank = 0, .size = 1});
  const pid_t child = test::start_child([&] {
    EXPECT_EQ(
        text_of<Error>([&] { world.barrier().wait(); }),
        "this process was forked after init_process_group; a child cannot use its parent's groups: "
        "start workers before init, or call init_process_group in the child's program");
    _exit(testing::Test::HasFailure() ? 1 : 0);
  });
  EXPECT_EQ(test::end_of(child), 0);
  EXPECT_NO_THROW(world.barrier().wait());
}

}  // namespace
}  // namespace tutti
