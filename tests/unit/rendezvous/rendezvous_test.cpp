// The ways to meet that are not env://, and who is who where other launchers started us.

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <set>

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
#include "unit/child.hpp"
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
const std::string kOneAlone = "?rank=0&world_size=1";

/// What a rank is told that cannot find the others.
std::string refusal(const Settings& settings, Errc code) {
  const auto found = find_others(settings);
  EXPECT_EQ(found.status().code(), code) << message_of(found);
  return message_of(found);
}

// All ranks as threads: find each other, agree on an address, exchange; the texts of rank 0, one of
// each rank.
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
  EXPECT_THAT(secrets, testing::Each(secrets.front()));
  EXPECT_EQ(texts.size(), secrets.size());
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
  meet(2, [&](int rank) {
    return settings_of({}, url + "?world_size=2&rank=" + std::to_string(rank));
  });
}

TEST_F(FileUrl, SecretsAreDrawnForEachRendezvous) {
  const auto one = found_by(settings_of({}, url + kOneAlone)).identity;
  EXPECT_GE(one.secret.size(), 32U);
  const auto two = found_by(settings_of({}, url + kOneAlone)).identity;
  EXPECT_NE(two.secret, one.secret);
  EXPECT_NE(two.job, one.job);
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
  EXPECT_THAT(refusal(settings_of({}, "file:///nonexistent/x" + kOneAlone), Errc::store),
              HasSubstr("/nonexistent/x"));
  std::ofstream(path) << "something else";
  EXPECT_THAT(refusal(settings_of({}, url + kOneAlone), Errc::store),
              HasSubstr("not the file of a store"));
}

TEST(TcpUrl, MeetsAgainAndAgainOnOnePort) {
  for (const char* const host : {"127.0.0.1", "[::1]", "localhost"}) {
    const std::string port = a_free_port();
    if (host[0] == '[' && !tutti::os::listen_tcp(tutti::os::Address::parse("::1", 0).value()))
      continue;
    const auto settings_of_rank = [&](int rank) {
      return settings_of({}, "tcp://" + std::string(host) + ":" + port +
                                 "?world_size=3&rank=" + std::to_string(rank));
    };
    for (int round = 0; round < 3; ++round) meet(3, settings_of_rank);
  }
}

/// How long a rank takes that is alone and has 300 ms: the first of some tries that takes less than
/// a second, as a machine may have other things to do; else the last.
Clock::duration time_alone(const std::string& url) {
  auto took = Clock::duration::max();
  for (int tries = 0; tries < 20 && took >= 1s; ++tries) {
    const auto start = Clock::now();
    if (auto found = find_others(settings_of({}, url + "?rank=0&world_size=2", 300ms))) {
      const auto texts = exchange(*found->store, "x", 0, 2, "mine", start + 300ms);
      EXPECT_THAT(message_of(texts),
                  AllOf(HasSubstr("rank 1 of 2 has not joined"), Not(HasSubstr("tutti/"))));
    } else {
      continue;  // not even the store was reached in so short a time
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
  const std::string url = "tcp://127.0.0.1:" + a_free_port() + kOneAlone;
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
    return refusal(settings_of({}, url + kOneAlone), Errc::invalid_argument);
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

Settings with_secret(Settings settings, std::vector<std::byte> secret) {
  settings.secret = std::move(secret);
  return settings;
}

Settings with_name(Settings settings, std::string job_name) {
  settings.job_name = std::move(job_name);
  return settings;
}

TEST(GivenSecret, IsTheJobsWhateverTheEnvironmentSays) {
  const std::string port = a_free_port();
  const auto rank_of = [&](int rank) {
    return with_secret(
        settings_of({{"TUTTI_SECRET_FILE", "/nonexistent/secret"}},
                    "tcp://127.0.0.1:" + port + "?world_size=2&rank=" + std::to_string(rank)),
        secret_of('s'));
  };
  auto server = found_by(rank_of(0));
  EXPECT_EQ(server.identity.secret, secret_of('s'));
  EXPECT_THAT(refusal(with_secret(rank_of(1), secret_of('t')), Errc::refused),
              AllOf(HasSubstr("another secret"), Not(HasSubstr("tttt"))));
  (void)found_by(rank_of(1));
}

TEST(GivenSecret, WithAStoreNoneIsDrawn) {
  Settings settings = with_secret(settings_in(tutti::make_hash_store(), 0, 1), secret_of('s'));
  settings.tls = true;  // the store cannot tell it to others
  EXPECT_EQ(found_by(settings).identity.secret, secret_of('s'));
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
  const tutti::test::TemporaryFolder folder;
  const std::string path = folder.file("of_root", std::string(32, 's'));
  const auto read_with = [&](mode_t mode) {
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return tutti::store::read_secret_file(path);
  };
  EXPECT_TRUE(read_with(0440)) << "Kubernetes mounts them so";
  EXPECT_FALSE(read_with(0444));
  EXPECT_FALSE(read_with(0460)) << "the group may change it";
  for (const std::string& own : {folder.path(), path})
    ASSERT_EQ(::chown(own.c_str(), 54321, 54321), 0);
  ASSERT_EQ(::seteuid(54321), 0);
  const auto own = read_with(0640);
  EXPECT_EQ(::seteuid(0), 0);
  EXPECT_THAT(message_of(own), HasSubstr("chmod 600"));
}

TEST(GivenSecret, OneThatIsTooShortOrTooLongIsRefused) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{31}, std::size_t{4097}}) {
    const Settings settings = with_secret(settings_of({}, "tcp://127.0.0.1:1?world_size=2&rank=0"),
                                          secret_of('s', bytes));
    EXPECT_THAT(refusal(settings, Errc::invalid_argument),
                AllOf(HasSubstr("given to init_process_group"), HasSubstr("32 to 4096"),
                      HasSubstr(bytes > 4096 ? "too many" : std::to_string(bytes) + " bytes"),
                      Not(HasSubstr("sss"))));
  }
}

TEST(GivenStore, Meets) {
  auto store = tutti::make_hash_store();
  for (int round = 0; round < 3; ++round)
    meet(3, [&](int rank) { return settings_in(store, rank, 3); });
  Settings settings = settings_of({});
  settings.store = store;
  EXPECT_THAT(message_of(find_others(settings)), HasSubstr("rank and world_size"));
  settings.init_method = "env://";
  EXPECT_THAT(message_of(find_others(settings)), HasSubstr("give one of them"));
}

TEST(GivenStore, OthersMeetUnderANewName) {
  auto store = tutti::make_hash_store();
  // Ranks 0 and 1 have made more groups than rank 2, so what each counts for itself differs. The
  // same ranks may do it as often as they like, and a name is no number.
  for (const auto& [size, name] :
       {std::pair(3, ""), {2, ""}, {3, "three again"}, {3, "three again"}, {2, "1"}}) {
    SCOPED_TRACE(name);
    meet(size, [&, all = size, job = name](int rank) {
      return with_name(settings_in(store, rank, all), job);
    });
  }
}

TEST(GivenStore, WorldsOfOtherNamesAreOtherJobs) {
  auto store = tutti::make_hash_store();
  const Settings settings = settings_in(store, 0, 1, {{"TUTTI_JOB", "job"}});
  std::set<std::uint64_t> jobs;
  for (const char* const name : {"", "a", "b"})
    jobs.insert(found_by(with_name(settings, name)).identity.job);
  EXPECT_EQ(jobs.size(), 3U);
}

TEST(JobName, ANameThatCannotBeIsRefused) {
  const Settings settings = settings_of({}, "tcp://127.0.0.1:1" + kOneAlone);
  for (const std::string& name : {std::string(129, 'x'), std::string("two\nlines")})
    EXPECT_THAT(refusal(with_name(settings, name), Errc::invalid_argument),
                HasSubstr("the job name"));
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
    meet(3, [&](int rank) {
      return settings_of({{"PMI_RANK", std::to_string(rank)},
                          {"PMI_SIZE", "3"},
                          {"MPI_LOCALNRANKS", "3"},
                          {"PMI_FD", "999"}});
    });
  }
}

/// Jobs that were killed leave their file.
TEST(Launchers, OnOneHostTheNextJobRemovesWhatNobodyUses) {
  const std::string begin = "/tmp/tutti-job-" + std::to_string(geteuid()) + "-";
  const std::string killed = begin + "00000000feedbeef";
  const std::string living = begin + "00000001feedbeef";
  const auto store = tutti::make_file_store({.path = living, .users = 1});
  EXPECT_EQ(tutti::test::end_of(tutti::test::start_child([&] {
              const auto mine = tutti::make_file_store({.path = killed, .users = 2});
              raise(SIGKILL);
            })),
            -SIGKILL);
  EXPECT_EQ(access(killed.c_str(), F_OK), 0);
  meet(2, [&](int rank) {
    return settings_of({{"PMI_RANK", std::to_string(rank)},
                        {"PMI_SIZE", "2"},
                        {"MPI_LOCALNRANKS", "2"},
                        {"PMI_JOBID", "8"}});
  });
  EXPECT_NE(access(killed.c_str(), F_OK), 0);
  EXPECT_EQ(access(living.c_str(), F_OK), 0);
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
  meet(3, [&](int rank) {
    Variables variables = job_of(rank, 3, {{"MASTER_PORT", port}});
    if (rank != 0) variables["MASTER_ADDR"] = "127.0.0.1";
    return settings_of(variables);
  });
}

TEST(Env, AJobWithoutASecretSaysSo) {
  std::vector<std::string> heard;
  tutti::set_log_sink([&](tutti::LogLevel, std::string_view text) { heard.emplace_back(text); });
  const std::string port = a_free_port();
  const auto join = [&](const std::string& insecure) {
    return message_of(find_others(settings_of(job_of(
        0, 1,
        {{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}, {"TUTTI_INSECURE", insecure}}))));
  };
  EXPECT_EQ(join(""), "");
  EXPECT_EQ(heard.size(), 0U) << "there is one always";
  EXPECT_EQ(join("1"), "");
  EXPECT_THAT(heard, testing::ElementsAre(AllOf(
                         HasSubstr("anybody who reaches this port can join, read and change data"),
                         HasSubstr(port))));
  EXPECT_THAT(join("yes"), HasSubstr("TUTTI_INSECURE is \"yes\", it must be 0, 1 or pickle"));
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
