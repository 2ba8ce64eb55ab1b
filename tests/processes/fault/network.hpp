#pragma once

#include <sched.h>

#include <thread>

#include "job.hpp"

// Network namespaces that a test makes for itself.
namespace tutti::fault {

using test::runs;

/// Namespaces 10.77.0.1 .. .4, each kept by a sleeping process.
class Network {
 public:
  static constexpr int kNamespaces = 4;

  bool make() {
    if (!runs({"ip", "link", "set", "lo", "up"})) return false;
    if (!runs({"ip", "link", "add", "name", bridge(), "type", "bridge"})) return false;
    if (!runs({"ip", "link", "set", bridge(), "up"})) return false;
    for (int i = 0; i < kNamespaces; ++i) {
      keepers_.emplace_back(Words{"unshare", "-n", "sleep", "10000"},
                            Words{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"});
      const std::string pid = std::to_string(keepers_.back().pid());
      const std::string outer = link(i);
      const auto deadline = in(5);
      while (same_namespace(pid) && Clock::now() < deadline) std::this_thread::yield();
      if (!runs({"ip", "link", "add", "name", outer, "type", "veth", "peer", "name", "eth0",
                 "netns", pid}) ||
          !runs({"ip", "link", "set", outer, "master", bridge()}) ||
          !runs({"ip", "link", "set", outer, "up"}) ||
          !inside(i, {"ip", "link", "set", "lo", "up"}) ||
          !inside(i, {"ip", "addr", "add", address(i) + "/24", "dev", "eth0"}) ||
          !inside(i, {"ip", "link", "set", "eth0", "up"})) {
        return false;
      }
    }
    return true;
  }
  [[nodiscard]] Words entering(int i) const {
    return {"nsenter", "-n", "-t", std::to_string(keepers_[static_cast<std::size_t>(i)].pid()),
            "--"};
  }
  [[nodiscard]] bool cut(int i) const { return runs({"ip", "link", "set", link(i), "down"}); }
  [[nodiscard]] bool join(int i) const { return runs({"ip", "link", "set", link(i), "up"}); }
  /// Namespace i tells nobody any more which station it is, or does again. A search for it ends
  /// after 150 ms, with "no route to host".
  [[nodiscard]] bool hide(int i) const {
    const std::string last = address(i);
    bool well = inside(i, {"ip", "link", "set", "eth0", "arp", "off"});
    for (int other = 0; other < kNamespaces; ++other) {
      if (other == i) continue;
      well = inside(other, {"ip", "ntable", "change", "name", "arp_cache", "dev", "eth0", "retrans",
                            "50"}) &&
             well;
      (void)inside(other, {"ip", "neigh", "del", last, "dev", "eth0"});  // if it knows it
    }
    return well;
  }
  [[nodiscard]] bool show(int i) const {
    return inside(i, {"ip", "link", "set", "eth0", "arp", "on"});
  }
  /// Packets to namespace i, or from there, go to a station that does not exist.
  [[nodiscard]] bool cut_one_way(int i, bool to) const {
    return each_neighbour(i, to, {"ip", "neigh", "replace"},
                          {"lladdr", "02:00:00:00:00:77", "dev", "eth0", "nud", "permanent"});
  }
  /// Packets between these two go nowhere; the others reach both.
  [[nodiscard]] bool cut_between(int i, int j) const {
    const Words nowhere = {"lladdr", "02:00:00:00:00:77", "dev", "eth0", "nud", "permanent"};
    return inside(i, joined({{"ip", "neigh", "replace", address(j)}, nowhere})) &&
           inside(j, joined({{"ip", "neigh", "replace", address(i)}, nowhere}));
  }
  [[nodiscard]] bool join_one_way(int i) const {
    for (const bool to : {true, false})
      (void)each_neighbour(i, to, {"ip", "neigh", "del"}, {"dev", "eth0"});
    return true;
  }
  /// From now on namespace i drops what comes to other ports than these, but for answers from them.
  [[nodiscard]] bool admit(int i, const Words& ports) const {
    const Words rule = {"ip", "rule", "add", "iif", "eth0", "ipproto", "tcp", "pref"};
    // The table of its own addresses is looked at first, so that a rule before it can drop
    // anything.
    bool well = inside(i, {"ip", "rule", "add", "pref", "30", "lookup", "local"}) &&
                inside(i, {"ip", "rule", "del", "pref", "0"}) &&
                inside(i, joined({rule, {"20", "blackhole"}}));
    for (const std::string& range : ports)
      well = inside(i, joined({rule, {"10", "dport", range, "lookup", "local"}})) && well;
    return inside(i, joined({rule, {"10", "sport", "29500-29699", "lookup", "local"}})) && well;
  }
  /// The window of a process in namespace i is full after a few KiB that it has not read.
  [[nodiscard]] bool narrow(int i) const {
    return inside(i, {"sh", "-c", "echo 4096 16384 16384 > /proc/sys/net/ipv4/tcp_rmem"});
  }
  static std::string address(int i) { return "10.77.0." + std::to_string(i + 1); }

 private:
  // Names of this network only: the links of an earlier one vanish a moment after its processes.
  [[nodiscard]] std::string bridge() const { return "tuttibr" + std::to_string(number_); }
  [[nodiscard]] std::string link(int i) const {
    return "tutti" + std::to_string(number_) + "v" + std::to_string(i);
  }
  static int next() {
    static int made = 0;
    return ++made;
  }
  static bool same_namespace(const std::string& pid) {
    std::error_code gone;
    return std::filesystem::read_symlink("/proc/self/ns/net", gone) ==
           std::filesystem::read_symlink("/proc/" + pid + "/ns/net", gone);
  }
  [[nodiscard]] bool each_neighbour(int i, bool to, const Words& before, const Words& after) const {
    bool well = true;
    for (int other = 0; other < kNamespaces; ++other) {
      if (other == i) continue;
      well = inside(to ? other : i, joined({before, {address(to ? i : other)}, after})) && well;
    }
    return well;
  }
  [[nodiscard]] bool inside(int i, const Words& argv) const {
    return runs(joined({entering(i), argv}));
  }
  int number_ = next();
  std::vector<Worker> keepers_;
};

inline constexpr const char* kNoNamespaces = "neither `unshare -n` nor `unshare -Urn` works here";

/// Makes this process one of a network namespace of its own, where loopback is up; where only root
/// may, as root of a user namespace of its own, for which it must have one thread.
inline bool make_network_namespace() {
  const std::string user = std::to_string(::getuid());
  const std::string group = std::to_string(::getgid());
  if (::unshare(CLONE_NEWNET) != 0) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << "0 " + user + " 1";
    std::ofstream("/proc/self/gid_map") << "0 " + group + " 1";
  }
  return runs({"ip", "link", "set", "lo", "up"});
}

/// Whether it is in one, which it makes when it is first asked. Everything that is made there
/// vanishes with the last process in it.
inline bool in_network_namespace() {
  static const bool kMade = make_network_namespace();
  return kMade;
}

/// Tests in namespaces that one bridge joins.
class NetworkTest : public ::testing::Test {
 protected:
  /// Before a fixture starts threads.
  static void SetUpTestSuite() { (void)in_network_namespace(); }
  void SetUp() override {
    if (!in_network_namespace()) GTEST_SKIP() << kNoNamespaces;
    if (!network_.make()) GTEST_SKIP() << "no bridge or virtual link can be made here";
  }
  Network network_;
};

}  // namespace tutti::fault
