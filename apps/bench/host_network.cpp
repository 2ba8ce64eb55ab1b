#include "apps/bench/host_network.hpp"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "apps/bench/spawn.hpp"
#include "base/format.hpp"
#include "os/environment.hpp"

namespace tutti::bench {

namespace {

namespace fs = std::filesystem;

constexpr const char* kNamespaces = "tutti-bench-";
constexpr auto kForOneCommand = std::chrono::seconds(10);

std::string prefix() { return base::format("{}{}-", kNamespaces, ::getpid()); }

/// Namespaces of runs that were killed.
std::vector<std::string> left_behind() {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/run/netns", ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kNamespaces)) continue;
    const int pid = std::atoi(name.c_str() + std::string(kNamespaces).size());
    if (pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH) names.push_back(name);
  }
  return names;
}

}  // namespace

HostNetwork::HostNetwork(int hosts, const std::optional<LinkShape>& shape, fs::path scratch)
    : scratch_(std::move(scratch)) {
  const auto found = os::find_program("ip");
  if (!found) throw std::runtime_error("--hosts needs the program ip (package iproute2) in PATH");
  ip_ = *found;
  namespaces_ = left_behind();
  remove();
  try {
    make(hosts, shape);
  } catch (...) {
    remove();
    throw;
  }
}

HostNetwork::~HostNetwork() { remove(); }

void HostNetwork::make(int hosts, const std::optional<LinkShape>& shape) {
  for (int host = 1; host <= hosts; ++host) add(base::format("{}{}", prefix(), host));
  const std::vector<std::string> spaces = namespaces_;
  if (shape) {
    links_.emplace(spaces, *shape);
  } else {
    const std::string bridge = prefix() + "switch";
    add(bridge);
    ip({"-n", bridge, "link", "add", "b0", "type", "bridge"});
    ip({"-n", bridge, "link", "set", "b0", "up"});
    for (std::size_t host = 0; host < spaces.size(); ++host) {
      const std::string port = base::format("p{}", host + 1);
      ip({"-n", bridge, "link", "add", port, "type", "veth", "peer", "name", kHostInterface,
          "netns", spaces[host]});
      ip({"-n", bridge, "link", "set", port, "master", "b0", "up"});
    }
  }
  for (std::size_t host = 0; host < spaces.size(); ++host) {
    const std::string& name = spaces[host];
    // A tun device drops what its queue cannot hold, so that is as long as a NIC's. Shorter bursts
    // wait less for each other.
    if (shape)
      ip({"-n", name, "link", "set", kHostInterface, "txqueuelen", "1000", "gso_max_size",
          "16384"});
    hosts_.push_back({base::format("10.0.0.{}", host + 1), {ip_, "netns", "exec", name}});
    ip({"-n", name, "addr", "add", hosts_.back().address + "/24", "dev", kHostInterface});
    ip({"-n", name, "link", "set", kHostInterface, "up"});
    ip({"-n", name, "link", "set", "lo", "up"});
  }
  write_remote_shell();
}

void HostNetwork::add(const std::string& name) {
  ip({"netns", "add", name});
  namespaces_.push_back(name);
}

void HostNetwork::ip(std::vector<std::string> words) {
  const fs::path log = scratch_ / "ip";
  fs::remove(log);
  words.insert(words.begin(), ip_);
  os::Process process = start_program({words, {}}, scratch_, log);
  auto end = process.wait(std::chrono::steady_clock::now() + kForOneCommand);
  if (end && *end && (*end)->success()) {
    (void)process.collect();
    return;
  }
  (void)process.kill(SIGKILL);
  std::string command;
  for (const auto& word : words) command += word + " ";
  std::stringstream said;
  said << std::ifstream(log).rdbuf();
  throw std::runtime_error(base::format(
      "--hosts makes network namespaces, which needs root and CAP_SYS_ADMIN; this failed: {}\n{}",
      command, said.str()));
}

void HostNetwork::write_remote_shell() {
  remote_shell_ = scratch_ / "remote_shell";
  // A host name of its own: Open MPI calls its files in shared memory after it.
  std::ofstream(remote_shell_) << base::format(
      "#!/bin/sh\n"
      "while [ \"${{1#-}}\" != \"$1\" ]; do shift; done\n"
      "host={}${{1##*.}}\n"
      "shift\n"
      "exec {} netns exec $host unshare --uts sh -c \"hostname $host && $*\"\n",
      prefix(), ip_.string());
  fs::permissions(remote_shell_, fs::perms::owner_all);
}

void HostNetwork::remove() noexcept {
  links_.reset();
  for (const auto& name : namespaces_) {
    try {
      ip({"netns", "del", name});
    } catch (const std::exception&) {
      continue;  // nothing else can be done about it; the next run tries again
    }
  }
  namespaces_.clear();
}

}  // namespace tutti::bench
