// Jobs of torchrun whose agent has MASTER_PORT.

#include "rendezvous/beside_agent.hpp"

#include <gmock/gmock.h>

#include <poll.h>
#include <sys/socket.h>

#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "os/socket.hpp"
#include "rendezvous/rendezvous.hpp"
#include "settings.hpp"
#include "support/free_port.hpp"
#include "support/relay.hpp"
#include "unit/in_threads.hpp"

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using namespace tutti::rendezvous;

namespace {

using Clock = std::chrono::steady_clock;

/// Takes connections and ends them, as a server of another protocol does that hears ours.
class Foreign {
 public:
  explicit Foreign(std::uint16_t port = 0)
      : listener_(tutti::os::listen_tcp(tutti::os::Address::parse("127.0.0.1", port).value())) {}
  [[nodiscard]] std::uint16_t port() const {
    return tutti::os::local_address(listener_.value().get())->port();
  }

 private:
  const tutti::Result<tutti::os::Fd> listener_;  // or somebody else has the port
  const std::jthread thread_{[this](const std::stop_token& stop) {
    while (listener_ && !stop.stop_requested()) {
      auto ready = tutti::os::wait_ready(listener_.value().get(), POLLIN, Clock::now() + 20ms);
      if (ready && *ready) const auto taken = tutti::os::accept_connection(listener_.value().get());
    }
  }};
};

Settings beside(Variables variables, std::uint16_t port, int rank, int size) {
  variables.insert({{"MASTER_ADDR", "127.0.0.1"},
                    {"MASTER_PORT", std::to_string(port)},
                    {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  return settings_of(job_of(rank, size, std::move(variables)), {}, 20s);
}

std::vector<std::string> meet(std::uint16_t port, const std::string& run, int size) {
  std::vector<std::string> texts;
  tutti::test::in_threads(size, [&](int rank) {
    const auto found = found_by(beside({{"TORCHELASTIC_RUN_ID", run}}, port, rank, size));
    auto all =
        exchange(*found.store, "test", rank, size, run + std::to_string(rank), Clock::now() + 20s);
    ASSERT_TRUE(all) << all.status().message();
    if (rank == 0) texts = *all;
  });
  return texts;
}

TEST(BesideAgent, RanksMeetNextToTheAgentsPort) {
  const Foreign agent;
  // Twice: the store of the first time may still stand for a moment.
  for (const std::string run : {"a", "b"})
    EXPECT_THAT(meet(agent.port(), run, 3), ElementsAre(run + "0", run + "1", run + "2"));
}

TEST(BesideAgent, APortOfAnotherProgramIsPassedOver) {
  const Foreign agent;
  const Foreign neighbour(ports_beside(agent.port()).front());
  EXPECT_THAT(meet(agent.port(), "a", 2), ElementsAre("a0", "a1"));
}

// Another user of the host was first at the port, passes all on to rank 0 and reads along.
TEST(BesideAgent, ARelayIsPassedOverThoughItSaysThatItWasDialled) {
  for (const bool lies : {false, true}) {
    // Beside it the first two ports are free. Nobody need be there.
    const auto agent = static_cast<std::uint16_t>(free_port() - 1);
    const auto ports = ports_beside(agent);
    const auto change = [&, port = ports[1]](std::span<char> bytes, bool to_server) {
      constexpr std::string_view kHello = "tuttist\x01";
      constexpr std::size_t kPortAt = 12;
      if (!lies || !to_server) return;
      if (!std::string_view(bytes.data(), bytes.size()).starts_with(kHello)) return;
      bytes[kPortAt] = static_cast<char>(port & 0xff);
      bytes[kPortAt + 1] = static_cast<char>(port >> 8);
    };
    tutti::test::Relay relay(tutti::os::Address::parse("127.0.0.1", ports[0]).value(),
                             tutti::os::Address::parse("127.0.0.1", ports[1]).value(), change);
    EXPECT_THAT(meet(agent, "a", 3), ElementsAre("a0", "a1", "a2"));
    EXPECT_GT(relay.connections(), 0) << "it was looked at first";
    EXPECT_FALSE(relay.has_heard("a1")) << "what the ranks tell each other";
  }
}

TEST(BesideAgent, TwoJobsWithTheSamePortsAreToldApart) {
  const Foreign agent;
  const std::jthread other(
      [&] { EXPECT_THAT(meet(agent.port(), "a", 3), ElementsAre("a0", "a1", "a2")); });
  EXPECT_THAT(meet(agent.port(), "b", 3), ElementsAre("b0", "b1", "b2"));
}

/// What the two ranks of a job are told, whose other variables are these.
std::vector<std::string> errors_of(Variables of_first, Variables of_second) {
  const auto agent = static_cast<std::uint16_t>(free_port() - 1);
  std::vector<std::string> errors(2);
  tutti::test::in_threads(2, [&](int rank) {
    auto settings = beside(rank == 0 ? of_first : of_second, agent, rank, 2);
    settings.timeout = 1h;
    auto& error = errors[static_cast<std::size_t>(rank)];
    auto found = find_others(settings);
    if (!found) {
      error = message_of(found);
      return;
    }
    error = message_of(exchange(*found->store, kWorldExchange, rank, 2, "", Clock::now() + 1h));
  });
  return errors;
}

TEST(BesideAgent, RanksOfAJobThatDifferAreAnErrorOfAllAtOnce) {
  const Variables insecure = {{"TUTTI_INSECURE", "1"}};
  EXPECT_THAT(errors_of({}, insecure),
              ElementsAre(HasSubstr(", which has no secret, as TUTTI_INSECURE says there; unset it "
                                    "there, or set it for all processes"),
                          HasSubstr("it asks for the job's secret and this process has none")));
  EXPECT_THAT(errors_of(insecure, {}),
              ElementsAre(HasSubstr(", which has a secret, but this process has none, as "
                                    "TUTTI_INSECURE says here; unset it, or set it for all "
                                    "processes"),
                          HasSubstr("it has no secret, as TUTTI_INSECURE says there")));
}

TEST(BesideAgent, ARankThatFindsNobodySaysWhereItHasLooked) {
  const Foreign agent;
  Settings settings = beside({}, agent.port(), 1, 2);
  settings.timeout = 300ms;
  const auto found = find_others(settings);
  EXPECT_EQ(found.status().code(), tutti::Errc::timeout);
  EXPECT_THAT(message_of(found), HasSubstr("beside that of torchrun (the last answer: "));
}

TEST(BesideAgent, OnlyWhereTorchrunSaysSo) {
  const auto job = [](const Variables& variables) {
    return job_of_agent(Environment(lookup_in(variables)));
  };
  EXPECT_FALSE(job({}));
  EXPECT_FALSE(job({{"TORCHELASTIC_USE_AGENT_STORE", "False"}}));
  EXPECT_EQ(job({{"TORCHELASTIC_USE_AGENT_STORE", "True"},
                 {"MASTER_PORT", "29500"},
                 {"TORCHELASTIC_RUN_ID", "x"},
                 {"TORCHELASTIC_RESTART_COUNT", "2"}}),
            "torchrun 29500 x 2");
}

TEST(BesideAgent, PortsStayInTheirRange) {
  EXPECT_THAT(ports_beside(29500),
              ElementsAre(29501, 29502, 29503, 29504, 29505, 29506, 29507, 29508));
  EXPECT_EQ(ports_beside(65530).back(), 65522);
}

}  // namespace
