#include <gmock/gmock.h>

#include <optional>

#include "unit/simulation/simulation.hpp"

// The texts of errors that docs/reference/errors.md shows, word for word, from ranks in virtual
// time. Of these no host is known, so names of ranks have no "on node-1, pid 501".
namespace tutti::engine::simulation {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

constexpr const char* kAfterTimeout =
    ". See where that rank is, or raise the timeout; the group is broken.";
constexpr const char* kAfterLoss =
    "Look at that rank's output for the cause; the group is broken, the survivors can make a new "
    "one.";
constexpr const char* kAfterDisagreement =
    ". All ranks must call the same operations in the same order with the same dtype, count, root "
    "and reduce op; the group is broken, make a new one.";

std::string barrier_timed_out(int operation, const std::string& why) {
  return "group 'world', operation " + std::to_string(operation) +
         " barrier() timed out after 5 s (timeout 5 s): " + why + kAfterTimeout;
}

Setup on_hosts(std::vector<int> host_of) {
  Setup setup;
  setup.seed = 1;
  setup.host_of = std::move(host_of);
  return setup;
}

/// Ranks that are members of the group 'world', and what they call in it.
class Ranks {
 public:
  explicit Ranks(Setup setup) : simulation(setup), calls_(setup.host_of.size()) {
    for (const int rank : numbers(setup.host_of.size()))
      groups_.push_back(simulation.add_group(
          rank, {.id = 1, .name = "world", .ranks = numbers(setup.host_of.size()), .timeout = 5s}));
  }
  Ranks(std::initializer_list<int> host_of) : Ranks(on_hosts(host_of)) {}

  void call(int rank, Collective collective) {
    collective.timeout = 5s;
    auto& calls = base::at(calls_, rank);
    calls.push_back(simulation.engine(rank).submit(*base::at(groups_, rank), collective));
  }
  void barrier(int rank) { call(rank, {.input = {}, .output = {}}); }
  void all_reduce(int rank, const TensorView& buffer) {
    call(rank, {.kind = Kind::all_reduce, .input = buffer, .output = buffer});
  }
  /// send: to that rank; recv: from it.
  void message(Kind kind, int rank, const TensorView& buffer, int other, int tag = 0) {
    Collective one{.kind = kind, .root = other, .tag = tag, .input = {}, .output = {}};
    (kind == Kind::send ? one.input : one.output) = buffer;
    call(rank, one);
  }

  /// Drives all until the last call of this rank has ended; what that tells.
  std::string told(int rank) {
    const auto at = base::as_size(rank);
    return told(rank, *groups_[at], calls_[at].back());
  }
  std::string told(int rank, Group& group, std::uint64_t ticket) {
    Engine& engine = simulation.engine(rank);
    const auto done = [&] { return engine.is_done(group, ticket); };
    if (!simulation.run_engines(done, Simulation::now() + 30s)) return "it has not ended";
    culprit_ = engine.outcome(group, ticket)->culprit();
    return std::string(engine.outcome(group, ticket)->message());
  }
  /// Rank 0 is told this text of its last call, which blames this rank.
  void expect_told(const testing::Matcher<std::string>& text, std::optional<int> culprit) {
    EXPECT_THAT(told(0), text);
    EXPECT_EQ(culprit_, culprit);
  }
  /// Drives all for a while.
  void go_on(std::chrono::nanoseconds time) {
    const TimePoint until = Simulation::now() + time;
    (void)simulation.run_engines([&] { return Simulation::now() >= until; }, until + 1s);
  }

  Simulation simulation;
  std::optional<int> culprit_;  ///< of what was told last

 private:
  std::vector<Group*> groups_;
  std::vector<std::vector<std::uint64_t>> calls_;
};

TEST(ToldTexts, ARankThatHasNotMadeTheCall) {
  Ranks ranks{0, 0, 0};
  ranks.barrier(0);
  ranks.barrier(1);
  ranks.expect_told(barrier_timed_out(1,
                                      "rank 2 has not made this call yet (its last one here was "
                                      "operation 0) and is in no call: it computes, or waits for "
                                      "something else; waiting for rank 2"),
                    2);
}

TEST(ToldTexts, AllRanksThatHaveNotMadeTheCall) {
  Ranks ranks{0, 0, 1, 1};
  ranks.barrier(0);
  std::vector<float> few(6);
  ranks.message(Kind::recv, 3, TensorView(few), 1, 7);
  const std::string late = " has not made this call yet (its last one here was operation 0) and ";
  ranks.expect_told(
      HasSubstr("): rank 1" + late + "is in no call: it computes, or waits for something else; " +
                "rank 2" + late + "is in no call: it computes, or waits for something else; " +
                "rank 3" + late + "is in group 'world' of 4 ranks, recv(from 1, tag 7"),
      1);
}

TEST(ToldTexts, OfManyLateRanksTheOneFurthestBehindIsAskedWhatItDoes) {
  Ranks ranks{0, 0, 0, 0, 0, 0, 0};
  std::vector<std::vector<float>> buffers(7, std::vector<float>(6));
  for (int rank = 0; rank < 6; ++rank) {
    const TensorView view = TensorView(base::at(buffers, rank));
    ranks.call(rank, {.kind = Kind::broadcast, .root = 0, .input = view, .output = view});
  }
  ranks.barrier(0);
  ranks.message(Kind::recv, 6, TensorView(buffers.back()), 1, 7);
  ranks.expect_told(
      HasSubstr("barrier() timed out after 5 s (timeout 5 s): rank 6 has not made this call yet "
                "(its last one here was operation 0) and is in group 'world' of 7 ranks, "
                "recv(from 1, tag 7"),
      6);
}

TEST(ToldTexts, AStoppedRankThatHasNotMadeTheCall) {
  Ranks ranks{0, 0, 0};
  for (int rank = 0; rank < 3; ++rank) ranks.barrier(rank);
  EXPECT_EQ(ranks.told(0), "");
  ranks.simulation.freeze(2);
  ranks.barrier(0);
  ranks.barrier(1);
  ranks.expect_told(barrier_timed_out(2,
                                      "rank 2 is stopped; has not made this call yet (its last one "
                                      "here was operation 1); waiting for rank 2"),
                    2);
}

TEST(ToldTexts, ARankThatIsFurthestBehindInTheCall) {
  Ranks ranks{0, 0, 0};
  std::vector<std::vector<float>> buffers(3, std::vector<float>(1'000'000));
  for (int rank = 0; rank < 3; ++rank) ranks.all_reduce(rank, TensorView(base::at(buffers, rank)));
  ranks.simulation.freeze(1);
  ranks.expect_told(
      HasSubstr("): rank 1 is stopped; has made the call but is furthest behind in it"), 1);
}

TEST(ToldTexts, ARankOfAnotherHostThatAnswersNothing) {
  Ranks ranks{0, 1};
  ranks.simulation.freeze(1);
  ranks.barrier(0);
  ranks.expect_told(
      HasSubstr("): rank 1 answers nothing: it is stopped, or cut off; waiting for rank 1"), 1);
}

TEST(ToldTexts, MessagesThatDoNotCome) {
  std::vector<float> few(6);
  std::vector<float> many(1'000'000);
  {
    Ranks ranks{0, 0, 0, 0};
    ranks.message(Kind::recv, 0, TensorView(few), 1, 7);
    ranks.expect_told(
        std::string("group 'world' of 4 ranks, recv(from 1, tag 7, float32 x 6) timed out "
                    "after 5.4 s (timeout 5 s): rank 1 has not sent it and is in no call: it "
                    "computes, or waits for something else") +
            kAfterTimeout,
        1);
  }
  {
    Ranks ranks{0, 1, 1};
    ranks.message(Kind::send, 0, TensorView(many), 1);
    ranks.go_on(1s);
    ranks.message(Kind::recv, 1, TensorView(few), 2, 7);
    ranks.expect_told(HasSubstr("): rank 1 has not called the recv for it and is in group 'world' "
                                "of 3 ranks, recv(from 2, tag 7, float32 x 6). See"),
                      1);
  }
  {  // two sends that face each other
    Ranks ranks{0, 1};
    std::vector<float> theirs(many.size());
    ranks.message(Kind::send, 0, TensorView(many), 1);
    ranks.go_on(1s);
    ranks.message(Kind::send, 1, TensorView(theirs), 0);
    ranks.expect_told(
        HasSubstr("; nor has this rank received what that rank sends to it: where two ranks send "
                  "to each other, one receives first, or both use isend or batch_isend_irecv. See"),
        1);
  }
  {
    Ranks ranks{0, 1};
    ranks.message(Kind::recv, 0, TensorView(few), any_source);
    ranks.expect_told(HasSubstr("): no rank has sent it. See"), std::nullopt);
  }
}

TEST(ToldTexts, AMessageThatIsOnTheWayForTooLong) {
  auto slow = on_hosts({0, 1});
  slow.links.bytes_per_microsecond = 1;
  slow.links.window_bytes = slow.links.unsent_bytes = 32 * 1024;
  Ranks ranks(slow);
  std::vector<float> many(5'000'000);
  std::vector<float> got(many.size());
  ranks.message(Kind::send, 1, TensorView(many), 0);
  ranks.message(Kind::recv, 0, TensorView(got), 1);
  ranks.expect_told(
      MatchesRegex(".*: rank 1 has not come to an end with it and is in group 'world' "
                   "of 2 ranks, send\\(to 0, tag 0, float32 x 5000000\\); [0-9]+ of "
                   "20000000 bytes have passed, [0-9]+ a second\\. See .*"),
      1);
}

/// Each rank says itself how far it has come: the way between two of them is slow.
TEST(ToldTexts, ACollectiveOverASlowLink) {
  auto slow = on_hosts({0, 1});
  slow.links.bytes_per_microsecond = 1;
  slow.links.window_bytes = slow.links.unsent_bytes = 32 * 1024;
  Ranks ranks(slow);
  std::vector<float> many(5'000'000);
  std::vector<float> others(many.size());
  ranks.all_reduce(0, TensorView(many));
  ranks.all_reduce(1, TensorView(others));
  ranks.expect_told(
      MatchesRegex(".*: rank 1 has made the call but is furthest behind in it; waiting for rank 1; "
                   "rank [01] has sent [0-9]+ bytes and received [0-9]+, [1-9][0-9]+ a second; "
                   "rank [01] has sent [0-9]+ bytes and received [0-9]+, [1-9][0-9]+ a second\\. "
                   "See .*"),
      1);
}

/// Two of three hosts cannot reach each other any more, and the third one reaches both.
TEST(ToldTexts, OnlyTheWayBetweenTwoRanksIsCut) {
  const auto told = [](std::vector<int> host_of, int rank) {
    Ranks ranks(on_hosts(std::move(host_of)));
    std::vector<std::vector<float>> buffers(3, std::vector<float>(1'000'000));
    for (int one = 0; one < 3; ++one)
      ranks.all_reduce(one, TensorView(buffers[static_cast<std::size_t>(one)]));
    ranks.go_on(milliseconds(1));
    ranks.simulation.network().drop(1, 2, milliseconds(5));
    return ranks.told(rank);
  };
  for (const int rank : {0, 1, 2}) {
    SCOPED_TRACE(rank);
    EXPECT_THAT(
        told({0, 1, 2}, rank),
        MatchesRegex("group 'world', operation 1 all_reduce\\(SUM, float32 x 1000000\\): lost "
                     "rank [12]: only rank [12] has lost it, and rank 0 still reaches both: "
                     "the connection broke\\. .*"));
  }
  // A rank on the host of one of them has another way.
  EXPECT_THAT(told({0, 0, 1}, 0), HasSubstr("): lost rank"));
  EXPECT_THAT(told({0, 0, 1}, 0), testing::Not(HasSubstr("still reaches")));
}

TEST(ToldTexts, ALostRank) {
  Ranks ranks{0, 0, 0};
  std::vector<float> buffer(1000);
  ranks.all_reduce(0, TensorView(buffer));
  ranks.go_on(10ms);
  ranks.simulation.kill(2);
  ranks.expect_told(std::string("group 'world', operation 1 all_reduce(SUM, float32 x 1000): "
                                "lost rank 2: its process died. ") +
                        kAfterLoss,
                    2);
  Group* const late =
      ranks.simulation.add_group(0, {.id = 2, .name = "world[0,2]", .ranks = {0, 2}});
  const Collective barrier{.timeout = 5s, .input = {}, .output = {}};
  EXPECT_EQ(ranks.told(0, *late, ranks.simulation.engine(0).submit(*late, barrier)),
            "group 'world[0,2]': rank 1 (global rank 2) was lost before the group was made; make "
            "one of the survivors.");
  EXPECT_EQ(ranks.culprit_, 1);
}

TEST(ToldTexts, ARankThatHasLeft) {
  std::vector<std::int32_t> buffer(1000);
  for (const bool message : {false, true}) {
    Ranks ranks{0, 1};
    if (message)
      ranks.message(Kind::recv, 0, TensorView(buffer), 1, 2);
    else
      ranks.barrier(0);
    ranks.simulation.leave(1);
    ranks.expect_told(
        message ? "group 'world' of 2 ranks, recv(from 1, tag 2, int32 x 1000): rank 1 has "
                  "ended, or destroyed the group, and sent nothing for it. Every send needs "
                  "its recv before either rank does; the group is broken."
                : "group 'world', operation 1 barrier(): rank 1 has ended, or destroyed the "
                  "group, without taking part. Every rank must make this call before it "
                  "does; the group is broken.",
        1);
  }
}

TEST(ToldTexts, CallsThatDiffer) {
  Ranks ranks{0, 0};
  std::vector<float> more(1000);
  std::vector<float> less(999);
  ranks.barrier(0);
  ranks.barrier(1);
  ranks.all_reduce(0, TensorView(more));
  ranks.all_reduce(1, TensorView(less));
  for (const int rank : {0, 1}) {
    const std::string text = ranks.told(rank);
    EXPECT_THAT(text, StartsWith("ranks disagree in group 'world': as operation 2 rank "));
    EXPECT_THAT(text, HasSubstr("rank 0 called all_reduce(SUM, float32 x 1000)"));
    EXPECT_THAT(text, HasSubstr("rank 1 called all_reduce(SUM, float32 x 999)"));
    EXPECT_THAT(text, testing::EndsWith(kAfterDisagreement));
  }
}

TEST(ToldTexts, NewGroupsOfOtherRanks) {
  Ranks ranks{0, 0};
  for (const int rank : {0, 1}) {
    const auto list = static_cast<std::uint64_t>(rank + 1);
    ranks.call(rank, {.kind = Kind::new_group, .digest = list, .input = {}, .output = {}});
  }
  EXPECT_THAT(ranks.told(0),
              MatchesRegex("ranks disagree in group 'world': as operation 1 rank [01] "
                           "called new_group\\(\\) but rank [01] called "
                           "new_group\\(\\) of other ranks\\. All ranks must .*"));
}

TEST(ToldTexts, CallsThatDifferedTooLongAgo) {
  Ranks ranks{0, 1};
  std::vector<float> none;
  std::vector<std::int32_t> others;
  // Over a network nothing is sent for no elements; the last 8 calls are kept.
  for (const int rank : {0, 1}) {
    ranks.all_reduce(rank, rank == 0 ? TensorView(none) : TensorView(others));
    EXPECT_EQ(ranks.told(rank), "");
  }
  for (int i = 0; i < 12; ++i) {
    for (const int rank : {0, 1}) {
      ranks.all_reduce(rank, TensorView(none));
      EXPECT_EQ(ranks.told(rank), "");
    }
  }
  ranks.barrier(0);
  ranks.barrier(1);
  const auto calls_of = [](const std::string& both) {
    return "ranks disagree in group 'world': the calls of " + both +
           " before operation 14 barrier() or their settings (TUTTI_AGREE, TUTTI_TRANSPORT, "
           "TUTTI_ALGO, TUTTI_TLS or TUTTI_CUDA_IPC) differ" +
           kAfterDisagreement;
  };
  EXPECT_THAT(ranks.told(0),
              testing::AnyOf(calls_of("rank 0 and rank 1"), calls_of("rank 1 and rank 0")));
}

TEST(ToldTexts, AMessageOfAnotherTensor) {
  Ranks ranks{0, 1};
  std::vector<float> sent(8);
  std::vector<std::int32_t> got(8);
  ranks.message(Kind::send, 1, TensorView(sent), 0, 4);
  ranks.message(Kind::recv, 0, TensorView(got), 1, 4);
  EXPECT_EQ(ranks.told(0),
            "ranks disagree in group 'world': rank 0 receives int32 x 8 with tag 4, but rank 1 "
            "sent it float32 x 8. A recv must have the dtype and the number of elements of its "
            "send; the group is broken, make a new one.");
  Ranks bytes{0, 1};  // a std::string into std::byte
  std::string text(3, 'a');
  std::vector<std::byte> got_bytes(3);
  bytes.message(Kind::send, 1, text, 0);
  bytes.message(Kind::recv, 0, got_bytes, 1);
  EXPECT_THAT(bytes.told(0),
              HasSubstr("sent it int8 x 3 (a std::string has int8, std::byte and unsigned char are "
                        "uint8: take one type on both sides). A recv must"));
}

}  // namespace
}  // namespace tutti::engine::simulation
