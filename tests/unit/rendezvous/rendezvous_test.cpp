// The ways to meet that are not env://, and who is who where other launchers started us.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <map>

#include <tutti/log.hpp>

#include "os/handed_memory.hpp"
#include "record/start_watch.hpp"
#include "rendezvous/rendezvous.hpp"
#include "settings.hpp"
#include "store/request_store.hpp"
#include "store/secret.hpp"
#include "store/store_table.hpp"
#include "store/tcp_store.hpp"
#include "support/free_port.hpp"
#include "support/temporary_folder.hpp"
#include "unit/in_threads.hpp"

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using tutti::Errc;
using namespace tutti::rendezvous;

namespace {

using Clock = std::chrono::steady_clock;

/// Rank 0, which serves the store, is late.
TEST(LongWait, ForTheStoreIsLogged) {
  std::vector<std::string> lines;
  tutti::set_log_sink([&](tutti::LogLevel, std::string_view text) { lines.emplace_back(text); });
  tutti::record::StartWatch watch(50ms, true);
  const std::string port = std::to_string(free_port());
  Settings settings =
      settings_of(job_of(1, 2, {{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}}), {}, 1s);
  settings.watch = &watch;
  EXPECT_EQ(find_others(settings).status().code(), Errc::timeout);
  tutti::set_log_sink({});
  ASSERT_FALSE(lines.empty());
  EXPECT_THAT(lines.front(),
              testing::MatchesRegex(
                  "init of rank 1 of 2 has waited for [0-9.]+ s: the store at 127.0.0.1:" + port +
                  " cannot be reached .cannot connect to 127.0.0.1:" + port +
                  ": Connection refused.; look whether rank 0, or tuttirun, runs there. It goes on "
                  "waiting; the next line in [0-9.]+ s"));
}

std::string a_free_port() { return std::to_string(free_port()); }

/// What a rank is told that cannot find the others.
std::string refusal(const Settings& settings, Errc code) {
  const auto found = find_others(settings);
  EXPECT_EQ(found.status().code(), code) << message_of(found);
  return message_of(found);
}

// All ranks as threads: find each other, agree on an address, exchange; the texts of rank 0.
std::vector<std::string> meet(int size, const std::function<Settings(int)>& settings_of_rank) {
  std::vector<std::string> texts;
  std::vector<std::string> secrets(static_cast<std::size_t>(size));
  tutti::test::in_threads(size, [&](int rank) {
    const Settings settings = settings_of_rank(rank);
    const auto found = found_by(settings);
    EXPECT_EQ(found.identity.rank, rank);
    EXPECT_EQ(found.identity.size, size);
    const auto deadline = Clock::now() + 10s;
    auto address =
        our_address(found, settings, [&](const std::string& name, const std::string& mine) {
          return exchange(*found.store, name, rank, size, mine, deadline);
        });
    ASSERT_TRUE(address) << message_of(address);
    auto all = exchange(*found.store, "test", rank, size,
                        std::to_string(rank) + address->told.host(), deadline);
    ASSERT_TRUE(all) << message_of(all);
    for (const std::byte byte : found.identity.secret)
      secrets[static_cast<std::size_t>(rank)] += static_cast<char>(byte);
    if (rank == 0) texts = *all;
  });
  for (const std::string& secret : secrets) EXPECT_EQ(secret, secrets.front());
  return texts;
}

class FileUrl : public testing::Test {
 protected:
  [[nodiscard]] bool there() const { return access(path.c_str(), F_OK) == 0; }
  tutti::test::TemporaryFolder folder_;
  const std::string path = folder_.at("meet").string();
  const std::string url = "file://" + path;
};

TEST_F(FileUrl, MeetsAgainAndAgainAndLeavesNothing) {
  for (int round = 0; round < 4; ++round) {
    const auto texts = meet(3, [&](int rank) { return settings_of(job_of(rank, 3), url); });
    EXPECT_THAT(texts, testing::ElementsAre("0127.0.0.1", "1127.0.0.1", "2127.0.0.1"));
    EXPECT_FALSE(there());
  }
}

TEST_F(FileUrl, AnEmptyFileWillDo) {
  std::ofstream(path).flush();
  const auto texts = meet(2, [&](int rank) {
    return settings_of({}, url + "?world_size=2&rank=" + std::to_string(rank));
  });
  EXPECT_EQ(texts.size(), 2U);
}

TEST_F(FileUrl, SecretsAreDrawnForEachRendezvous) {
  auto one = found_by(settings_of({}, url + "?rank=0&world_size=1"));
  EXPECT_GE(one.identity.secret.size(), 32U);
  const auto first = one.identity.secret;
  const std::uint64_t job = one.identity.job;
  one = {};  // lets it go
  const auto two = found_by(settings_of({}, url + "?rank=0&world_size=1"));
  EXPECT_NE(two.identity.secret, first);
  EXPECT_NE(two.identity.job, job);
}

TEST_F(FileUrl, WhatIsMissingOrWrongIsNamed) {
  EXPECT_THAT(refusal(settings_of({}, url), Errc::invalid_argument),
              AllOf(HasSubstr("file://"), HasSubstr("rank and world_size")));
  EXPECT_THAT(
      refusal(settings_of({{"WORLD_SIZE", "2"}}, url), Errc::invalid_argument),
      HasSubstr("init_method file:// needs rank: give it to init_process_group, behind the URL "
                "(?rank=0&world_size=4) or in RANK and WORLD_SIZE"));
  EXPECT_THAT(refusal(settings_of({}, url + "?rank=2&world_size=2"), Errc::invalid_argument),
              HasSubstr("ranks count from 0 to 1"));
  EXPECT_FALSE(there()) << "nothing was touched";
  EXPECT_THAT(refusal(settings_of({}, "file:///nonexistent/x?rank=0&world_size=1"), Errc::store),
              HasSubstr("/nonexistent/x"));
  std::ofstream(path) << "something else";
  EXPECT_THAT(refusal(settings_of({}, url + "?rank=0&world_size=1"), Errc::store),
              HasSubstr("not the file of a store"));
}

TEST(TcpUrl, MeetsAgainAndAgainOnOnePort) {
  for (const char* const host : {"127.0.0.1", "[::1]", "localhost"}) {
    const std::string port = a_free_port();
    if (host[0] == '[' && !tutti::os::listen_tcp(tutti::os::Address::parse("::1", 0).value()))
      continue;
    for (int round = 0; round < 3; ++round) {
      const auto texts = meet(3, [&](int rank) {
        return settings_of({}, "tcp://" + std::string(host) + ":" + port +
                                   "?world_size=3&rank=" + std::to_string(rank));
      });
      EXPECT_EQ(texts.size(), 3U);
    }
  }
}

/// How long a rank takes that is alone and has 300 ms: the first of some tries that takes less than
/// a second, as a machine may have other things to do; else the last.
Clock::duration time_alone(const std::string& url) {
  auto took = Clock::duration::max();
  for (int tries = 0; tries < 20 && took >= 1s; ++tries) {
    const auto start = Clock::now();
    Settings settings = settings_of({}, url + "?rank=0&world_size=2", 300ms);
    {
      auto found = find_others(settings);
      if (!found) continue;  // not even the store was reached in so short a time
      const auto texts = exchange(*found->store, "x", 0, 2, "mine", start + settings.timeout);
      EXPECT_THAT(message_of(texts),
                  AllOf(HasSubstr("rank 1 of 2 has not joined"), Not(HasSubstr("tutti/"))));
    }
    took = Clock::now() - start;
  }
  return took;
}

TEST_F(FileUrl, WhoHasNotComeInTimeIsWaitedForNoLonger) {
  EXPECT_LT(time_alone(url), 1s) << "the time, and none for good-byes";
  EXPECT_LT(time_alone("tcp://127.0.0.1:" + a_free_port()), 1s);
}

TEST(TcpUrl, ASecondRankZeroIsToldWhatItMayBe) {
  const std::string url = "tcp://127.0.0.1:" + a_free_port() + "?rank=0&world_size=1";
  const auto first = found_by(settings_of({}, url));
  EXPECT_THAT(refusal(settings_of({}, url), Errc::store),
              AllOf(HasSubstr("already in use"), HasSubstr("Was rank 0 given to two processes?")));
}

TEST(TcpUrl, ArgumentsBeatTheUrlAndTheUrlTheEnvironment) {
  Settings settings = settings_of({{"RANK", "junk"}, {"WORLD_SIZE", "7"}, {"MASTER_PORT", "junk"}},
                                  "tcp://127.0.0.1:" + a_free_port() + "?rank=5&world_size=1");
  settings.rank = 0;
  auto found = found_by(settings);
  EXPECT_EQ(found.identity.rank, 0);
  EXPECT_EQ(found.identity.size, 1);
}

TEST(TcpUrl, WhatNoHostHasIsNamed) {
  const auto message = [](const std::string& url) {
    return refusal(settings_of({}, url + "?rank=0&world_size=1"), Errc::invalid_argument);
  };
  EXPECT_THAT(message("tcp://224.0.0.1:80"), HasSubstr("multicast"));
  EXPECT_THAT(message("tcp://[ff02::1]:80"), HasSubstr("multicast"));
  EXPECT_THAT(message("tcp://0.0.0.0:80"), HasSubstr("any address"));
  EXPECT_THAT(refusal(settings_of({}, "tcp://127.0.0.1:80?rank=0"), Errc::invalid_argument),
              AllOf(HasSubstr("tcp://"), HasSubstr("needs world_size")));
  EXPECT_THAT(
      refusal(settings_of({}, "/tmp/x"), Errc::invalid_argument),
      HasSubstr("init_method \"/tmp/x\" is a bare path; write file:///tmp/x; it must be env://"));
}

std::vector<std::byte> secret_of(char letter, std::size_t bytes = 32) {
  return std::vector<std::byte>(bytes, static_cast<std::byte>(letter));
}

TEST(GivenSecret, IsTheJobsWhateverTheEnvironmentSays) {
  const std::string port = a_free_port();
  const auto rank_of = [&](int rank) {
    Settings settings =
        settings_of({{"TUTTI_SECRET_FILE", "/nonexistent/secret"}},
                    "tcp://127.0.0.1:" + port + "?world_size=2&rank=" + std::to_string(rank));
    settings.secret = secret_of('s');
    return settings;
  };
  auto server = found_by(rank_of(0));
  EXPECT_EQ(server.identity.secret, secret_of('s'));
  Settings other = rank_of(1);
  other.secret = secret_of('t');
  EXPECT_THAT(refusal(other, Errc::refused),
              AllOf(HasSubstr("another secret"), Not(HasSubstr("tttt"))));
  const auto right = find_others(rank_of(1));
  EXPECT_TRUE(right) << message_of(right);
}

TEST(GivenSecret, WithAStoreNoneIsDrawn) {
  Settings settings = settings_in(tutti::make_hash_store(), 0, 1);
  settings.secret = secret_of('s');
  settings.tls = true;  // the store cannot tell it to others
  auto found = found_by(settings);
  EXPECT_EQ(found.identity.secret, secret_of('s'));
}

/// As a store of others: what goes through it anybody may read.
class OpenStore final : public tutti::store::RequestStore<tutti::Store> {
 protected:
  tutti::store::Response call(tutti::store::Request request, Deadline /*deadline*/) override {
    return *store_table_.submit(std::move(request), 0, {});
  }

 private:
  tutti::store::StoreTable store_table_;
};

TEST(GivenStore, WhatIsDrawnThereCountsIfTheStoreIsClosed) {
  const auto in = [](std::shared_ptr<tutti::Store> store, Variables variables = {}) {
    const auto found = found_by(settings_in(std::move(store), 0, 1, std::move(variables)));
    EXPECT_GE(found.identity.secret.size(), 32U);
    return found.authenticated;
  };
  EXPECT_TRUE(in(tutti::make_hash_store()));
  EXPECT_TRUE(in(tutti::make_prefix_store("part", tutti::make_tcp_store({.serve = true}))));
  const tutti::store::JobSecret none;
  EXPECT_FALSE(in(tutti::store::join_tcp_store({.serve = true}, none).store));
  EXPECT_FALSE(in(std::make_shared<OpenStore>()));
  EXPECT_FALSE(in(tutti::make_prefix_store("part", std::make_shared<OpenStore>())));
  const auto kept = tutti::store::make_secret();
  const std::string fd = tutti::os::name_handed(kept.value().fd).value();
  EXPECT_TRUE(in(std::make_shared<OpenStore>(), {{"TUTTI_SECRET_FD", fd}}));
}

TEST(SecretFile, TheGroupMayReadWhatBelongsToRoot) {
  if (::getuid() != 0) GTEST_SKIP() << "only root can run a process of another user";
  const std::string path = testing::TempDir() + "tutti_root_" + std::to_string(::getpid());
  std::ofstream(path) << std::string(32, 's');
  ASSERT_EQ(::chmod(path.c_str(), 0440), 0);
  EXPECT_TRUE(tutti::store::read_secret_file(path)) << "Kubernetes mounts them so";
  ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
  EXPECT_FALSE(tutti::store::read_secret_file(path));
  ASSERT_EQ(::chmod(path.c_str(), 0460), 0);
  EXPECT_FALSE(tutti::store::read_secret_file(path)) << "the group may change it";
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  ASSERT_EQ(::chown(path.c_str(), 54321, 54321), 0);
  ASSERT_EQ(::seteuid(54321), 0);
  const auto own = tutti::store::read_secret_file(path);
  EXPECT_EQ(::seteuid(0), 0);
  EXPECT_THAT(message_of(own), HasSubstr("chmod 600"));
  ::unlink(path.c_str());
}

TEST(GivenSecret, OneThatIsTooShortOrTooLongIsRefused) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{31}, std::size_t{4097}}) {
    Settings settings = settings_of({}, "tcp://127.0.0.1:1?world_size=2&rank=0");
    settings.secret = secret_of('s', bytes);
    EXPECT_THAT(refusal(settings, Errc::invalid_argument),
                AllOf(HasSubstr("given to init_process_group"), HasSubstr("32 to 4096"),
                      HasSubstr(bytes > 4096 ? "too many" : std::to_string(bytes) + " bytes"),
                      Not(HasSubstr("sss"))));
  }
}

TEST(GivenStore, Meets) {
  auto store = tutti::make_hash_store();
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(meet(3, [&](int rank) { return settings_in(store, rank, 3); }).size(), 3U);
  }
  Settings settings = settings_of({});
  settings.store = store;
  EXPECT_THAT(message_of(find_others(settings)), HasSubstr("rank and world_size"));
  settings.init_method = "env://";
  EXPECT_THAT(message_of(find_others(settings)), HasSubstr("give one of them"));
}

TEST(GivenStore, OthersMeetUnderANewName) {
  auto store = tutti::make_hash_store();
  const auto meet_as = [&](int size, const std::string& name) {
    return meet(size, [&](int rank) {
      Settings settings = settings_in(store, rank, size);
      settings.job_name = name;
      return settings;
    });
  };
  // Ranks 0 and 1 have made more groups than rank 2, so what each counts for itself differs.
  EXPECT_EQ(meet_as(3, "").size(), 3U);
  EXPECT_EQ(meet_as(2, "").size(), 2U);
  EXPECT_EQ(meet_as(3, "three again").size(), 3U);
  EXPECT_EQ(meet_as(3, "three again").size(), 3U)
      << "the same ranks may do it as often as they like";
  EXPECT_EQ(meet_as(2, "1").size(), 2U) << "a name is no number";
}

TEST(GivenStore, WorldsOfOtherNamesAreOtherJobs) {
  auto store = tutti::make_hash_store();
  std::map<std::uint64_t, std::string> jobs;
  for (const char* const name : {"", "a", "b"}) {
    Settings settings = settings_in(store, 0, 1, {{"TUTTI_JOB", "job"}});
    settings.job_name = name;
    const auto found = found_by(settings);
    jobs.emplace(found.identity.job, name);
  }
  EXPECT_EQ(jobs.size(), 3U);
}

TEST(JobName, ANameThatCannotBeIsRefused) {
  for (const std::string& name : {std::string(129, 'x'), std::string("two\nlines")}) {
    Settings settings = settings_of({}, "tcp://127.0.0.1:1?rank=0&world_size=1");
    settings.job_name = name;
    EXPECT_THAT(refusal(settings, Errc::invalid_argument), HasSubstr("the job name"));
  }
}

TEST(Launchers, TheirVariablesAreUnderstood) {
  for (const auto& [rank, size, local_rank] :
       {std::tuple("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
        {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
        {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"}}) {
    const auto server = tutti::make_tcp_store({.serve = true, .timeout = 5s});
    const auto found = found_by(settings_of({{rank, "1"},
                                             {size, "3"},
                                             {local_rank, "1"},
                                             {"MASTER_ADDR", "127.0.0.1"},
                                             {"MASTER_PORT", std::to_string(server->port())}}));
    EXPECT_EQ(found.identity.rank, 1) << rank;
    EXPECT_EQ(found.identity.size, 3) << rank;
    EXPECT_EQ(found.local_rank, 1) << rank;
  }
}

TEST(Launchers, RankGoesBeforeTheirs) {
  const auto found = found_by(settings_of(job_of(0, 1,
                                                 {{"OMPI_COMM_WORLD_RANK", "junk"},
                                                  {"MASTER_ADDR", "127.0.0.1"},
                                                  {"MASTER_PORT", a_free_port()}})));
  EXPECT_EQ(found.identity.size, 1);
}

TEST(Launchers, OnOneHostNobodyNeedsAMaster) {
  for (int round = 0; round < 2; ++round) {
    const auto texts = meet(3, [&](int rank) {
      return settings_of({{"PMI_RANK", std::to_string(rank)},
                          {"PMI_SIZE", "3"},
                          {"MPI_LOCALNRANKS", "3"},
                          {"PMI_FD", "999"}});
    });
    EXPECT_EQ(texts.size(), 3U);
  }
}

TEST(Launchers, OnSeveralHostsWhatIsMissingIsNamed) {
  const std::vector<Variables> several = {
      {{"OMPI_COMM_WORLD_RANK", "1"},
       {"OMPI_COMM_WORLD_SIZE", "8"},
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}},
      {{"PMI_RANK", "1"}, {"PMI_SIZE", "8"}, {"MPI_LOCALNRANKS", "4"}},
      {{"PMI_RANK", "1"}, {"PMI_SIZE", "8"}, {"PMI_JOBID", "7.0"}, {"SLURM_STEP_NUM_NODES", "2"}},
      {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_NODES", "2"}}};
  for (const Variables& variables : several)
    EXPECT_THAT(
        refusal(settings_of(variables), Errc::invalid_argument),
        AllOf(HasSubstr("several hosts"), HasSubstr("MASTER_ADDR"), HasSubstr("MASTER_PORT")));
}

TEST(Env, RankZeroMayLeaveTheMasterOut) {
  const std::string port = a_free_port();
  const auto texts = meet(3, [&](int rank) {
    Variables variables = job_of(rank, 3, {{"MASTER_PORT", port}});
    if (rank != 0) variables["MASTER_ADDR"] = "127.0.0.1";
    return settings_of(variables);
  });
  EXPECT_EQ(texts.size(), 3U);
}

TEST(Env, AJobWithoutASecretSaysSo) {
  std::vector<std::string> heard;
  tutti::set_log_sink([&](tutti::LogLevel, std::string_view text) { heard.emplace_back(text); });
  const std::string port = a_free_port();
  const auto join = [&](Variables variables) {
    variables["MASTER_PORT"] = port;
    (void)found_by(settings_of(job_of(0, 1, std::move(variables))));
  };
  join({{"MASTER_ADDR", "127.0.0.1"}});
  EXPECT_EQ(heard.size(), 0U) << "there is one always";
  join({{"MASTER_ADDR", "127.0.0.1"}, {"TUTTI_INSECURE", "1"}});
  EXPECT_THAT(heard, testing::ElementsAre(AllOf(
                         HasSubstr("anybody who reaches this port can join, read and change data"),
                         HasSubstr(port))));
  const auto wrong =
      find_others(settings_of(job_of(0, 1, {{"MASTER_PORT", port}, {"TUTTI_INSECURE", "yes"}})));
  EXPECT_THAT(message_of(wrong), HasSubstr("TUTTI_INSECURE is \"yes\", it must be 0, 1 or pickle"));
  tutti::set_log_sink({});
}

TEST(Env, TheStoreMayHaveAPortOfItsOwn) {
  const std::string port = a_free_port();
  const auto env = [](Variables more) {
    more["MASTER_ADDR"] = "127.0.0.1";
    return settings_of(job_of(0, 1, std::move(more)));
  };
  const auto found = found_by(env({{"MASTER_PORT", "1"}, {"TUTTI_STORE_PORT", port}}));
  EXPECT_EQ(std::to_string(found.master_port), port);
  const auto bad = find_others(env({{"TUTTI_STORE_PORT", "0"}}));
  EXPECT_THAT(message_of(bad), HasSubstr("TUTTI_STORE_PORT is 0"));
}

}  // namespace
