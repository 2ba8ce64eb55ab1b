// The TCP store where its connections are encrypted.

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "served.hpp"
#include "unit/group/error_text.hpp"
#include "unit/in_threads.hpp"

using namespace std::chrono_literals;
using testing::HasSubstr;
using tutti::Errc;
using tutti::TcpStore;
using namespace tutti::store;

namespace os = tutti::os;

namespace {

using Secret = std::vector<std::byte>;

const Secret kSecret(32, std::byte{7});
const Secret kOther(32, std::byte{8});

TcpServerOptions encrypted(std::chrono::milliseconds hello_timeout = 5s) {
  return {.address = loopback(),
          .identity = {.job = kUnnamedJob, .secret = kSecret},
          .encrypt = true,
          .hello_timeout = hello_timeout};
}

std::shared_ptr<TcpStore> join(const TcpServer& server, const Secret& secret = kSecret,
                               bool encrypt = true) {
  return join_tcp_store({.port = server.address().port(), .timeout = 60s, .encrypt = encrypt},
                        {secret, std::string(kGivenSecret)})
      .store;
}

template <class Call>
std::string refusal_of(Call&& call) {
  const auto start = Clock::now();
  const std::string text = tutti::test::text_of<tutti::NetworkError>(call);
  EXPECT_LT(Clock::now() - start, 5s) << "tried for long what cannot help";
  return text;
}

TEST(TlsStore, NamesWhatDiffers) {
  const auto server = serve(encrypted());
  EXPECT_THAT(refusal_of([&] { join(*server, kSecret, false); }),
              HasSubstr("it encrypts its connections and this process does not"));
  EXPECT_THAT(refusal_of([&] { join(*server, kOther); }), HasSubstr("it has another secret"));
  TcpServerOptions options = encrypted();
  options.encrypt = false;
  const auto plain = serve(options);
  EXPECT_THAT(refusal_of([&] { join(*plain); }),
              HasSubstr("it does not encrypt its connections, but this process does"));
  options.identity.secret = {};
  const auto open = serve(options);
  EXPECT_THAT(refusal_of([&] { join(*open); }), HasSubstr("it has no secret"));
}

TEST(TlsStore, NeedsASecret) {
  EXPECT_THROW(join_tcp_store({.serve = true, .encrypt = true}, {}), tutti::InvalidArgument);
  EXPECT_THROW(join_tcp_store({.port = 1, .encrypt = true}, {}), tutti::InvalidArgument);
  TcpServerOptions options = encrypted();
  options.identity.secret = {};
  EXPECT_EQ(TcpServer::start(options).status().code(), Errc::invalid_argument);
}

TEST(TlsStore, CarriesMuchForManyThreadsOfOneUser) {
  const auto server = serve(encrypted());
  const auto store = join(*server);
  // More than the server keeps unread before it stops reading requests.
  const std::string large(std::size_t{9} << 20, 'x');
  store->set("large", large);
  tutti::test::in_threads(10, [&](int t) {
    const std::string mine = "of " + std::to_string(t);
    EXPECT_TRUE(store->get("large", 60s) == large);
    for (int i = 0; i < 50; ++i) {
      store->set(mine, std::string(static_cast<std::size_t>(i * 1000), 'y'));
      EXPECT_EQ(store->get(mine).size(), static_cast<std::size_t>(i * 1000));
    }
  });
}

TEST(TlsStore, SetsTheWillOfAUserThatIsLost) {
  const auto server = serve(encrypted());
  const auto witness = join(*server);
  const Request first = request(Op::set_will, {"lost"}, {"with the first word"});
  auto client = TcpClient::connect({"127.0.0.1", server->address().port()},
                                   store_party({.job = kUnnamedJob, .secret = kSecret}, true),
                                   Clock::now() + 10s, &first);
  ASSERT_TRUE(client) << client.status().message();
  client.value().reset();  // no good-bye
  EXPECT_EQ(witness->get("lost", 5s), "with the first word");
}

/// A user that has proven himself, and with whom TLS does not begin.
os::Fd half_open(const TcpServer& server) {
  auto [fd, handshake] =
      dial_unproven(server, store_party({.job = kUnnamedJob, .secret = kSecret}, true));
  EXPECT_TRUE(handshake.wants_encryption());
  EXPECT_TRUE(say(fd, handshake));
  return std::move(fd);
}

TEST(TlsStore, DropsWhoDoesNotBeginInTime) {
  const auto server = serve(encrypted(300ms));
  const auto store = join(*server);
  const os::Fd silent = half_open(*server);
  EXPECT_TRUE(hung_up(silent, 5s));
  store->set("still", "served");
  EXPECT_EQ(join(*server)->get("still"), "served");
}

TEST(TlsStore, DropsWhoSpeaksSomethingElse) {
  const auto server = serve(encrypted(60s));
  const auto store = join(*server);
  for (const std::string word : {"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\xff\xff", "tuttist"}) {
    const os::Fd connection = half_open(*server);
    std::string text = word;
    text.resize(2000, 'z');
    EXPECT_TRUE(os::send_all(connection.get(), std::as_bytes(std::span(text)), Clock::now() + 5s));
    EXPECT_TRUE(hung_up(connection, 5s)) << word;
  }
  store->set("still", "served");
  EXPECT_EQ(store->get("still"), "served");
}

TEST(TlsStore, KeepsAtMostSoManyWithWhomTlsDoesNotBegin) {
  TcpServerOptions options = encrypted(60s);
  options.max_pending = 8;
  options.timeout_when_full = 60s;
  const auto server = serve(options);
  std::vector<os::Fd> pending;
  for (int i = 0; i < 8; ++i) pending.push_back(half_open(*server));
  for (int i = 0; i < 22; ++i) pending.push_back(dial(*server));
  for (const os::Fd& connection : pending) EXPECT_FALSE(hung_up(connection, 1ms));
  pending.clear();
  join(*server)->set("still", "served");
}

}  // namespace
