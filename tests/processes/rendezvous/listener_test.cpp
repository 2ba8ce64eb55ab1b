// A listener on the path between the ranks, who then tries to join with what it has read.

#include <cstring>
#include <set>

#include <tutti/tutti.hpp>

#include "processes/fault/network.hpp"
#include "secure/handshake.hpp"
#include "support/packet_capture.hpp"
#include "unit/child.hpp"
#include "unit/store/served.hpp"

namespace tutti::fault {
namespace {

using namespace std::chrono_literals;

constexpr int kRanks = 3;
constexpr std::size_t kDrawnLetters = 64;
constexpr std::size_t kNameLetters = 16;  // of these, the ones that name the job

/// Makes the store in which the ranks meet.
using StoreOf = std::shared_ptr<Store> (*)(int rank, std::uint16_t port);

std::shared_ptr<Store> tcp_store(int rank, std::uint16_t port) {
  return make_tcp_store({.port = port, .serve = rank == 0, .timeout = 20s});
}
std::shared_ptr<Store> part_of_a_tcp_store(int rank, std::uint16_t port) {
  return make_prefix_store("part", tcp_store(rank, port));
}
std::shared_ptr<Store> insecure_store(int rank, std::uint16_t port) {
  ::setenv("TUTTI_INSECURE", "1", 1);
  return tcp_store(rank, port);
}

/// A rank that meets the others in this store over TCP, talks with rank 0 if it is rank 1, and
/// stays until it is told to go. Says 'a' for an authenticated world, 'n' for one that is not.
[[noreturn]] void run_rank(int rank, StoreOf store_of, std::uint16_t port, int out, int in) {
  Config config;
  config.transport = Config::TransportChoice::tcp;
  config.backend = "native";
  if (rank == 0) config.port = port + 1;
  auto world = init_process_group({.store = store_of(rank, port),
                                   .rank = rank,
                                   .size = kRanks,
                                   .timeout = 20s,
                                   .config = config});
  std::vector<int> word{7};
  if (rank == 1) world.send(word, 0);
  if (rank == 0) (void)world.recv(word, 1);
  const char said = world.authenticated() ? 'a' : 'n';
  if (::write(out, &said, 1) != 1) ::_exit(1);
  char byte = 0;
  while (::read(in, &byte, 1) < 0) continue;
  ::_exit(0);
}

/// All texts of so many hexadecimal letters, as a secret is drawn.
std::set<std::string> drawn_in(const std::string& bytes) {
  std::set<std::string> found;
  std::size_t begin = 0;
  for (std::size_t at = 0; at <= bytes.size(); ++at) {
    if (at < bytes.size() && std::strchr("0123456789abcdef", bytes[at]) != nullptr &&
        bytes[at] != '\0')
      continue;
    if (at - begin == kDrawnLetters) found.insert(bytes.substr(begin, kDrawnLetters));
    begin = at + 1;
  }
  return found;
}

/// Dials rank 0 as rank 2, which has not dialled it, with the words of rank 1's hello and this
/// secret. The text is that of the refusal; empty: it is in.
std::string join_as_rank_2(const std::string& hello, std::vector<std::byte> secret,
                           std::uint16_t port) {
  secure::Party party;
  party.identity.rank = 2;
  party.identity.size = kRanks;
  std::memcpy(&party.identity.job, hello.data() + 16, sizeof party.identity.job);
  std::memcpy(&party.identity.generation, hello.data() + 24, sizeof party.identity.generation);
  party.identity.secret = std::move(secret);
  const auto address = os::Address::parse("127.0.0.1", port).value();
  const os::Fd fd = os::connect_tcp(address, Clock::now() + 10s).value();
  auto handshake = secure::Handshake::dialler(party, 0, secure::Nonce{}, address);
  if (!store::talk(fd, handshake)) return "it hung up";
  if (handshake.state() == secure::Handshake::State::accepted) return "";
  return std::string(handshake.failure().message());
}

struct Attempt {
  bool authenticated = true;
  std::size_t tried = 0;
  std::vector<std::string> refusals;  ///< of those that did not get in
};

/// What a listener gets who has heard all packets of a job whose ranks meet in this store.
void listen_and_join(StoreOf store_of, Attempt& outcome) {
  if (!in_network_namespace()) GTEST_SKIP() << kNoNamespaces;
  const auto capture = test::PacketCapture::start();
  if (capture == nullptr) GTEST_SKIP() << "packets cannot be captured here";
  const auto port = static_cast<std::uint16_t>(free_port());
  test::Pipe said;
  test::Pipe go;
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.push_back(test::start_child([&] {
      go.write.reset();
      run_rank(rank, store_of, port, said.write.get(), go.read.get());
    }));
  }
  said.write.reset();
  for (int rank = 0; rank < kRanks; ++rank) {
    char word = 0;
    ASSERT_EQ(::read(said.read.get(), &word, 1), 1) << "a rank has not joined";
    outcome.authenticated = outcome.authenticated && word == 'a';
  }
  capture->stop();
  EXPECT_EQ(capture->dropped(), 0U);
  const std::string& heard = capture->all();
  const std::size_t hello = heard.find("tuttitr\x01");
  ASSERT_NE(hello, std::string::npos) << "rank 1 has dialled rank 0";
  for (const std::string& drawn : drawn_in(heard)) {
    const std::string rest = drawn.substr(kNameLetters);
    const auto bytes = std::as_bytes(std::span(rest));
    ++outcome.tried;
    const std::string why =
        join_as_rank_2(heard.substr(hello, secure::kHelloBytes), {bytes.begin(), bytes.end()},
                       static_cast<std::uint16_t>(port + 1));
    if (!why.empty()) outcome.refusals.push_back(why);
  }
  go.write.reset();
  for (const pid_t rank : ranks) EXPECT_EQ(test::end_of(rank), 0);
}

TEST(Listener, DoesNotJoinByWhatRanksDrawInAStoreOfTheProgram) {
  for (const StoreOf store : {tcp_store, part_of_a_tcp_store}) {
    Attempt outcome;
    listen_and_join(store, outcome);
    if (IsSkipped() || HasFatalFailure()) return;
    EXPECT_TRUE(outcome.authenticated);
    EXPECT_GT(outcome.tried, 0U) << "what is drawn is heard";
    EXPECT_EQ(outcome.refusals.size(), outcome.tried) << "a listener has joined as a rank";
    EXPECT_THAT(outcome.refusals, testing::Each(testing::HasSubstr("another secret")));
  }
}

// The same way in, where nothing is promised: the listener of this test can do what it tries.
TEST(Listener, JoinsWhereAStoreHasNoSecretAndTheWorldSaysSo) {
  Attempt outcome;
  listen_and_join(insecure_store, outcome);
  if (IsSkipped() || HasFatalFailure()) return;
  EXPECT_FALSE(outcome.authenticated);
  EXPECT_LT(outcome.refusals.size(), outcome.tried);
}

// Another user of the host may dial them, too.
TEST(Listener, RanksThatAreThreadsHaveASecretOverTcp) {
  if (!in_network_namespace()) GTEST_SKIP() << kNoNamespaces;
  const auto capture = test::PacketCapture::start();
  if (capture == nullptr) GTEST_SKIP() << "packets cannot be captured here";
  Config config;
  config.transport = Config::TransportChoice::tcp;
  config.backend = "native";
  const auto talk = [](ProcessGroup& world) {
    std::vector<int> one{1};
    world.all_reduce(one).wait();
  };
  run_threads(2, talk, config);
  capture->stop();
  const std::size_t hello = capture->all().find("tuttitr\x01");
  ASSERT_NE(hello, std::string::npos);
  constexpr std::size_t kFlagsAt = 10;
  EXPECT_EQ(capture->all()[hello + kFlagsAt] & 1, 1) << "the flag of a secret";
}

}  // namespace
}  // namespace tutti::fault
