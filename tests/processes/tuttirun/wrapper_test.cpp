// Workers that are no ranks themselves: a wrapper whose child is the rank.

#include <sys/stat.h>

#include "support/temporary_folder.hpp"
#include "tuttirun_process.hpp"

using testing::AllOf;
using testing::HasSubstr;
using tutti::test::text_of;

namespace {

namespace fs = std::filesystem;

/// A wrapper in Python; `command` is the rank.
Words python(const std::string& workers, const std::string& script) {
  return joined({{"--no-python", "--nproc-per-node", workers, "python3", "-c"},
                 {"import os, subprocess, sys\ncommand = sys.argv[1:]\n" + script},
                 {RANK_WORKER, "exchange"}});
}

void expect_meets(const Words& arguments, int ranks = 2) {
  const Ended run(0, arguments);
  EXPECT_EQ(times_in(run.out, "met everybody twice"), ranks) << run.out << run.err;
}

TEST(Wrapper, MayCloseTheDescriptorsOfTheLauncher) {
  expect_meets(python("2", "sys.exit(subprocess.run(command).returncode)"));
  expect_meets(python("2", "os.closerange(3, 4096); os.execv(command[0], command)"));
  // As a shell that another shell starts.
  expect_meets(shell("2",
                     "for fd in /proc/self/fd/*; do fd=${fd##*/}; "
                     "if [ $fd -gt 2 ] && [ $fd -ne 255 ]; then eval \"exec $fd<&-\"; fi; "
                     "done; bash -c 'bash -c \"" RANK_WORKER " exchange; exit \\$?\"'"));
}

TEST(Wrapper, MayOpenOtherFilesUnderTheirNumbers) {
  const tutti::test::TemporaryFolder folder;
  const std::string decoy = folder.file("decoy", std::string(64, 'd'));
  expect_meets(python("2",
                      "os.closerange(3, 64)\nfor _ in range(3, 64): "
                      "os.set_inheritable(os.open('" +
                          decoy +
                          "', os.O_RDWR), True)\n"
                          "os.execv(command[0], command)"));
  // As sealed as the secret.
  expect_meets(python("2",
                      "import fcntl\nos.closerange(3, 64)\nfor _ in range(3, 64):\n"
                      "    fd = os.memfd_create('tutti-secret', os.MFD_ALLOW_SEALING)\n"
                      "    os.write(fd, b'd' * 32); os.fchmod(fd, 0o400)\n"
                      "    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, 15); os.set_inheritable(fd, True)\n"
                      "os.execv(command[0], command)"));
}

TEST(Wrapper, MayKeepTheVariablesAlone) {
  expect_meets(python("2",
                      "names = ('TUTTI_', 'RANK', 'WORLD_SIZE', 'LOCAL_', 'MASTER_')\n"
                      "kept = {n: v for n, v in os.environ.items() if n.startswith(names)}\n"
                      "sys.exit(subprocess.run(command, env=kept).returncode)"));
}

TEST(Wrapper, MayStartAJobOfItsOwn) {
  expect_meets(
      python("2", "sys.exit(subprocess.run(['" TUTTIRUN "', '-n', '2', *command]).returncode)"), 4);
}

TEST(Wrapper, ThatHidesTheLauncherAndItsSecretIsTold) {
  const Words unshare = tutti::test::own_pid_namespace();
  if (unshare.empty()) GTEST_SKIP() << "no pid namespace can be made here";
  const Words closes = {
      "python3", "-c", "import os, sys; os.closerange(3, 64); os.execv(sys.argv[1], sys.argv[1:])"};
  const Words rank = {RANK_WORKER, "exchange"};
  const Ended run(3, joined({{"--no-python", "-n", "1"}, unshare, closes, rank}));
  EXPECT_THAT(run.out + run.err,
              AllOf(HasSubstr("cannot be reached"), HasSubstr("TUTTI_SECRET_FILE")));
  // It need not close what it does not use.
  expect_meets(joined({{"--no-python", "-n", "2"}, unshare, rank}));
}

TEST(Wrapper, ThatKeepsTheRankFromItsSecretIsTold) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can run a process of another user";
  // Another user cannot reach the secret once the descriptor is gone ...
  const Ended closed(3, python("1",
                               "os.setgroups([]); os.setgid(54321); os.setuid(54321)\n"
                               "sys.exit(subprocess.run(command).returncode)"));
  EXPECT_THAT(closed.out + closed.err,
              AllOf(HasSubstr("cannot be reached"), HasSubstr("Permission denied"),
                    HasSubstr("TUTTI_SECRET_FILE")));
  // ... and does where the wrapper hands it on.
  expect_meets(python("2",
                      "os.setgroups([]); os.setgid(54321); os.setuid(54321)\n"
                      "os.execv(command[0], command)"));
}

/// A rank that has joined a job of one, and rests.
class Resting {
 public:
  explicit Resting(Words environment = {})
      : run(shell("1", "echo pid $$; exec " RANK_WORKER " rest_until_told"),
            std::move(environment)) {
    run.read_until("there", 1);
    (void)std::sscanf(run.out.c_str(), "pid %d", &pid);
  }
  void end() {
    ASSERT_EQ(::kill(pid, SIGUSR1), 0);
    EXPECT_EQ(run.wait(), 0) << run.err;
  }

  Tuttirun run;
  pid_t pid = 0;
};

TEST(HandedMemory, IsNotInheritedByProgramsOfTheRank) {
  Resting rank;
  const std::string folder = "/proc/" + std::to_string(rank.pid);
  int seen = 0;
  for (const auto& entry : fs::directory_iterator(folder + "/fd")) {
    std::error_code gone;
    const std::string target = fs::read_symlink(entry.path(), gone).string();
    if (!target.starts_with("/memfd:tutti-secret") && !target.starts_with("/memfd:tutti-record"))
      continue;
    ++seen;
    const std::string info = text_of(folder + "/fdinfo/" + entry.path().filename().string());
    const std::size_t at = info.find("flags:");
    ASSERT_NE(at, std::string::npos) << info;
    EXPECT_NE(std::strtol(info.c_str() + at + 6, nullptr, 8) & O_CLOEXEC, 0) << target;
  }
  EXPECT_GE(seen, 2);
  rank.end();
}

/// The bytes of a process that a core file would hold: all mappings but those of MADV_DONTDUMP.
std::string dumped_memory_of(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  std::ifstream maps(folder + "/smaps");
  std::ifstream memory(folder + "/mem", std::ios::binary);
  std::string dumped;
  unsigned long first = 0;
  unsigned long last = 0;
  for (std::string line; std::getline(maps, line);) {
    unsigned long from = 0;
    unsigned long to = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) {
      first = from;
      last = to;
    }
    if (!line.starts_with("VmFlags:") || line.find(" rd ") == std::string::npos ||
        line.find(" dd ") != std::string::npos || line.find(" io ") != std::string::npos)
      continue;
    std::string bytes(last - first, '\0');
    memory.clear();
    memory.seekg(static_cast<std::streamoff>(first));
    memory.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    dumped.append(bytes, 0, static_cast<std::size_t>(memory.gcount()));
  }
  return dumped;
}

/// `environment`: of the job.
void expect_hidden(const Words& environment) {
  Resting rank(environment);
  const std::string folder = "/proc/" + std::to_string(rank.pid);
  const std::string variables = text_of(folder + "/environ");
  const std::size_t at = variables.find("TUTTI_SECRET_FD=");
  ASSERT_NE(at, std::string::npos);
  const int fd = std::atoi(variables.c_str() + at + std::string("TUTTI_SECRET_FD=").size());
  const std::string path = folder + "/fd/" + std::to_string(fd);
  const std::string secret = text_of(path);
  ASSERT_EQ(secret.size(), 32U);

  for (const pid_t pid : {rank.pid, rank.run.pid()}) {
    const std::string dumped = dumped_memory_of(pid);
    EXPECT_NE(dumped.find("TUTTI_SECRET_FD="), std::string::npos) << "finds what is there";
    EXPECT_EQ(dumped.find(secret), std::string::npos) << "process " << pid;
  }

  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0400U);
  if (::geteuid() == 0) {
    Tuttirun stranger({"python3", "-c",
                       "import os, sys\nos.setgroups([]); os.setgid(54321); os.setuid(54321)\n"
                       "for path in sys.argv[1:]:\n"
                       "    try: open(path, 'rb'); print('read', path)\n"
                       "    except PermissionError: print('refused')",
                       path,
                       "/proc/" + std::to_string(rank.run.pid()) + "/fd/" + std::to_string(fd),
                       folder + "/environ", folder + "/mem"});
    EXPECT_EQ(stranger.wait(), 0) << stranger.err;
    EXPECT_EQ(times_in(stranger.out, "refused"), 4) << stranger.out;
  }
  rank.end();
}

TEST(Secret, IsNeitherInACoreFileNorInAStrangersReach) {
  expect_hidden({});
  expect_hidden({"TUTTI_TLS=1", "TUTTI_TRANSPORT=tcp"});
}

TEST(Secret, LiesOnNoDiskAfterTuttirunWasKilled) {
  const tutti::test::TemporaryFolder folder;
  const fs::path home = folder.at("home");
  const fs::path temporary = folder.at("tmp");
  fs::create_directory(home);
  fs::create_directory(temporary);
  const Subreaper subreaper;
  {
    Resting rank({"HOME=" + home.string(), "TMPDIR=" + temporary.string()});
    rank.run.expect_ended_by(SIGKILL);
    EXPECT_TRUE(Subreaper::all_gone(Tuttirun::Clock::now() + std::chrono::seconds(20)));
  }
  for (const fs::path& each : {home, temporary}) EXPECT_TRUE(fs::is_empty(each)) << each;
}

}  // namespace
