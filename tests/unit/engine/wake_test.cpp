// Ranks that sleep whenever nothing moves: who brings what they wait for has to wake them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>

#include "host.hpp"

namespace tutti::engine {
namespace {

using transport::shm::Park;

struct Program {
  const char* name;
  Kind kind;
  std::size_t count;  ///< of floats
  int ahead;          ///< calls that a rank starts before it waits for the last of them
  int calls = 24;
  int large_every = 1000;         ///< these calls are of more than a line
  Kind large = Kind::all_reduce;  ///< a broadcast is out of memory that others read
};
constexpr std::size_t kLargeCount = 20'000;
void PrintTo(const Program& program, std::ostream* out) { *out << program.name; }

/// Ranks of one host without a clock: only another rank wakes one that sleeps.
class Sleepers {
 public:
  Sleepers(int size, const Program& program)
      : program_(program), host_(size, [](World& world) { world.cpus = 8; }) {
    for (int rank = 0; rank < size; ++rank) host_.make(rank, kGroup);
    for (int rank = 0; rank < size; ++rank) {
      Rank& one = ranks_.emplace_back(host_.engine(rank), host_.group(rank, kGroup));
      one.shared =
          reinterpret_cast<float*>(host_.regions(rank).arena + transport::shm::kUserOffset);
      one.in.assign(std::max(program.count, kLargeCount), 1);
      one.out.assign(one.in.size() * static_cast<std::size_t>(size), 0);
    }
  }

  /// False: some rank waits and sleeps, and nobody is left who would wake it.
  bool run(unsigned seed) {
    std::mt19937 random(seed);
    while (true) {
      std::size_t finished = 0;
      bool awake = false;
      for (std::size_t turns = ranks_.size() * 4; turns > 0; --turns)
        awake |= turn(random() % ranks_.size());
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        awake |= turn(rank);
        finished += is_finished(ranks_[rank]) ? 1 : 0;
      }
      if (finished == ranks_.size()) return true;
      if (!awake) return false;
    }
  }

 private:
  struct Rank {
    Rank(Engine& of_rank, Group& of_all) : engine(&of_rank), group(&of_all) {}
    Engine* engine;
    Group* group;
    float* shared = nullptr;
    std::vector<float> in;
    std::vector<float> out;
    int called = 0;
    std::uint64_t ticket = 0;
    bool asleep = false;
  };

  static bool waits(Rank& one) {
    return one.called > 0 && !one.engine->is_done(*one.group, one.ticket);
  }
  [[nodiscard]] bool is_finished(Rank& one) const {
    return one.called == program_.calls && !waits(one);
  }

  /// As a caller that drives its rank's engine (Driver::wait). False: it sleeps, or has finished.
  bool turn(std::size_t rank) {
    Rank& one = ranks_[rank];
    auto& park = host_.regions(static_cast<int>(rank)).control().words().park;
    if (one.asleep) {
      if (park.load() != static_cast<std::uint32_t>(Park::awake)) return false;
      one.asleep = false;
    }
    if (is_finished(one)) return one.engine->progress();
    if (!waits(one)) {
      for (int i = 0; i < program_.ahead; ++i) call(one);
      return true;
    }
    if (one.engine->progress()) return true;
    park.store(static_cast<std::uint32_t>(Park::futex));
    one.asleep = !one.engine->progress() && waits(one);
    if (!one.asleep) park.store(static_cast<std::uint32_t>(Park::awake));
    return true;
  }

  void call(Rank& one) {
    Collective call{
        .kind = program_.kind, .timeout = std::chrono::hours(10), .input = {}, .output = {}};
    if (one.called % program_.large_every == program_.large_every - 1) {
      call.kind = program_.large;
      float* const data = call.kind == Kind::broadcast ? one.shared : one.in.data();
      call.input = call.output = TensorView(data, DType::float32, kLargeCount);
    } else if (program_.kind != Kind::barrier) {
      call.input = TensorView(one.in.data(), DType::float32, program_.count);
      call.output = program_.kind == Kind::broadcast ? call.input
                    : program_.kind == Kind::all_gather
                        ? TensorView(one.out.data(), DType::float32, program_.count * ranks_.size())
                        : TensorView(one.out.data(), DType::float32, program_.count);
    }
    one.ticket = one.engine->submit(*one.group, call);
    ++one.called;
  }

  Program program_;
  static constexpr std::uint64_t kGroup = 9;
  Host host_;
  std::vector<Rank> ranks_;
};

class Wake : public testing::TestWithParam<Program> {};

TEST_P(Wake, IsNeverMissed) {
  for (const int size : {2, 3, 5}) {
    // At their end fewest ranks wake others, so short programs run more often.
    for (unsigned seed = 0; seed < (GetParam().calls < 24 ? 20 : 6); ++seed) {
      Sleepers ranks(size, GetParam());
      ASSERT_TRUE(ranks.run(seed)) << size << " ranks, seed " << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, Wake,
                         testing::Values(Program{"Barrier", Kind::barrier, 0, 1},
                                         Program{"Arrival", Kind::all_reduce, 2, 1},
                                         Program{"Stage", Kind::all_reduce, 4'000, 1},
                                         Program{"Chunks", Kind::all_reduce, 150'000, 1},
                                         Program{"Broadcast", Kind::broadcast, 50'000, 1},
                                         Program{"Gather", Kind::all_gather, 50'000, 1},
                                         Program{"Window", Kind::broadcast, 2, 200, 200},
                                         Program{"Lines", Kind::broadcast, 2, 1, 200},
                                         Program{"Mixed", Kind::broadcast, 2, 5, 200, 23},
                                         Program{"Inputs", Kind::all_gather, 2, 2, 2, 2,
                                                 Kind::broadcast}),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace tutti::engine
