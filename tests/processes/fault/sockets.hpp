#pragma once

#include <sys/types.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace tutti::fault {

/// A socket as the kernel lists it; ends are "<address>:<port>" in its digits.
struct Socket {
  std::string ours;
  std::string theirs;
  std::string state;
  std::string inode;
  [[nodiscard]] bool listens() const { return state == "0A"; }
  [[nodiscard]] bool is_established() const { return state == "01"; }
  [[nodiscard]] int port() const {
    return static_cast<int>(std::strtol(ours.c_str() + ours.find(':') + 1, nullptr, 16));
  }
};

/// Those of TCP in the network namespace of a process. `table`: tcp, or tcp6 for both families.
inline std::vector<Socket> tcp_sockets(const std::string& process = "self",
                                       const std::string& table = "tcp") {
  std::vector<Socket> all;
  std::ifstream file("/proc/" + process + "/net/" + table);
  std::string line;
  std::getline(file, line);  // the heads of the columns
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::vector<std::string> word(10);
    for (std::string& one : word) words >> one;
    all.push_back({word[1], word[2], word[3], word[9]});
  }
  return all;
}

/// Those over IPv4 that a process has itself.
inline std::vector<Socket> tcp_sockets_of(const std::string& process = "self") {
  std::set<std::string> inodes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + process + "/fd")) {
    std::error_code gone;  // the descriptor that lists them
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
  }
  std::vector<Socket> all = tcp_sockets(process);
  std::erase_if(all, [&](const Socket& one) { return !inodes.contains(one.inode); });
  return all;
}

}  // namespace tutti::fault
