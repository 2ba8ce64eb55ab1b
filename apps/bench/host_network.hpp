#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/library.hpp"
#include "apps/bench/link_simulator.hpp"

namespace tutti::bench {

/// A network of its own on this machine, gone when the object is: namespaces 10.0.0.1, 10.0.0.2 ...
/// stand for hosts, and no route leads out.
class HostNetwork {
 public:
  /// Without a shape: veth pairs and a bridge, as fast as this machine. `scratch`: a folder of this
  /// run. Throws std::runtime_error, where the programs or the rights are missing.
  HostNetwork(int hosts, const std::optional<LinkShape>& shape, std::filesystem::path scratch);
  HostNetwork(const HostNetwork&) = delete;
  HostNetwork& operator=(const HostNetwork&) = delete;
  ~HostNetwork();

  [[nodiscard]] const std::vector<Host>& hosts() const { return hosts_; }
  /// A program that runs a command on a host as rsh does: ADDRESS COMMAND.
  [[nodiscard]] const std::filesystem::path& remote_shell() const { return remote_shell_; }

 private:
  void make(int hosts, const std::optional<LinkShape>& shape);
  void add(const std::string& name);
  void ip(std::vector<std::string> words);
  void write_remote_shell();
  void remove() noexcept;

  std::filesystem::path scratch_;
  std::filesystem::path ip_;
  std::filesystem::path remote_shell_;
  std::vector<std::string> namespaces_;  ///< of the hosts, and of the bridge
  std::vector<Host> hosts_;
  std::optional<LinkSimulator> links_;
};

}  // namespace tutti::bench
