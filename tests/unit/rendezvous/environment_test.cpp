#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include <tutti/init.hpp>

#include "os/fd.hpp"
#include "os/handed_memory.hpp"
#include "os/socket.hpp"
#include "rendezvous/environment.hpp"
#include "rendezvous/rendezvous.hpp"
#include "settings.hpp"
#include "store/secret.hpp"
#include "support/free_port.hpp"
#include "support/temporary_folder.hpp"
#include "unit/in_threads.hpp"

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using tutti::Errc;
using namespace tutti::rendezvous;

namespace {

Variables good(int rank = 0, int size = 1, int port = free_port()) {
  return job_of(rank, size,
                {{"LOCAL_RANK", std::to_string(rank)},
                 {"MASTER_ADDR", "127.0.0.1"},
                 {"MASTER_PORT", std::to_string(port)}});
}

/// The rendezvous of a rank whose environment is right.
Rendezvous found_in(const Variables& variables) {
  auto result = from_env(settings_of(variables));
  EXPECT_TRUE(result) << message_of(result);
  return result ? std::move(result).value() : Rendezvous();
}

Variables with(const char* name, const std::string& value, Variables variables = good()) {
  variables[name] = value;
  return variables;
}

Variables with_fd(const tutti::os::Fd& secret, Variables variables = good()) {
  return with("TUTTI_SECRET_FD", tutti::os::name_handed(secret).value(), std::move(variables));
}

TEST(FromEnv, OneRankServesItself) {
  const auto result = found_in(good());
  EXPECT_EQ(result.identity.rank, 0);
  EXPECT_EQ(result.identity.size, 1);
  EXPECT_EQ(result.master_addr, "127.0.0.1");
  EXPECT_EQ(result.identity.secret, tutti::job_secret()) << "the user's own key";
  EXPECT_TRUE(result.authenticated);
  result.store->set("k", "v");
  EXPECT_EQ(result.store->get("k"), "v");
}

TEST(FromEnv, WhatIsMissingIsNamed) {
  auto nothing = from_env(settings_of({}));
  EXPECT_EQ(nothing.status().code(), Errc::invalid_argument);
  EXPECT_THAT(message_of(nothing),
              HasSubstr("RANK, WORLD_SIZE, MASTER_PORT, MASTER_ADDR are not set; start the program "
                        "with tuttirun, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"));
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    Variables variables = good(1, 2);
    variables.erase(name);
    auto result = from_env(settings_of(variables));
    EXPECT_EQ(result.status().code(), Errc::invalid_argument);
    EXPECT_THAT(message_of(result), HasSubstr(std::string(name) + " is not set"));
  }
}

TEST(FromEnv, WithALaunchersStoreRankZeroNeedsTheMasterToo) {
  Variables variables = with("TUTTI_AGENT_STORE", "1");
  variables.erase("MASTER_ADDR");
  EXPECT_THAT(message_of(from_env(settings_of(variables))), HasSubstr("MASTER_ADDR is not set"));
}

TEST(FromEnv, SenselessValuesAreNamed) {
  const std::vector<std::tuple<const char*, const char*, std::vector<const char*>>> cases = {
      {"RANK", "\"x7\"", {"x7"}},
      {"RANK",
       "whole number",
       {"", " ", "1.5", "+0", "0x0", "0 1", "0\u00a0", "1_0", "99999999999"}},
      {"RANK", "ranks count from 0", {"-1"}},
      {"RANK", "RANK is 1 and WORLD_SIZE 1", {"1"}},
      {"WORLD_SIZE", "at least 1", {"0", "-4"}},
      {"LOCAL_RANK", "LOCAL_RANK", {"-1", "a"}},
      {"MASTER_PORT", "ports are 1 to 65535", {"0", "65536"}},
      {"MASTER_PORT", "whole number", {"http"}},
      {"MASTER_ADDR", "empty", {""}},
      {"MASTER_ADDR", "multicast", {"224.0.0.1", "ff02::1"}},
      {"MASTER_ADDR", "broadcast", {"255.255.255.255"}},
      {"MASTER_ADDR", "any address", {"0.0.0.0", "::"}},
      {"MASTER_ADDR", "not an address or a host name", {"two words", "http://host"}},
      {"TUTTI_AGENT_STORE", "0 or 1", {"yes"}},
      {"TUTTI_SECRET_FD",
       "DESCRIPTOR:INODE:PROCESS",
       {"memfd", "7", "-1:2:3", "7:2", "7:2:3x", "7:2:0", "7:2:3:4", "7::3"}},
      {"TUTTI_SECRET_FD", "descriptor 987654 of this process is not open", {"987654:2:3"}},
      {"TUTTI_SECRET_FILE", "/nonexistent/secret", {"/nonexistent/secret"}},
  };
  for (const auto& [name, expected, values] : cases) {
    for (const char* const value : values) {
      auto result = from_env(settings_of(with(name, value)));
      EXPECT_EQ(result.status().code(), Errc::invalid_argument) << name << "=" << value;
      EXPECT_THAT(message_of(result), HasSubstr(expected)) << name << "=" << value;
    }
  }
}

// As YAML (`RANK: "0\n"`) and the `read` of shells leave them.
TEST(FromEnv, BlanksAroundNumbersAreTaken) {
  for (const std::string blanks : {" ", "\n", "\t", "\r\n", "\v", "\f"}) {
    Variables variables = good(1, 2);
    for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_PORT"})
      variables[name] = blanks + variables[name] + blanks;
    variables["LOCAL_RANK"] = "1" + blanks;
    variables["TUTTI_AGENT_STORE"] = "0" + blanks;
    EXPECT_EQ(from_env(settings_of(variables, {}, 1ms)).status().code(), Errc::timeout)
        << testing::PrintToString(blanks) << ": nobody serves there";
  }
  const Environment slurm(
      lookup_in({{"SLURM_PROCID", " 3"}, {"SLURM_NTASKS", "4\n"}, {"SLURM_STEP_NUM_NODES", "1 "}}));
  Place place;
  EXPECT_TRUE(complete(place, slurm).ok());
  EXPECT_EQ(place.rank, 3);
  EXPECT_EQ(place.local_size, 4);
}

TEST(FromEnv, AnEmptyVariableOfOursCountsAsNotSet) {
  Variables variables = good();
  for (const char* name :
       {"TUTTI_AGENT_STORE", "TUTTI_SECRET_FD", "TUTTI_SECRET_FILE", "TUTTI_INSECURE"})
    variables[name] = "";
  EXPECT_EQ(found_in(variables).identity.secret, tutti::job_secret());
}

TEST(FromEnv, ArgumentsBeatTheEnvironment) {
  Settings settings = settings_of({{"RANK", "junk"}, {"WORLD_SIZE", "7"}, {"MASTER_PORT", "0"}});
  settings.rank = 0;
  settings.size = 1;
  settings.local_rank = 3;
  settings.master_addr = "localhost";
  settings.master_port = free_port();
  const auto result = found_by(settings);
  EXPECT_EQ(result.identity.size, 1);
  EXPECT_EQ(result.local_rank, 3);
}

TEST(FromEnv, NobodyServesIsATimeoutThatSaysWhere) {
  auto result = from_env(settings_of(good(1, 2), {}, 150ms));
  EXPECT_EQ(result.status().code(), Errc::timeout);
  EXPECT_THAT(message_of(result),
              AllOf(HasSubstr("127.0.0.1:"), HasSubstr("rank 1 of 2"),
                    ContainsRegex("within [0-9]+\\.[0-9] s"), HasSubstr("refused")));
}

TEST(FromEnv, ASecretFileIsCheckedAndUsed) {
  const tutti::test::TemporaryFolder folder;
  const auto with_file = [&](std::size_t bytes, mode_t mode) {
    const std::string path = folder.file("secret", std::string(bytes, 's'));
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return from_env(settings_of(with("TUTTI_SECRET_FILE", path)));
  };
  EXPECT_THAT(message_of(with_file(32, 0644)), AllOf(HasSubstr("0644"), HasSubstr("chmod 600")));
  EXPECT_THAT(message_of(with_file(31, 0600)),
              AllOf(HasSubstr("holds 31 bytes"), HasSubstr("32 to 4096")));
  EXPECT_THAT(message_of(with_file(5, 0600)), HasSubstr("holds 5 bytes"));
  EXPECT_THAT(message_of(with_file(5000, 0600)), HasSubstr("too many bytes"));
  const auto right = with_file(32, 0600);
  ASSERT_TRUE(right) << message_of(right);
  EXPECT_EQ(right.value().identity.secret, std::vector<std::byte>(32, std::byte{'s'}));
}

TEST(FromEnv, ASecretDescriptorServesAllRanks) {
  const auto made = tutti::store::make_secret();
  ASSERT_TRUE(made);
  const int port = free_port();
  std::vector<Rendezvous> results(3);
  tutti::test::in_threads(3, [&](int rank) {
    results[static_cast<std::size_t>(rank)] =
        found_in(with_fd(made.value().fd, good(rank, 3, port)));
  });
  for (const auto& result : results) EXPECT_EQ(result.identity.secret, made.value().secret);
}

TEST(FromEnv, OnlyMemoryThatALauncherHasSealedIsASecret) {
  const auto refusal_of = [](const tutti::os::Fd& fd) {
    return message_of(from_env(settings_of(with_fd(fd))));
  };
  const tutti::test::TemporaryFolder folder;
  const std::string path = folder.file("no_memfd", std::string(32, 's'));
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  const tutti::os::Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(refusal_of(file), HasSubstr("is another file"));

  const auto memory = [](int seals, mode_t mode, uid_t owner = geteuid()) {
    tutti::os::Fd fd(memfd_create("secret", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(write(fd.get(), std::string(32, 's').data(), 32), 32);
    EXPECT_EQ(fchmod(fd.get(), mode), 0);
    EXPECT_EQ(fchown(fd.get(), owner, static_cast<gid_t>(-1)), 0);
    EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
    return fd;
  };
  constexpr int kAll = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  const char* const kNotSealed = "not memory that a launcher has sealed and closed to others";
  EXPECT_EQ(refusal_of(memory(kAll, 0400)), "");
  EXPECT_THAT(refusal_of(memory(kAll & ~F_SEAL_WRITE, 0400)), HasSubstr(kNotSealed));
  EXPECT_THAT(refusal_of(memory(kAll, 0444)), HasSubstr(kNotSealed));
  EXPECT_THAT(refusal_of(memory(0, 0400)), HasSubstr("is another file"));
  if (geteuid() == 0) {
    EXPECT_THAT(refusal_of(memory(kAll, 0400, 54321)), HasSubstr("belongs to another user"));
  }
}

TEST(FromEnv, AnotherSecretIsRefusedAtOnce) {
  const auto one = tutti::store::make_secret();
  const auto other = tutti::store::make_secret();
  ASSERT_TRUE(one && other);
  const int port = free_port();
  const auto rank0 = found_in(with_fd(one.value().fd, good(0, 2, port)));

  Variables client = good(1, 2, port);
  const auto refusal = [&] {
    const auto result = from_env(settings_of(client));
    EXPECT_EQ(result.status().code(), Errc::refused);
    return message_of(result);
  };
  EXPECT_THAT(refusal(), AllOf(HasSubstr("a given secret"), HasSubstr("/.config/tutti/key")));
  client["TUTTI_INSECURE"] = "1";
  EXPECT_THAT(refusal(), HasSubstr("asks for the job's secret"));
  client = with_fd(other.value().fd, client);
  EXPECT_THAT(refusal(), HasSubstr("another secret"));
}

TEST(FromEnv, AgentStoreMakesEveryRankAClient) {
  auto agent = tutti::make_tcp_store({.serve = true, .timeout = 10s});
  const Variables variables = with("TUTTI_AGENT_STORE", "1", good(0, 1, agent->port()));
  for (int round = 1; round <= 3; ++round) {
    const auto result = found_in(variables);
    EXPECT_EQ(result.identity.generation, static_cast<std::uint64_t>(round));
    EXPECT_FALSE(result.store->check("k")) << "keys of an earlier group show";
    result.store->set("k", "v");
  }
}

TEST(FromEnv, WorksAgainOnTheSamePort) {
  const int port = free_port();
  tutti::test::in_threads(3, [&](int rank) {
    for (int round = 1; round <= 5; ++round) {
      const auto result = found_in(good(rank, 3, port));
      EXPECT_EQ(result.identity.generation, static_cast<std::uint64_t>(round));
      const auto blob = [&](int of) { return std::to_string(round * 10 + of); };
      auto blobs = exchange(*result.store, "init", rank, 3, blob(rank),
                            std::chrono::steady_clock::now() + 10s);
      ASSERT_TRUE(blobs) << message_of(blobs);
      EXPECT_THAT(blobs.value(), testing::ElementsAre(blob(0), blob(1), blob(2)));
    }
  });
}

}  // namespace
