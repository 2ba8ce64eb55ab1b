#pragma once

#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <filesystem>
#include <set>
#include <string>

// Connections of this process that hear nothing any more, as if a network were cut: what comes in
// is dropped before the kernel answers it.
namespace tutti::test {

/// The descriptors of this process that are connected over IPv4.
inline std::set<int> connections() {
  std::set<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.ss_family == AF_INET) found.insert(fd);
  }
  return found;
}

/// Returns how many it has cut.
inline int cut(const std::set<int>& connections) {
  sock_filter drop_all = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{1, &drop_all};
  int count = 0;
  for (const int fd : connections)
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0) ++count;
  return count;
}

/// Ends the cut.
inline void mend(const std::set<int>& connections) {
  constexpr int kNone = 0;
  for (const int fd : connections)
    (void)setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &kNone, sizeof kNone);
}

}  // namespace tutti::test
