#include <gmock/gmock.h>

#include <cstring>

#include "base/format.hpp"
#include "support/thread_worlds.hpp"
#include "unit/group/error_text.hpp"

// Ranges of structs, which move as bytes: what a program gives and reads are numbers of structs.
namespace tutti {
namespace {

using test::text_of;
using testing::AllOf;
using testing::HasSubstr;

struct Particle {
  double place = 0;
  std::int32_t kind = 0;
  friend bool operator==(const Particle&, const Particle&) = default;
};
static_assert(sizeof(Particle) == 16);

Particle particle(int from, int to, std::size_t i) {
  return {static_cast<double>(from) + static_cast<double>(i) / 1024, to};
}

class StructRanges : public test::OnWorlds {};
INSTANTIATE_TEST_SUITE_P(Ways, StructRanges,
                         testing::ValuesIn(test::worlds({1, 2, 3},
                                                        {test::Way::shm, test::Way::tcp})),
                         test::world_name);

TEST_P(StructRanges, AreExchangedInSplitsOfStructs) {
  run([](ProcessGroup& world) {
    const auto ranks = static_cast<std::size_t>(world.size());
    for (const std::size_t most : {3, 5000}) {
      // Rank r sends r + s structs to rank s, and more of the larger message.
      std::vector<std::size_t> sends(ranks);
      std::vector<std::size_t> gets(ranks);
      std::vector<Particle> given;
      std::vector<Particle> expected;
      for (int r = 0; r < world.size(); ++r) {
        const auto count = static_cast<std::size_t>(world.rank() + r) * most;
        sends[static_cast<std::size_t>(r)] = gets[static_cast<std::size_t>(r)] = count;
        for (std::size_t i = 0; i < count; ++i) {
          given.push_back(particle(world.rank(), r, i));
          expected.push_back(particle(r, world.rank(), i));
        }
      }
      std::vector<Particle> got(expected.size());
      world.all_to_all(got, given, {.output_splits = gets, .input_splits = sends}).wait();
      EXPECT_EQ(got, expected);
    }
  });
}

TEST_P(StructRanges, AreGatheredInCountsOfStructs) {
  run([](ProcessGroup& world) {
    std::vector<std::size_t> counts;
    std::vector<Particle> expected;
    std::vector<Particle> given;
    for (int r = 0; r < world.size(); ++r) {
      counts.push_back(static_cast<std::size_t>(2 * r + 1));
      for (std::size_t i = 0; i < counts.back(); ++i) {
        expected.push_back(particle(r, 0, i));
        if (r == world.rank()) given.push_back(expected.back());
      }
    }
    std::vector<Particle> got(expected.size());
    world.all_gather(got, std::as_const(given), {.output_counts = counts}).wait();
    EXPECT_EQ(got, expected);
    // Bytes on the other side: each side counts what it holds.
    std::vector<std::byte> bytes(sizeof(Particle) * given.size());
    std::memcpy(bytes.data(), given.data(), bytes.size());
    got.assign(got.size(), {});
    world.all_gather(got, bytes, {.output_counts = counts}).wait();
    EXPECT_EQ(got, expected);
    // To a root and back from it. The others know their own counts, or all.
    const int root = world.size() - 1;
    const auto me = static_cast<std::size_t>(world.rank());
    const std::span<const std::size_t> known =
        world.rank() == 0 && root > 0 ? std::span(counts).subspan(me, 1) : std::span(counts);
    got.assign(got.size(), {});
    world.gather(got, given, {.root = root, .output_counts = known}).wait();
    EXPECT_EQ(got, world.rank() == root ? expected : std::vector<Particle>(got.size()));
    std::vector<Particle> back(given.size());
    world.scatter(back, got, {.root = root, .input_counts = known}).wait();
    EXPECT_EQ(back, given);
    const Blocks<Particle> blocks = world.all_gather_v(std::as_const(given)).wait();
    EXPECT_EQ(blocks.values, expected);
    EXPECT_EQ(blocks.counts, counts);
  });
}

class StructsOfSeveral : public test::OnWorlds {};
INSTANTIATE_TEST_SUITE_P(Ways, StructsOfSeveral,
                         testing::ValuesIn(test::worlds({2}, {test::Way::shm, test::Way::tcp})),
                         test::world_name);

TEST_P(StructsOfSeveral, AreToldWhereRanksDisagree) {
  // Rank 0 sends rank 1 three structs, or bytes that are no whole number of structs.
  const auto told = [](bool structs) {
    std::string text;
    run([&](ProcessGroup& world) {
      const std::vector<std::size_t> two{2, 2};
      const bool odd = world.rank() == 0;
      std::vector<Particle> given(odd ? 5 : 4);
      std::vector<Particle> got(4);
      const auto fails = [&](auto& input, const std::vector<std::size_t>& sends) {
        const std::string error = text_of<DisagreementError>([&] {
          world.all_to_all(got, input, {.output_splits = two, .input_splits = sends}).wait();
          world.barrier().wait();
        });
        if (!odd) text = error;
      };
      std::vector<std::byte> bytes(72);
      if (!odd)
        fails(given, two);
      else if (structs)
        fails(given, {2, 3});
      else
        fails(bytes, {32, 40});
    });
    return text;
  };
  EXPECT_THAT(told(true), AllOf(HasSubstr(" sends 3 elements to "), HasSubstr("expects 2.")));
  EXPECT_THAT(told(false), AllOf(HasSubstr(" sends 40 bytes to "), HasSubstr("expects 32.")));
}

/// The text of a call of rank 0 of two, in which nothing is sent.
template <class Call>
std::string refused(const Call& call) {
  std::string text;
  test::World{2}.run([&](ProcessGroup& world) {
    if (world.rank() == 0) text = text_of<InvalidArgument>([&] { call(world); });
    world.barrier().wait();
  });
  return text;
}

TEST(StructCounts, AreStructsInTheTextsOfRefusedCalls) {
  std::vector<Particle> four(4);
  std::vector<Particle> three(3);
  const std::string call = "all_to_all(struct of 16 bytes x 4) in group 'world': ";
  const auto exchange = [&](const std::vector<std::size_t>& gets,
                            const std::vector<std::size_t>& sends) {
    return refused([&](ProcessGroup& world) {
      std::vector<Particle> out(4);
      (void)world.all_to_all(out, four, {.output_splits = gets, .input_splits = sends});
    });
  };
  EXPECT_EQ(exchange({2, 2}, {2, 1}),
            call + "the counts for the input sum up to 3, but it has 4 elements");
  EXPECT_EQ(exchange({32, 32}, {2, 2}),
            call + "a count of 32 for the output, which has 4 elements");
  EXPECT_EQ(exchange({1, 3}, {2, 2}), call + "this rank sends itself 2 elements but expects 1");
  // Times 16 it is 0 in 64 bits.
  const std::size_t huge = std::size_t{1} << 60;
  EXPECT_EQ(exchange({4, huge}, {2, 2}),
            call + base::format("a count of {} for the output, which has 4 elements", huge));
  EXPECT_EQ(exchange({2, 2}, {4, huge}),
            call + base::format("a count of {} for the input, which has 4 elements", huge));
  EXPECT_EQ(refused([&](ProcessGroup& world) {
              const std::vector<std::size_t> counts{huge, 4};
              (void)world.all_gather(four, std::span(three).first(2), {.output_counts = counts});
            }),
            "all_gather(struct of 16 bytes x 2) in group 'world': " +
                base::format("a count of {} for the output, which has 4 elements", huge));
  EXPECT_EQ(refused([&](ProcessGroup& world) {
              const std::vector<std::size_t> counts{huge, 4};
              (void)world.scatter(three, four, {.input_counts = counts});
            }),
            "scatter(root 0, struct of 16 bytes x 4) in group 'world': " +
                base::format("a count of {} for the input, which has 4 elements", huge));
  EXPECT_EQ(refused([&](ProcessGroup& world) {
              const std::vector<std::size_t> own{huge};
              (void)world.gather(three, four, {.root = 1, .output_counts = own});
            }),
            "gather(root 1, struct of 16 bytes x 4) in group 'world': " +
                base::format("a count of {} for the input, which has 4 elements", huge));
  EXPECT_EQ(refused([&](ProcessGroup& world) { (void)world.all_gather(four, three); }),
            "all_gather(struct of 16 bytes x 3) in group 'world': the output has 4 elements; it "
            "must have 2 times the input's 3");
  EXPECT_EQ(refused([&](ProcessGroup& world) { (void)world.gather(three, four); }),
            "gather(root 0, struct of 16 bytes x 4) in group 'world': the output has 3 elements; "
            "it must have 2 times the input's 4");
  EXPECT_EQ(refused([&](ProcessGroup& world) { (void)world.scatter(four, three); }),
            "scatter(root 0, struct of 16 bytes x 3) in group 'world': the input has 3 elements; "
            "it must have 2 times the output's 4");
  std::vector<std::byte> bytes(24);
  EXPECT_EQ(refused([&](ProcessGroup& world) { (void)world.gather(four, bytes); }),
            "gather(root 0, uint8 x 24) in group 'world': the output has 64 bytes; it must have 2 "
            "times the input's 24");
  const UserOp op =
      UserOp::of<Particle>("first", [](const Particle& a, const Particle&) { return a; });
  EXPECT_EQ(refused([&](ProcessGroup& world) { (void)world.all_reduce(bytes, op); }),
            "all_reduce(op 'first', uint8 x 24) in group 'world': the op combines 16 elements at a "
            "time, which do not divide 24");
}

TEST(StructCounts, NoStructIsDividedAmongTheRanks) {
  std::vector<Particle> three(3);  // 48 bytes, which two ranks could divide
  std::vector<std::byte> bytes(sizeof(Particle) * 3);
  const std::string text = "3 elements cannot be divided evenly among 2 ranks; give splits";
  EXPECT_THAT(refused([&](ProcessGroup& world) {
                std::vector<Particle> out(3);
                (void)world.all_to_all(out, three);
              }),
              HasSubstr(text));
  EXPECT_THAT(refused([&](ProcessGroup& world) { (void)world.all_to_all(three, bytes); }),
              HasSubstr(text));
  EXPECT_THAT(refused([&](ProcessGroup& world) { (void)world.all_to_all(bytes, three); }),
              HasSubstr(text));
}

TEST(StructCounts, OfMessagesAreStructsInTexts) {
  test::World{2}.run([](ProcessGroup& world) {
    std::vector<Particle> four(4);
    std::vector<Particle> three(3);
    if (world.rank() == 0) {
      world.send(four, 1);
      const auto sends_again = [&] {  // the recv may break the group before the send has returned
        world.send(four, 1, {.tag = 1});
        world.barrier().wait();
      };
      EXPECT_THROW(sends_again(), DisagreementError);
      return;
    }
    Message message = world.probe(0);
    EXPECT_EQ(message.count(), 64U);
    EXPECT_THAT(text_of<InvalidArgument>([&] { message.recv(three); }),
                HasSubstr("the message has 64 bytes; give a buffer of as many"));
    EXPECT_EQ(message.recv<Particle>(), four);
    EXPECT_THAT(text_of<DisagreementError>([&] { world.recv(three, 0, {.tag = 1}); }),
                AllOf(HasSubstr("receives struct of 16 bytes x 3 with tag 1"),
                      HasSubstr("sent it struct of 16 bytes x 4")));
  });
}

}  // namespace
}  // namespace tutti
