// Ranks of one host that meet while strangers look on, and ranks in containers that have little in
// common.
#include "network.hpp"

namespace tutti::fault {
namespace {

constexpr const char* kStranger = "54322";  // a user that nobody is
constexpr const char* kNoContainers = "no mount namespace can be made here";

/// A program in a container that has its own shared files, processes and everything but the
/// network.
Words container(const Words& more = {}) {
  const std::string mounts = "mount -t tmpfs none /dev/shm && exec \"$@\"";
  return joined({{"unshare", "--mount", "--ipc", "--uts", "--cgroup", "--pid", "--fork",
                  "--mount-proc", "--kill-child"},
                 more,
                 {"sh", "-c", mounts, "sh"}});
}

/// Sockets of other jobs of this machine are not seen, and not attacked.
class SharingAlone : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { (void)in_network_namespace(); }
  void SetUp() override {
    if (!in_network_namespace()) GTEST_SKIP() << kNoNamespaces;
    if (::geteuid() != 0) GTEST_SKIP() << "only root can run a process of another user";
  }
};

class Sharing : public SharingAlone {
 protected:
  void SetUp() override {
    SharingAlone::SetUp();
    if (IsSkipped()) return;
    if (!runs(joined({container(), {"true"}}))) GTEST_SKIP() << kNoContainers;
  }
  /// Ranks behind these words share memory, or `transport` says how they do without.
  static void expect_joined(const std::vector<Words>& prefixes,
                            const std::string& transport = "ring") {
    JobOptions options = job_of(transport, {"links"}, "10", static_cast<int>(prefixes.size()));
    options.prefixes = prefixes;
    auto workers = start_job(options);
    expect_success(workers);
    const auto links = workers[0].heard("links");
    ASSERT_TRUE(links);
    EXPECT_EQ(links->text.substr(0, 2), "0 ");
  }
};

TEST_F(Sharing, ContainersOfOneNetworkShareMemory) {
  expect_joined({container(), container()});
  expect_joined({{}, container(), container()});
}

TEST_F(Sharing, FullFolderDoesNotMatter) {
  const std::string mounts = "mount -t tmpfs -o nr_inodes=1 none /dev/shm && exec \"$@\"";
  const Words full = {"unshare", "--mount", "sh", "-c", mounts, "sh"};
  expect_joined({full, full});
}

TEST_F(Sharing, ContainersOfOneUserShareMemory) {
  const Words root = container({"--user", "--map-root-user"});
  if (!runs(joined({root, {"true"}}))) GTEST_SKIP() << kNoContainers;
  expect_joined({root, root});
  expect_joined({container(), root});
}

/// Connects to each socket of a job that it can find, and leaves a TCP socket in its queue whose
/// close blocks for 15 s. Says "hit" after the first one, and how many at the end.
constexpr const char* kLinger = R"(
import array, os, socket, struct, sys, time
os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
sink = socket.create_server(('127.0.0.1', 0))
def lingering():
    one = socket.create_connection(sink.getsockname())
    one.setblocking(False)
    try:
        while True: one.send(bytes(65536))
    except BlockingIOError: pass
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 15))
    return one
def say(word, text=''):
    print(word, time.monotonic_ns(), text, flush=True)
ready = [lingering() for _ in range(40)]
say('ready')
hits, refused, kept = 0, 0, []
until = time.monotonic() + 60
os.set_blocking(0, False)
while time.monotonic() < until and os.path.exists(sys.argv[2]):
    names = {line.split()[-1] for line in open('/proc/net/unix') if '@tutti-' in line}
    folder = '/dev/shm/tutti-ranks-' + sys.argv[3]
    try: names |= {folder + '/' + name for name in os.listdir(folder)}
    except OSError: pass
    for name in names:
        one = socket.socket(socket.AF_UNIX)
        try: one.connect(name.replace('@', '\0', 1))
        except OSError: continue
        given = ready.pop() if ready else lingering()
        try:
            one.sendmsg([b'x' * 64], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                       array.array('i', [given.fileno()]))])
            given.close()
            kept.append(one)
            hits += 1
        except PermissionError:
            ready.append(given)  # not closed: that would block here
            refused += 1
        except OSError: ready.append(given)
        if hits + refused == 1: say('hit')
say('done', '%d %d' % (hits, refused))
os._exit(0)
)";

/// Starts jobs until the stranger has found a socket, a few at most: each begins as if it were not
/// there.
void expect_no_delay(const Words& prefix, bool finds) {
  const int kRounds = finds ? 20 : 3;
  const test::TemporaryFolder folder;
  const std::string running = folder.file("running", "");
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  Worker stranger({"python3", "-c", kLinger, kStranger, running, std::to_string(::geteuid())},
                  {"PATH=/usr/bin:/bin"});
  ASSERT_TRUE(stranger.hear("ready"));
  for (int round = 0; round < kRounds && !stranger.heard("hit"); ++round) {
    JobOptions options = job_of("ring", {"links"}, "10", 2);
    options.prefixes = {prefix, prefix};
    const long long since = now_ns();
    auto workers = start_job(options);
    ASSERT_NO_FATAL_FAILURE(expect_success(workers));
    const auto joined = workers[0].heard("links");
    ASSERT_TRUE(joined);
    EXPECT_LT(static_cast<double>(joined->at - since) / 1e9, 5);
  }
  std::filesystem::remove(running);
  const auto done = stranger.hear("done", 30);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->text != "0 0", finds) << done->text;
}

TEST_F(SharingAlone, StrangersFindNoSocket) { expect_no_delay({}, false); }

TEST_F(Sharing, StrangersDoNotDelayContainers) { expect_no_delay(container(), true); }

}  // namespace
}  // namespace tutti::fault
