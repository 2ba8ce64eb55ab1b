#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tutti/error.hpp>

namespace tutti::launcher {

struct Options {
  int nproc_per_node = 1;
  int nnodes = 1;
  int node_rank = 0;
  std::string master_addr = "127.0.0.1";
  /// Absent: a free one on one node, 29500 on several.
  std::optional<std::uint16_t> master_port;
  std::string secret_file;
  std::chrono::milliseconds grace = std::chrono::seconds(5);
  /// Absent: tag if the output is a terminal and there are several workers.
  std::optional<bool> tag;
  bool module = false;
  std::vector<std::string> program;

  [[nodiscard]] int world_size() const noexcept { return nnodes * nproc_per_node; }
};

/// What a command line asks for: to run, or to print `text` and exit.
struct Parsed {
  Options options;
  std::optional<std::string> text;
};

/// invalid_argument, one line with a suggestion, for what makes no sense.
Result<Parsed> parse_options(int argc, const char* const* argv);

}  // namespace tutti::launcher
