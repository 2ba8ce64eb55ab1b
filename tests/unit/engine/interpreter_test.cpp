#include "engine/interpreter.hpp"

#include <algorithm>
#include <deque>

#include "bare_groups.hpp"
#include "noting_transport.hpp"

// The interpreter over its two channels: no engine, no window, no clock that matters.
namespace tutti::engine {
namespace {

using Progress = Interpreter::Progress;

TimePoint fixed_clock() noexcept { return TimePoint{std::chrono::hours(1)}; }

/// One rank of a host.
struct InterpretedRank {
  InterpretedRank(verify::sim::Memory& memory, int rank, std::vector<int> host_of,
                  const std::string& algorithms)
      : groups(memory, rank, static_cast<int>(host_of.size())),
        group(groups.make(5)),
        transports(host_of.size(), &transport),
        regions(memory.regions(rank),
                {8, false, fixed_clock, [](std::byte*, std::size_t) { return Outcome(); }}),
        channel(std::span<transport::Transport* const>(transports)),
        interpreter(regions, channel),
        plans(rank, plan::make_topology(std::move(host_of)), 8, algorithms) {
    transports[static_cast<std::size_t>(rank)] = nullptr;
    for (Op& op : group.window) {
      op.region.stage_of.resize(2 * transports.size());
      op.program.sources.resize(transports.size());
    }
  }

  /// As an engine would number and fingerprint it.
  Op& begin(std::uint64_t seq, std::uint64_t fingerprint, std::vector<float>& data) {
    return begin(
        seq, fingerprint,
        Collective{
            .kind = Kind::all_reduce, .input = TensorView(data), .output = TensorView(data)});
  }
  Op& begin(std::uint64_t seq, std::uint64_t fingerprint, const Collective& call) {
    Op& op = group.window.at(seq);
    op.state = Op::State::running;
    op.seq = seq;
    op.fingerprint = fingerprint;
    op.plan = &plans.find(call);
    op.call = call;
    op.agreement.begin(false);
    if (!interpreter.begin(op)) {
      EXPECT_TRUE(interpreter.take_memory(op).ok());
    }
    return op;
  }

  BareGroups groups;
  Group& group;
  NotingTransport transport;
  std::vector<transport::Transport*> transports;
  RegionChannel regions;
  MessageChannel channel;
  Interpreter interpreter;
  PlanCache plans;
};

class InterpreterTest : public BareGroupsTest {
 protected:
  void make(std::vector<int> host_of, const std::string& algorithms = "") {
    ranks_.clear();
    memory_.emplace(host_of);
    for (int rank = 0; rank < static_cast<int>(host_of.size()); ++rank)
      ranks_.emplace_back(*memory_, rank, host_of, algorithms);
  }
  InterpretedRank& rank(int of) { return base::at(ranks_, of); }

  std::optional<verify::sim::Memory> memory_;
  std::deque<InterpretedRank> ranks_;
};

TEST_F(InterpreterTest, RunsAScheduleOfAHostToItsEnd) {
  // In one go, by the steps of a small schedule, and in chunks.
  for (const std::size_t count : {std::size_t{2}, std::size_t{3000}, std::size_t{300'000}}) {
    make({0, 0, 0});
    std::vector<std::vector<float>> data;
    for (const float value : {1.0F, 2.0F, 3.0F}) data.emplace_back(count, value);
    std::vector<Op*> ops;
    for (int r = 0; r < 3; ++r) ops.push_back(&rank(r).begin(1, 77, base::at(data, r)));
    std::vector<bool> done(3);
    for (int pass = 0; pass < 1000 && !(done[0] && done[1] && done[2]); ++pass) {
      for (int r = 0; r < 3; ++r) {
        if (base::at(done, r)) continue;
        const Progress outcome = rank(r).interpreter.run(*base::at(ops, r));
        ASSERT_NE(outcome, Progress::found);
        base::at(done, r) = outcome == Progress::done;
      }
    }
    for (const std::vector<float>& mine : data) EXPECT_EQ(mine, std::vector<float>(count, 6.0F));
  }
}

/// A call on a host, and what each rank gets.
struct SmallCall {
  Kind kind;
  ReduceOp op;
  int size;
  int root;
  std::size_t count;  ///< elements of a block, or of a tensor

  [[nodiscard]] std::size_t elements(bool of_input, int rank) const {
    const Layout layout = traits_of(kind).layout;
    const bool used = of_input ? uses_input(kind, rank, root) : uses_output(kind, rank, root);
    const bool all = layout == Layout::exchange || (of_input && layout == Layout::scatter) ||
                     (!of_input && layout == Layout::gather);
    if (layout == Layout::none || (!used && layout != Layout::same)) return 0;
    return all ? count * base::as_size(size) : count;
  }
};

TEST_F(InterpreterTest, DoesInOneGoWhatTheStepsDo) {
  // Runs the call with the one-shot plan or step by step. Returns all outputs.
  const auto run = [&](const SmallCall& c, const std::string& algorithms, bool in_one_go) {
    make(std::vector<int>(base::as_size(c.size), 0), algorithms);
    std::vector<std::vector<float>> in;
    std::vector<std::vector<float>> out;
    std::vector<Op*> ops;
    for (int r = 0; r < c.size; ++r) {
      in.emplace_back(c.elements(true, r));
      for (std::size_t i = 0; i < in.back().size(); ++i)
        in.back()[i] = static_cast<float>(i % 13) + 0.1F * static_cast<float>(r + 1);
      out.emplace_back(c.elements(false, r), -1.0F);
    }
    for (int r = 0; r < c.size; ++r) {
      const auto i = base::as_size(r);
      Op& op = rank(r).begin(1, 77,
                             Collective{.kind = c.kind,
                                        .op = c.op,
                                        .root = c.root,
                                        .input = TensorView(in[i]),
                                        .output = TensorView(out[i])});
      EXPECT_TRUE(op.program.one_shot);
      op.program.one_shot = in_one_go;
      ops.push_back(&op);
    }
    std::vector<bool> done(ops.size());
    for (int pass = 0; pass < 20; ++pass) {
      for (int r = c.size - 1; r >= 0; --r) {
        if (!base::at(done, r))
          base::at(done, r) = rank(r).interpreter.run(*base::at(ops, r)) == Progress::done;
      }
    }
    EXPECT_EQ(std::ranges::count(done, true), c.size);
    return out;
  };
  const auto check = [&](const SmallCall& c, const std::string& algorithms) {
    EXPECT_EQ(run(c, algorithms, true), run(c, algorithms, false))
        << to_string(c.kind) << ' ' << to_string(c.op) << " of " << c.size << " ranks, root "
        << c.root << ", " << c.count << " elements " << algorithms;
  };
  for (const Kind kind : {Kind::barrier, Kind::broadcast, Kind::all_reduce, Kind::reduce,
                          Kind::all_gather, Kind::gather, Kind::scatter, Kind::reduce_scatter,
                          Kind::all_to_all, Kind::scan, Kind::exclusive_scan}) {
    for (const int size : {1, 2, 3, 8}) {
      for (const std::size_t count : {1, 2, 40, 900}) {
        check({kind, ReduceOp::sum, size, 0, count}, "");
        if (traits_of(kind).rooted) check({kind, ReduceOp::max, size, size - 1, count}, "");
        if (traits_of(kind).reduces) check({kind, ReduceOp::avg, size, 0, count}, "");
        if (kind == Kind::all_reduce)
          check({kind, ReduceOp::avg, size, 0, count}, "all_reduce:shared_one_shot");
      }
    }
  }
}

TEST_F(InterpreterTest, SaysWhomItIsBlockedOn) {
  make({0, 0, 0});
  std::vector<float> data[3] = {{1, 1}, {2, 2}, {3, 3}};
  Op& ours = rank(0).begin(1, 77, data[0]);
  EXPECT_EQ(rank(0).interpreter.run(ours), Progress::moved);  // its line is there
  EXPECT_EQ(rank(0).interpreter.run(ours), Progress::waits);
  EXPECT_EQ(Interpreter::blocked_on(ours), (std::vector<int>{1, 2}));
  EXPECT_FALSE(Interpreter::waits_for_frames(ours));
  Op& first = rank(1).begin(1, 77, data[1]);
  EXPECT_EQ(rank(1).interpreter.run(first), Progress::moved);
  EXPECT_EQ(Interpreter::blocked_on(first), std::vector<int>{2});
  EXPECT_EQ(rank(0).interpreter.run(ours), Progress::waits);
  EXPECT_EQ(Interpreter::blocked_on(ours), std::vector<int>{2});
}

TEST_F(InterpreterTest, FindsALineOfAnotherCall) {
  make({0, 0});
  std::vector<float> data[2] = {{1, 1}, {2, 2}};
  Op& ours = rank(0).begin(1, 77, data[0]);
  Op& other = rank(1).begin(1, 78, data[1]);
  EXPECT_EQ(rank(1).interpreter.run(other), Progress::moved);
  ASSERT_EQ(rank(0).interpreter.run(ours), Progress::found);
  const Interpreter::Finding finding = rank(0).interpreter.take_finding();
  EXPECT_EQ(finding.what, Interpreter::Finding::What::line);
  EXPECT_EQ(finding.rank, 1);
  EXPECT_EQ(data[0], (std::vector<float>{1, 1}));
}

TEST_F(InterpreterTest, WaitsForTheFramesOfARankOfAnotherHost) {
  make({0, 1}, "all_reduce:exchange");
  std::vector<float> data = {1, 1};
  Op& ours = rank(0).begin(1, 77, data);
  (void)rank(0).interpreter.run(ours);
  EXPECT_EQ(rank(0).transport.frames(transport::FrameType::data), 1);
  EXPECT_EQ(Interpreter::blocked_on(ours), std::vector<int>{1});
  EXPECT_TRUE(Interpreter::waits_for_frames(ours));
}

}  // namespace
}  // namespace tutti::engine
