#include "apps/tutti/explain_flow.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "apps/tutti/explain_call.hpp"
#include "apps/tutti/explain_html.hpp"
#include "apps/tutti/explain_picture.hpp"
#include "apps/tutti/explain_text.hpp"
#include "plan/builders.hpp"
#include "plan/program.hpp"
#include "plan/select.hpp"
#include "transport/frames.hpp"
#include "unit/simulation/simulation.hpp"

namespace tutti::cli::explain {
namespace {

using engine::simulation::Setup;
using engine::simulation::Simulation;
using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

/// By sender and receiver: where in their stream each message, or each frame, ends.
using Ends = std::map<std::pair<int, int>, std::set<std::uint64_t>>;

/// A transport that notes the data frames which are sent through it.
class Noting final : public transport::Transport {
 public:
  Noting(transport::Transport& inner, int rank, Ends& ends)
      : inner_(inner), rank_(rank), ends_(ends) {}
  [[nodiscard]] const char* name() const noexcept override { return inner_.name(); }
  void set_sink(transport::Sink* sink) noexcept override { inner_.set_sink(sink); }
  [[nodiscard]] bool can_send(int peer) noexcept override { return inner_.can_send(peer); }
  bool send(int peer, const transport::FrameHeader& header, const std::byte* payload,
            std::uint64_t token) noexcept override {
    if (transport::type_of(header) == transport::FrameType::data) {
      const auto frame = transport::decode<transport::DataFrame>(header);
      ends_[{rank_, peer}].insert(frame.offset + frame.bytes);
    }
    return inner_.send(peer, header, payload, token);
  }
  void keep_payloads(int peer) noexcept override { inner_.keep_payloads(peer); }
  void drop_arriving(int peer) noexcept override { inner_.drop_arriving(peer); }
  bool poll() noexcept override { return inner_.poll(); }
  [[nodiscard]] int wait_fd() const noexcept override { return inner_.wait_fd(); }
  void close(std::uint64_t drain_ns) noexcept override { inner_.close(drain_ns); }

 private:
  transport::Transport& inner_;
  int rank_;
  Ends& ends_;
};

/// The frames of the call, run by the engines of all ranks.
Ends run_in_simulation(const Question& q) {
  Ends ends;
  std::map<std::pair<int, transport::Transport*>, std::unique_ptr<Noting>> noting;
  Setup setup;
  setup.seed = 1;
  setup.host_of = topology_of(q).host_of;
  setup.cpus = q.cpus;
  setup.algorithms = q.algorithms;
  setup.observed = [&](int rank, transport::Transport& inner) {
    auto& one = noting[{rank, &inner}];
    if (!one) one = std::make_unique<Noting>(inner, rank, ends);
    return one.get();
  };
  Simulation simulation(setup);
  std::vector<engine::Group*> groups;
  std::vector<std::uint64_t> tickets;
  std::vector<std::vector<std::byte>> memory;
  const std::vector<int> all = engine::simulation::numbers(setup.host_of.size());
  for (const int rank : all)
    groups.push_back(
        simulation.add_group(rank, {.id = 1, .name = "world", .ranks = all, .timeout = 20s}));
  for (const int rank : all) {
    Collective call = call_of(q);
    call.timeout = 20s;
    for (TensorView* view : {&call.input, &call.output}) {
      memory.emplace_back(view->count() * size_of(q.dtype));
      *view = TensorView(memory.back().data(), q.dtype, view->count());
    }
    tickets.push_back(simulation.engine(rank).submit(*base::at(groups, rank), call));
  }
  const bool ended = simulation.run_engines(
      [&] {
        return std::ranges::all_of(all, [&](int rank) {
          return simulation.engine(rank).is_done(*base::at(groups, rank), base::at(tickets, rank));
        });
      },
      Simulation::now() + 100s);
  EXPECT_TRUE(ended);
  for (const int rank : all)
    EXPECT_TRUE(engine::Engine::has_succeeded(*base::at(groups, rank), base::at(tickets, rank)));
  return ends;
}

Ends messages_of(const Flow& flow) {
  std::map<std::pair<int, int>, std::map<std::size_t, std::size_t>> bytes;
  for (const Transfer& t : flow.transfers)
    if (t.how == How::message) bytes[{t.from, t.to}][t.number] = t.bytes;
  Ends ends;
  for (const auto& [pair, messages] : bytes) {
    std::uint64_t end = 0;
    for (const auto& [number, size] : messages) ends[pair].insert(end += size);
  }
  return ends;
}

std::vector<Kind> kinds() {
  std::vector<Kind> all;
  for (const plan::Algorithm& a : plan::algorithms())
    if (std::ranges::find(all, a.kind) == all.end()) all.push_back(a.kind);
  return all;
}

std::string shown(const Question& q) {
  return std::string(traits_of(q.kind).name) + " of " + std::to_string(q.bytes) + " bytes on " +
         std::to_string(q.ranks) + " ranks of " + std::to_string(q.hosts) + " hosts";
}

// Messages of one pair may share no frame, but a long one has several.
TEST(Explain, MessagesAreThoseThatTheEnginesSend) {
  int with_messages = 0;
  for (const Kind kind : kinds()) {
    for (const int ranks : {1, 2, 3, 4, 5, 8}) {
      for (int hosts = 1; hosts <= ranks; ++hosts) {
        // float16 must be rounded once, so it takes other algorithms.
        for (const auto& [bytes, dtype] : {std::pair(std::size_t{4}, DType::float32),
                                           {std::size_t{12} << 10, DType::float16},
                                           {std::size_t{300} << 10, DType::float32}}) {
          if (!has_data(kind) && bytes != 4) continue;
          const Question q{.kind = kind,
                           .ranks = ranks,
                           .hosts = hosts,
                           .dtype = dtype,
                           .bytes = bytes,
                           .root = ranks / 2,
                           .cpus = 4};
          SCOPED_TRACE(shown(q));
          const Plans plans(q);
          const Ends told = messages_of(flow_of(plans.all()));
          const Ends seen = run_in_simulation(q);
          ASSERT_EQ(told.size(), seen.size());
          for (const auto& [pair, ends] : told) {
            ASSERT_TRUE(seen.contains(pair)) << pair.first << " to " << pair.second;
            EXPECT_EQ(*ends.rbegin(), *seen.at(pair).rbegin());
            EXPECT_TRUE(std::ranges::includes(seen.at(pair), ends))
                << "a frame of " << pair.first << " to " << pair.second
                << " holds the end of a message";
          }
          with_messages += told.empty() ? 0 : 1;
        }
      }
    }
  }
  EXPECT_GT(with_messages, 100);
}

/// Every result needs the inputs of all ranks, each once: what a rank reads and gets must be that.
TEST(Explain, EachRankOfAnAllReduceInSharedMemoryReadsWhatItDoesNotHave) {
  const Question q{.ranks = 4, .bytes = std::size_t{1} << 20, .cpus = 8};
  const Plans plans(q);
  const Flow flow = flow_of(plans.all());
  EXPECT_EQ(plans.all()[0]->schedule->algorithm, "slice_owner");
  EXPECT_EQ(flow.rounds, 2);
  for (const RankTotals& rank : flow.ranks) {
    EXPECT_EQ(rank.read, 2 * q.bytes * 3 / 4) << "its part of three ranks, then three parts";
    EXPECT_EQ(rank.staged, q.bytes) << "the parts of the others, and the sum of its own";
    EXPECT_EQ(rank.lines, 3U);
    EXPECT_EQ(rank.messages, 0U);
  }
}

/// Rank 1 sends to the last rank in place of the root.
plan::Schedule relayed_broadcast(const plan::Shape& s) {
  plan::Schedule schedule = plan::direct_broadcast(s);
  const int last = s.size - 1;
  if (s.rank == 0) {
    std::erase_if(schedule.steps, [&](const plan::Step& step) {
      return step.kind == plan::StepKind::send && step.peer == plan::Expr(last);
    });
  }
  for (plan::Step& step : schedule.steps) {
    if (s.rank != last) continue;
    if (step.kind == plan::StepKind::recv) step.peer = 1;
    if (step.kind == plan::StepKind::await_recv) step.ranks = plan::only(1);
  }
  if (s.rank == 1) {
    plan::Step send;
    send.kind = plan::StepKind::send;
    send.peer = last;
    send.src = plan::output(plan::whole());
    schedule.steps.push_back(send);
  }
  return schedule;
}

class MovedMessage : public testing::Test {
 protected:
  MovedMessage() {
    for (int rank = 0; rank < q_.ranks; ++rank) {
      const plan::Shape shape{rank, q_.ranks, 0, nullptr, 0};
      schedules_.push_back(relayed_broadcast(shape));
      bound_.push_back(*plans_.all()[static_cast<std::size_t>(rank)]);
    }
    for (std::size_t r = 0; r < bound_.size(); ++r) {
      bound_[r].schedule = &schedules_[r];
      moved_.push_back(&bound_[r]);
    }
  }
  const Question q_{.kind = Kind::broadcast, .ranks = 4, .hosts = 4, .bytes = 4096};
  const Plans plans_{q_};
  std::vector<plan::Schedule> schedules_;
  std::vector<engine::BoundPlan> bound_;
  std::vector<const engine::BoundPlan*> moved_;
};

TEST_F(MovedMessage, ChangesTheTextAndThePicture) {
  const Explanation before = explain(q_, plans_.all());
  const Explanation after = explain(q_, moved_);
  EXPECT_THAT(text_of(before), HasSubstr("rank 0 -> 1, 2, 3: everything; 4 KiB each"));
  EXPECT_THAT(text_of(after), HasSubstr("rank 0 -> 1, 2: everything; 4 KiB each"));
  EXPECT_THAT(text_of(after), HasSubstr("round 2: 1 message\n  rank 1 -> 3: everything; 4 KiB\n"));
  EXPECT_THAT(picture_of(before), HasSubstr("rank 0 sends to rank 3"));
  EXPECT_THAT(picture_of(after), Not(HasSubstr("rank 0 sends to rank 3")));
  EXPECT_THAT(picture_of(before), Not(HasSubstr("round 2")));
  EXPECT_THAT(picture_of(after), HasSubstr("rank 1 sends to rank 3"));
  EXPECT_THAT(picture_of(after), HasSubstr("round 2"));
  EXPECT_THAT(html_of(after), HasSubstr(picture_of(after)));
}

TEST_F(MovedMessage, IsNotLostSilently) {
  std::erase_if(schedules_[1].steps,
                [](const plan::Step& step) { return step.kind == plan::StepKind::send; });
  EXPECT_THROW((void)flow_of(moved_), std::logic_error) << "rank 3 waits for ever";
  schedules_[3].steps.clear();
  schedules_[2].steps.clear();
  EXPECT_THROW((void)flow_of(moved_), std::logic_error) << "nobody receives what rank 2 gets";
}

TEST(Explain, SaysWhichRuleDecided) {
  const Question q{.ranks = 4, .hosts = 4, .bytes = 40 << 10};
  const Plans plans(q);
  const std::string text = text_of(explain(q, plans.all()));
  EXPECT_THAT(text, HasSubstr("exchange, up to 2 ranks, up to 256 KiB: no, there are 4 ranks"));
  EXPECT_THAT(text, HasSubstr("exchange, up to 4 ranks, up to 32 KiB: no, it has 40 KiB"));
  EXPECT_THAT(text, HasSubstr("direct, up to 64 ranks: taken"));
  Question named = q;
  named.algorithms = "all_reduce:ring";
  const Plans ring(named);
  EXPECT_THAT(text_of(explain(named, ring.all())), HasSubstr("TUTTI_ALGO asks for it"));
}

TEST(Explain, SmallCallsNeedOneCacheLine) {
  Question q{.ranks = 2, .bytes = 48, .cpus = 2};
  const std::string words = "the data lie in the same cache line";
  const Plans small(q);
  EXPECT_THAT(text_of(explain(q, small.all())), HasSubstr(words));
  q.bytes = 52;
  const Plans large(q);
  EXPECT_THAT(text_of(explain(q, large.all())), Not(HasSubstr(words)));
}

TEST(Explain, SaysWhereThereIsTooMuchForAPicture) {
  const Question q{.kind = Kind::all_gather, .ranks = 20, .hosts = 20, .bytes = 1 << 20};
  const Plans plans(q);
  const Explanation e = explain(q, plans.all());
  EXPECT_EQ(picture_of(e), "");
  EXPECT_THAT(html_of(e), HasSubstr("There is no picture: 20 ranks and 380 moves are too many"));
  EXPECT_THAT(text_of(e), HasSubstr("... and 4 lines more like these; --html shows more"));
}

}  // namespace
}  // namespace tutti::cli::explain
