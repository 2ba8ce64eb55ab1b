#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "unit/simulation/script.hpp"
#include "unit/simulation/simulation.hpp"

// Random programs of sends and recvs on a simulated network, with collectives between them, with
// and without a rank that dies or a connection that breaks: every operation ends, with the right
// bytes or an error, and its memory is then left alone.
namespace tutti::engine::simulation {
namespace {

using namespace std::chrono_literals;

enum class Mishap : std::uint8_t { none, kill, drop, freeze, leave };

/// One message of the program. Ranks are the group's.
struct Message {
  int group = 0;
  int from = 0;
  int to = 0;
  int tag = 0;
  bool any = false;  ///< its recv is from anybody
  DType dtype = DType::uint8;
  std::size_t count = 0;
  std::uint64_t number = 0;
};

std::vector<std::byte> bytes_of(const Message& message) {
  std::vector<std::byte> bytes(message.count * size_of(message.dtype));
  Random random(message.number * 11 + 7);
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t drawn = random.next();
    std::memcpy(&bytes[at], &drawn, std::min(sizeof(drawn), bytes.size() - at));
  }
  return bytes;
}

struct Call {
  Kind kind = Kind::barrier;
  std::size_t message = 0;
  Group* group = nullptr;
  std::uint64_t ticket = 0;
  std::unique_ptr<Buffer> buffer;
  bool started = false;
  bool ended = false;
  bool ok = false;
  int source = -1;
};

class Program {
 public:
  Program(std::uint64_t seed, Mishap fault)
      : random_(seed * 13 + 1), fault_(fault), setup_(random_setup(random_, seed)) {
    // Ranks of one host have no way for messages in a simulation without other hosts.
    setup_.host_of = numbers(setup_.host_of.size());
    if (setup_.host_of.size() > 3 && random_.chance(50)) setup_.host_of[1] = 0;
    if (fault != Mishap::none && setup_.host_of.size() < 2) setup_.host_of = {0, 1};
    size_ = static_cast<int>(setup_.host_of.size());
    make();
  }

  std::string wrong();
  [[nodiscard]] int good() const noexcept { return good_; }
  [[nodiscard]] int bad() const noexcept { return bad_; }

 private:
  struct Player {
    std::vector<Call> calls;
    std::size_t at = 0;
    std::array<Group*, 2> groups{};
    std::size_t made_at = 0;  ///< the call before which the second group is made
  };
  void make();
  bool act(int rank);
  bool start(int rank, Call& call);
  void check(int rank, Call& call);
  void check_any();
  void strike() {
    struck_ = true;
    switch (fault_) {
      case Mishap::none: break;
      case Mishap::kill: simulation_->kill(victim_); break;
      case Mishap::drop: simulation_->network().drop(victim_, other_, 5ms); break;
      case Mishap::freeze: simulation_->freeze(victim_); break;
      case Mishap::leave:
        leaves_ = true;
        simulation_->leave(victim_);
        break;
    }
    if (fault_ != Mishap::drop) gone_ = victim_;
  }
  Group* group(int rank, int index) {
    Player& player = players_[static_cast<std::size_t>(rank)];
    Group*& group = player.groups[static_cast<std::size_t>(index)];
    if (group != nullptr) return group;
    Result<Group*> made =
        simulation_->engine(rank).add_group({.id = static_cast<std::uint64_t>(index + 1),
                                             .name = index == 0 ? "world" : "some",
                                             .ranks = ranks_[static_cast<std::size_t>(index)],
                                             .timeout = 2s});
    if (!made) {
      complain(std::string(made.status().message()));
      return nullptr;
    }
    return group = *made;
  }
  [[nodiscard]] bool runs(int rank) const { return rank != gone_; }
  [[nodiscard]] bool finished() const {
    return std::ranges::all_of(ranks_[0], [&](int rank) {
      return !runs(rank) || std::ranges::all_of(base::at(players_, rank).calls, &Call::ended);
    });
  }
  [[nodiscard]] std::string name(int rank, const Call& call) const;
  void complain(const std::string& what) {
    if (wrong_.size() < 4000) wrong_ += "\n" + what;
  }

  Random random_;
  Mishap fault_;
  Setup setup_;
  int size_ = 0;
  std::array<std::vector<int>, 2> ranks_;  ///< of each group, global
  std::vector<Message> messages_;
  std::vector<Player> players_;
  std::unique_ptr<Simulation> simulation_;
  int gone_ = -1;  ///< does not run any more
  int victim_ = -1;
  int other_ = -1;
  bool struck_ = false;
  bool leaves_ = false;
  int good_ = 0;
  int bad_ = 0;
  std::string wrong_;
};

void Program::make() {
  ranks_[0] = ranks_[1] = numbers(static_cast<std::size_t>(size_));
  for (std::size_t i = ranks_[1].size(); i-- > 1;)
    std::swap(ranks_[1][i], ranks_[1][random_.below(i + 1)]);
  ranks_[1].resize(1 + random_.below(ranks_[1].size()));
  victim_ = static_cast<int>(random_.below(static_cast<std::uint64_t>(size_)));
  other_ = (victim_ + 1) % size_;

  constexpr std::array kTypes{DType::uint8, DType::float32, DType::int64, DType::complex128};
  const auto draw_shape = [&](Message& message) {
    message.dtype = kTypes[random_.below(kTypes.size())];
    std::size_t bytes = random_.below(100);
    if (random_.chance(20)) bytes = 0;
    if (random_.chance(15)) bytes = 64 * 1024 - 32 + random_.below(64);
    if (random_.chance(10)) bytes = random_.below(300'000);
    if (random_.chance(3)) bytes = 1 << 20;
    message.count = bytes / size_of(message.dtype);
  };
  // Whether a queue of a receiver is received from anybody is the same for all of the queue, and
  // then all its messages are alike.
  std::map<std::array<int, 3>, std::optional<Message>> queues;
  const std::uint64_t most = random_.chance(10) ? 300 : 40;
  for (std::uint64_t n = 1 + random_.below(most); n > 0; --n) {
    Message message;
    message.group = random_.chance(30) ? 1 : 0;
    const auto& ranks = ranks_[static_cast<std::size_t>(message.group)];
    message.from = static_cast<int>(random_.below(ranks.size()));
    message.to = static_cast<int>(random_.below(ranks.size()));
    message.tag = static_cast<int>(random_.below(3));
    draw_shape(message);
    auto [queue, fresh] = queues.try_emplace({message.group, message.to, message.tag});
    if (fresh && random_.chance(30)) queue->second = message;
    if (queue->second) {
      message.any = true;
      message.dtype = queue->second->dtype;
      message.count = queue->second->count;
    }
    message.number = messages_.size() + 1;
    messages_.push_back(message);
  }
  const std::uint64_t barriers = random_.below(5);
  players_.resize(static_cast<std::size_t>(size_));
  for (int rank = 0; rank < size_; ++rank) {
    Player& player = players_[static_cast<std::size_t>(rank)];
    std::vector<Call> sends;
    std::vector<Call> recvs;
    for (std::size_t m = 0; m < messages_.size(); ++m) {
      const Message& message = messages_[m];
      const auto& ranks = ranks_[static_cast<std::size_t>(message.group)];
      if (ranks[static_cast<std::size_t>(message.from)] == rank)
        sends.push_back({.kind = Kind::send, .message = m, .buffer = {}});
      if (ranks[static_cast<std::size_t>(message.to)] == rank)
        recvs.push_back({.kind = Kind::recv, .message = m, .buffer = {}});
    }
    // Sends and recvs are each in the order of the list; how they are mixed is the rank's own.
    std::size_t s = 0;
    std::size_t r = 0;
    const int inclination = static_cast<int>(random_.below(101));
    while (s < sends.size() || r < recvs.size()) {
      const bool send = r == recvs.size() || (s < sends.size() && random_.chance(inclination));
      player.calls.push_back(std::move(send ? sends[s++] : recvs[r++]));
    }
    for (std::uint64_t b = 0; b < barriers; ++b) {
      const auto at = static_cast<std::ptrdiff_t>(random_.below(player.calls.size() + 1));
      player.calls.insert(player.calls.begin() + at, Call());
    }
    player.made_at = random_.below(player.calls.size() + 1);
  }
}

std::string Program::name(int rank, const Call& call) const {
  std::string text = "rank " + std::to_string(rank);
  if (call.kind == Kind::barrier) return text + " barrier";
  const Message& m = messages_[call.message];
  return text + (call.kind == Kind::send ? " send" : " recv") + " of message " +
         std::to_string(call.message) + " (group " + std::to_string(m.group) + ", " +
         std::to_string(m.from) + " to " + std::to_string(m.to) + ", tag " + std::to_string(m.tag) +
         (m.any ? ", any" : "") + ", " + std::to_string(m.count * size_of(m.dtype)) + " bytes)";
}

bool Program::start(int rank, Call& call) {
  const Message& message = messages_.empty() ? Message() : messages_[call.message];
  const int index = call.kind == Kind::barrier ? 0 : message.group;
  call.group = group(rank, index);
  if (call.group == nullptr) return false;
  Collective collective{.kind = call.kind, .timeout = 2s, .input = {}, .output = {}};
  if (call.kind != Kind::barrier) {
    const bool sends = call.kind == Kind::send;
    call.buffer = std::make_unique<Buffer>(random_, message.dtype, message.count);
    if (sends) call.buffer->put(bytes_of(message));
    collective.tag = message.tag;
    collective.root = sends ? message.to : message.any ? any_source : message.from;
    (sends ? collective.input : collective.output) = call.buffer->view();
  }
  call.ticket = simulation_->engine(rank).submit(*call.group, collective);
  call.started = true;
  return true;
}

void Program::check(int rank, Call& call) {
  Engine& engine = simulation_->engine(rank);
  const std::optional<Outcome> outcome = engine.outcome(*call.group, call.ticket);
  if (!outcome) {
    complain(name(rank, call) + ": done without an outcome");
    return;
  }
  call.ended = true;
  call.ok = outcome->ok();
  ++(call.ok ? good_ : bad_);
  if (!call.ok && outcome->message().empty()) complain(name(rank, call) + ": nothing is said");
  // One that left is missed at once, but by those who wait for anybody.
  const bool anybody = std::ranges::any_of(messages_, &Message::any);
  const bool waits = fault_ == Mishap::freeze || (fault_ == Mishap::leave && anybody);
  if (!call.ok && (fault_ == Mishap::none || (outcome->code() == Errc::timeout && !waits)))
    complain(name(rank, call) + ": " + std::string(outcome->message()));
  if (call.buffer != nullptr) {
    const Message& message = messages_[call.message];
    if (call.kind == Kind::send) {
      if (!call.buffer->holds(bytes_of(message))) complain(name(rank, call) + ": was written");
    } else if (call.ok) {
      call.source = engine.received(*call.group, call.ticket).source;
      if (!message.any) {
        if (call.source != message.from) complain(name(rank, call) + ": another source");
        if (!call.buffer->holds(bytes_of(message))) complain(name(rank, call) + ": wrong bytes");
      }
    }
    if (!message.any || call.kind == Kind::send) call.buffer->take_back();
  }
  if (random_.chance(50)) engine.release(*call.group, call.ticket);
}

bool Program::act(int rank) {
  Player& player = players_[static_cast<std::size_t>(rank)];
  if (leaves_ && rank == victim_) return false;
  if (player.at < player.calls.size() && random_.chance(60)) {
    const auto& members = ranks_[1];
    if (player.at == player.made_at && std::count(members.begin(), members.end(), rank) > 0)
      group(rank, 1);
    return start(rank, player.calls[player.at++]);
  }
  if (player.calls.empty()) return false;
  const std::size_t first = random_.below(player.calls.size());
  for (std::size_t i = 0; i < player.calls.size(); ++i) {
    Call& call = player.calls[(first + i) % player.calls.size()];
    if (!call.started || call.ended) continue;
    if (!simulation_->engine(rank).is_done(*call.group, call.ticket)) continue;
    check(rank, call);
    return true;
  }
  return player.at < player.calls.size() && start(rank, player.calls[player.at++]);
}

/// Of a queue that is received from anybody: each message once, those of a source in order.
void Program::check_any() {
  for (int rank = 0; rank < size_; ++rank) {
    if (!runs(rank)) continue;  // it may have received more than it has looked at
    std::map<std::array<int, 4>, std::size_t> taken;  // group, to, tag, source: how many
    for (Call& call : players_[static_cast<std::size_t>(rank)].calls) {
      if (call.kind != Kind::recv || !call.ok) continue;
      const Message& message = messages_[call.message];
      if (!message.any) continue;
      std::size_t skip = taken[{message.group, message.to, message.tag, call.source}]++;
      const auto expected = std::find_if(messages_.begin(), messages_.end(), [&](const Message& m) {
        return m.group == message.group && m.to == message.to && m.tag == message.tag &&
               m.from == call.source && skip-- == 0;
      });
      if (expected == messages_.end())
        complain(name(rank, call) + ": more from " + std::to_string(call.source) + " than it sent");
      else if (!call.buffer->holds(bytes_of(*expected)))
        complain(name(rank, call) + ": wrong bytes from " + std::to_string(call.source));
      call.buffer->take_back();
    }
  }
}

std::string Program::wrong() {
  simulation_ = std::make_unique<Simulation>(setup_);
  for (int rank = 0; rank < size_; ++rank) group(rank, 0);
  const auto strike_after = static_cast<std::uint64_t>(random_.below(60 * messages_.size() + 200));
  const auto done = [&] {
    if (fault_ != Mishap::none && !struck_ && simulation_->steps() >= strike_after) strike();
    return finished();
  };
  const bool ended =
      simulation_->run([&](int rank) { return act(rank); }, done, Simulation::now() + 20s);
  if (!ended) {
    complain("not finished");
    for (int rank = 0; rank < size_; ++rank) {
      for (const Call& call : players_[static_cast<std::size_t>(rank)].calls) {
        if (runs(rank) && call.started && !call.ended) complain("  waits: " + name(rank, call));
      }
    }
  }
  if (fault_ == Mishap::none || ended) check_any();
  // Everything comes to rest; what has ended is left alone.
  const TimePoint later = Simulation::now() + 50ms;
  (void)simulation_->run_engines([&] { return Simulation::now() >= later; }, later + 100ms);
  for (int rank = 0; rank < size_; ++rank) {
    for (const Call& call : players_[static_cast<std::size_t>(rank)].calls) {
      const bool any = call.kind == Kind::recv && messages_[call.message].any;
      if (call.ended && call.buffer != nullptr && !any && !call.buffer->left_alone())
        complain(name(rank, call) + ": written after its end");
    }
  }
  if (simulation_->network().violations() > 0) complain("a connection was dropped by its receiver");
  if (!wrong_.empty()) wrong_ += describe(setup_);
  return wrong_;
}

TEST(EngineMessages, EveryMessageArrivesWhereItBelongs) {
  int good = 0;
  for_each_seed(150, [&](std::uint64_t seed) {
    Program program(seed, Mishap::none);
    std::string wrong = program.wrong();
    good += program.good();
    return wrong;
  });
  EXPECT_GT(good, 0);
}

class EngineMessagesFault : public testing::TestWithParam<int> {};
std::string name_of_fault(const testing::TestParamInfo<int>& info) {
  constexpr std::array kNames{"None", "Kill", "Drop", "Freeze", "Leave"};
  return kNames[static_cast<std::size_t>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Faults, EngineMessagesFault, testing::Values(1, 2, 3, 4), name_of_fault);

TEST_P(EngineMessagesFault, EveryOperationEnds) {
  int good = 0;
  int bad = 0;
  for_each_seed(50, [&](std::uint64_t seed) {
    Program program(seed, static_cast<Mishap>(GetParam()));
    std::string wrong = program.wrong();
    good += program.good();
    bad += program.bad();
    return wrong;
  });
  if (std::getenv("TUTTI_SEED") == nullptr) {
    EXPECT_GT(good, 0);
    EXPECT_GT(bad, 0);
  }
}

// A CTS would take two context switches there.
TEST(EngineMessages, LargeOnesAskNobodyWhereRanksTakeTurns) {
  for (const int cpus : {1, 2}) {
    simulation::Setup setup;
    setup.seed = 1;
    setup.host_of = {0, 0};
    setup.cpus = cpus;
    Simulation simulation(setup);
    const GroupSpec world{.id = 1, .name = "world", .ranks = {0, 1}, .timeout = 5s};
    simulation.add_group(1, world);
    Group& group = *simulation.add_group(0, world);
    std::vector<std::uint8_t> bytes(300'000, 7);
    Collective send{.kind = Kind::send, .root = 1, .input = TensorView(bytes), .output = {}};
    send.timeout = 5s;
    Engine& engine = simulation.engine(0);
    const std::uint64_t ticket = engine.submit(group, send);
    const bool sent = simulation.run_engines([&] { return engine.is_done(group, ticket); },
                                             Simulation::now() + 1s);
    EXPECT_EQ(sent, cpus == 1) << cpus << " CPUs";
    EXPECT_EQ(engine.outcome(group, ticket).value_or(Outcome()).message(), "");
  }
}

// A rank that was killed had received the message and not looked at it.
TEST(EngineMessages, SeedsThatHaveFailed) { EXPECT_EQ(Program(1216, Mishap::kill).wrong(), ""); }

}  // namespace
}  // namespace tutti::engine::simulation
