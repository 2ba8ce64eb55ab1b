// Which processes may join a job: of other users, with other homes, with given secrets or without.

#include <gmock/gmock.h>
#include <grp.h>
#include <sys/stat.h>

#include <csignal>
#include <deque>
#include <map>

#include <tutti/tutti.hpp>

#include "os/host.hpp"
#include "support/free_port.hpp"
#include "support/relay.hpp"
#include "support/stacks.hpp"
#include "support/temporary_folder.hpp"
#include "unit/child.hpp"
#include "unit/os/pipe.hpp"

using testing::AllOf;
using testing::HasSubstr;

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr uid_t kAnother = 54321;
constexpr const char* kAnothersMemory = "/dev/shm/tutti-54321";

struct Start {
  std::string url;
  int rank = 0;
  int size = 2;
  std::optional<std::string> home;  ///< none: not set
  uid_t user = ::getuid();
  std::map<std::string, std::string> variables = {};
  std::chrono::milliseconds timeout = 20s;
};

/// A process of a job, begun at once; `said()` is "joined", "joined authenticated" or its error,
/// with what it has logged behind it.
class Member {
 public:
  explicit Member(const Start& start) {
    pid_ = tutti::test::start_child([&] { run(start, pipe_.write.get()); });
    pipe_.write.reset();
  }
  Member(const Member&) = delete;
  ~Member() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    finish();
  }
  std::string said() {
    std::string text;
    std::array<char, 4096> bytes{};
    pollfd ready{pipe_.read.get(), POLLIN, 0};
    while (::poll(&ready, 1, 60'000) == 1) {
      const ssize_t got = ::read(ready.fd, bytes.data(), bytes.size());
      if (got <= 0) {
        finish();
        return text;
      }
      text.append(bytes.data(), static_cast<std::size_t>(got));
    }
    tutti::test::print_stacks_of_children();
    return "hangs " + text;
  }

 private:
  void finish() {
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  static void run(const Start& start, int out) {
    const auto say = [out](std::string_view text) {
      if (::write(out, text.data(), text.size()) < 0) ::_exit(9);
    };
    if (start.user != ::getuid() &&
        (::setgroups(0, nullptr) != 0 || ::setgid(start.user) != 0 || ::setuid(start.user) != 0))
      ::_exit(8);
    for (const char* const name :
         {"HOME", "XDG_RUNTIME_DIR", "TUTTI_SECRET_FILE", "TUTTI_SECRET_FD"})
      ::unsetenv(name);
    if (start.home) ::setenv("HOME", start.home->c_str(), 1);
    for (const auto& [name, value] : start.variables) ::setenv(name.c_str(), value.c_str(), 1);
    std::string logged;
    tutti::set_log_sink([&](tutti::LogLevel level, std::string_view text) {
      if (level != tutti::LogLevel::debug) logged += "\n" + std::string(text);
    });
    try {
      auto world = tutti::init_process_group({.init_method = start.url,
                                              .rank = start.rank,
                                              .size = start.size,
                                              .timeout = start.timeout});
      std::vector<int> one{1};
      world.all_reduce(one).wait();
      const auto group = world.new_group(std::vector<int>{0, 1});
      const bool child = group ? group.authenticated() : world.authenticated();
      say(one[0] != start.size             ? "wrong sum"
          : world.authenticated() != child ? "a sub group differs"
          : world.authenticated()          ? "joined authenticated"
                                           : "joined");
    } catch (const std::exception& error) {
      say(error.what());
    }
    tutti::set_log_sink({});
    say(logged);
  }

  tutti::test::Pipe pipe_;
  pid_t pid_ = -1;
};

class Trust : public testing::Test {
 protected:
  Trust() {
    EXPECT_EQ(::chmod(root.c_str(), 0755), 0);
    fs::remove_all(kAnothersMemory);
  }
  ~Trust() override { fs::remove_all(kAnothersMemory); }
  [[nodiscard]] std::string home(const std::string& name, uid_t user = ::getuid()) const {
    const std::string path = root + "/" + name;
    fs::create_directory(path);
    EXPECT_EQ(::chown(path.c_str(), user, static_cast<gid_t>(-1)), 0);
    return path;
  }
  /// A secret that is the same for all, in a file of this user.
  [[nodiscard]] std::string secret_file(uid_t user) const {
    const std::string path = folder_.file("secret-" + std::to_string(user), std::string(32, 's'));
    EXPECT_EQ(::chmod(path.c_str(), 0600), 0);
    EXPECT_EQ(::chown(path.c_str(), user, static_cast<gid_t>(-1)), 0);
    return path;
  }
  static bool lacks_another_user() { return ::getuid() != 0; }

  const tutti::test::TemporaryFolder folder_;
  const std::string root = folder_.path();
  const std::string url = "tcp://127.0.0.1:" + std::to_string(free_port());
};

constexpr const char* kNeedsRoot = "only root can run a process of another user";

TEST_F(Trust, AllProcessesOfAUserKnowEachOtherFromTheFirst) {
  const std::string mine = home("mine");
  std::deque<Member> members;
  for (int rank = 0; rank < 4; ++rank)
    members.emplace_back(Start{.url = url, .rank = rank, .size = 4, .home = mine});
  for (Member& member : members) EXPECT_EQ(member.said(), "joined authenticated");
}

TEST_F(Trust, AProcessWithAnotherKeyIsRefusedAndToldWhatDiffers) {
  Member server({.url = url, .rank = 0, .home = home("mine"), .timeout = 3s});
  Member other({.url = url, .rank = 1, .home = home("yours")});
  EXPECT_THAT(
      other.said(),
      AllOf(HasSubstr("another secret"), HasSubstr(root + "/mine/.config/tutti/key"),
            HasSubstr(root + "/yours/.config/tutti/key"), HasSubstr(tutti::os::host_name()),
            HasSubstr("copy the file"), HasSubstr("--secret-file"), HasSubstr("TUTTI_INSECURE=1")));
  EXPECT_THAT(server.said(), AllOf(HasSubstr("rank 1 of 2 has not joined"),
                                   HasSubstr("has refused"), HasSubstr("another secret")));
}

TEST_F(Trust, AnotherUserOfTheHostIsRefused) {
  if (lacks_another_user()) GTEST_SKIP() << kNeedsRoot;
  const std::string mine = home("mine");
  Member server({.url = url, .rank = 0, .home = mine, .timeout = 3s});
  // As under sudo that keeps HOME.
  Member other({.url = url, .rank = 1, .home = mine, .user = kAnother});
  EXPECT_THAT(other.said(), AllOf(HasSubstr(mine + "/.config/tutti/key"),
                                  HasSubstr(std::string(kAnothersMemory) + "/key")));
  EXPECT_THAT(server.said(), HasSubstr("rank 1 of 2 has not joined"));
}

TEST_F(Trust, AUserWithoutAHomeNeedsNothing) {
  if (lacks_another_user()) GTEST_SKIP() << kNeedsRoot;
  Member first({.url = url, .rank = 0, .home = {}, .user = kAnother});
  Member second({.url = url, .rank = 1, .home = "/nonexistent", .user = kAnother});
  for (Member* const one : {&first, &second}) EXPECT_EQ(one->said(), "joined authenticated");
}

TEST_F(Trust, AFolderThatAnotherUserHasMadeFirstKeepsNobodyOut) {
  if (lacks_another_user()) GTEST_SKIP() << kNeedsRoot;
  fs::create_directory(kAnothersMemory);  // root's
  Member refused({.url = url, .rank = 0, .home = {}, .user = kAnother});
  EXPECT_THAT(refused.said(),
              HasSubstr(std::string(kAnothersMemory) + " belongs to user 0, not to user 54321"));
  const std::string session = home("session", kAnother);
  EXPECT_EQ(::chmod(session.c_str(), 0700), 0);
  const std::map<std::string, std::string> variables = {{"XDG_RUNTIME_DIR", session}};
  Member first({.url = url, .rank = 0, .home = {}, .user = kAnother, .variables = variables});
  Member second({.url = url, .rank = 1, .home = {}, .user = kAnother, .variables = variables});
  for (Member* const one : {&first, &second}) EXPECT_EQ(one->said(), "joined authenticated");
}

TEST_F(Trust, TwoUsersShareAJobByAGivenSecret) {
  if (lacks_another_user()) GTEST_SKIP() << kNeedsRoot;
  Member first({.url = url,
                .rank = 0,
                .home = home("mine"),
                .variables = {{"TUTTI_SECRET_FILE", secret_file(::getuid())}}});
  Member second({.url = url,
                 .rank = 1,
                 .home = home("yours", kAnother),
                 .user = kAnother,
                 .variables = {{"TUTTI_SECRET_FILE", secret_file(kAnother)}}});
  for (Member* const one : {&first, &second}) EXPECT_EQ(one->said(), "joined authenticated");
}

TEST_F(Trust, WithoutASecretAnybodyJoinsAndTheLogSaysSo) {
  const std::map<std::string, std::string> insecure = {{"TUTTI_INSECURE", "1"}};
  Member first({.url = url, .rank = 0, .home = home("mine"), .variables = insecure});
  Member second({.url = url, .rank = 1, .home = home("yours"), .variables = insecure});
  EXPECT_THAT(first.said(),
              AllOf(testing::StartsWith("joined\n"),
                    HasSubstr("anybody who reaches this port can join, read and change data")));
  EXPECT_EQ(second.said(), "joined");
}

/// A process of another user that listens at one port, passes all on to the next one and reads
/// along.
class RelayOfAnother {
 public:
  explicit RelayOfAnother(int port) {
    pid_ = tutti::test::start_child([&] {
      go_.write.reset();
      if (::setgroups(0, nullptr) != 0 || ::setgid(kAnother) != 0 || ::setuid(kAnother) != 0)
        ::_exit(8);
      const auto at = [](int one) {
        return tutti::os::Address::parse("127.0.0.1", static_cast<std::uint16_t>(one)).value();
      };
      tutti::test::Relay relay(at(port), at(port + 1));
      char byte = 'l';
      if (::write(listens_.write.get(), &byte, 1) != 1) ::_exit(9);
      (void)!::read(go_.read.get(), &byte, 1);
      ::_exit(relay.connections() == 0 ? 3 : relay.has_heard("host_key") ? 2 : 0);
    });
    char byte = 0;
    EXPECT_EQ(::read(listens_.read.get(), &byte, 1), 1);
  }
  /// 0: it was dialled, and has not heard what ranks tell each other of themselves; 2: it has.
  int end() {
    go_.write.reset();
    return tutti::test::end_of(pid_);
  }

 private:
  tutti::test::Pipe listens_;
  tutti::test::Pipe go_;
  pid_t pid_ = -1;
};

TEST_F(Trust, ARelayOfAnotherUserBesideTorchrunHearsNothing) {
  if (lacks_another_user()) GTEST_SKIP() << kNeedsRoot;
  const std::string mine = home("mine");
  const int port = free_port() - 1;  // of the agent; the first two beside it are free
  RelayOfAnother relay(port + 1);
  const std::map<std::string, std::string> variables = {{"MASTER_ADDR", "127.0.0.1"},
                                                        {"MASTER_PORT", std::to_string(port)},
                                                        {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
  Member first({.url = "env://", .rank = 0, .home = mine, .variables = variables});
  // Only a relay that reaches rank 0 is told of.
  const auto store = tutti::os::Address::parse("127.0.0.1", static_cast<std::uint16_t>(port + 2));
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (!tutti::os::connect_tcp(store.value(), deadline))
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  Member second({.url = "env://", .rank = 1, .home = mine, .variables = variables});
  EXPECT_THAT(first.said(),
              AllOf(testing::StartsWith("joined authenticated"),
                    HasSubstr("was dialled, and the connection has arrived at 127.0.0.1:")));
  EXPECT_EQ(second.said(), "joined authenticated");
  EXPECT_EQ(relay.end(), 0);
}

// As torchrun starts them on two hosts. Its agents would not end the ranks of the first.
TEST_F(Trust, OtherKeysBesideTorchrunAreAnErrorOfAllRanksAtOnce) {
  const std::map<std::string, std::string> variables = {
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", std::to_string(free_port() - 1)},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
  std::deque<Member> members;
  for (const auto& [rank, name] : {std::pair(0, "mine"), {1, "mine"}, {2, "yours"}}) {
    members.emplace_back(Start{.url = "env://",
                               .rank = rank,
                               .size = 3,
                               .home = home(name),
                               .variables = variables,
                               .timeout = 1h});
  }
  EXPECT_THAT(members[2].said(),
              AllOf(testing::StartsWith("rank 2 of 3 cannot join the job: cannot use the store at "
                                        "127.0.0.1:"),
                    HasSubstr("another secret"), HasSubstr(root + "/mine/.config/tutti/key"),
                    HasSubstr(root + "/yours/.config/tutti/key"), HasSubstr("copy the file")));
  for (const int rank : {0, 1}) {
    EXPECT_THAT(members[static_cast<std::size_t>(rank)].said(),
                AllOf(HasSubstr("has refused 127.0.0.1:"),
                      HasSubstr(", which has another secret than this process (" + root +
                                "/mine/.config/tutti/key); it is told what to do")));
  }
}

TEST_F(Trust, AFileOfTheUserIsASecretOfItsOwn) {
  const std::string file = "file://" + root + "/meet";
  Member first({.url = file, .rank = 0, .home = home("mine")});
  Member second({.url = file, .rank = 1, .home = home("yours")});
  for (Member* const one : {&first, &second}) EXPECT_EQ(one->said(), "joined authenticated");
}

}  // namespace
