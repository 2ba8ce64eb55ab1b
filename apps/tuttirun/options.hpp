#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <tutti/error.hpp>

namespace tutti::launcher {

/// How the program is started.
enum class Runner : std::uint8_t {
  by_name,  ///< *.py with Python, anything else as it is
  python,   ///< with Python
  module,   ///< with Python, as a module
  as_is,    ///< as it is
};

/// Which of a worker's streams, as torchrun counts them: 1 stdout, 2 stderr, 3 both.
struct StreamChoice {
  unsigned everybody = 0;
  std::map<int, unsigned> of_rank;  ///< by local rank, in place of `everybody`

  [[nodiscard]] bool has(int local_rank, int stream) const {
    const auto found = of_rank.find(local_rank);
    const unsigned bits = found == of_rank.end() ? everybody : found->second;
    return (bits & static_cast<unsigned>(stream)) != 0;
  }
  [[nodiscard]] bool empty() const noexcept { return everybody == 0 && of_rank.empty(); }
};

struct Options {
  int nproc_per_node = 1;
  int nnodes = 1;
  /// TUTTI_BACKEND of the workers; empty: as in the environment.
  std::string backend;
  /// Options on this line that only we can follow, not a launcher of the backend's own.
  std::string ours_only;
  int node_rank = 0;
  /// The store gives out the node ranks, and the node that has the address serves it.
  bool find_node_rank = false;
  /// With find_node_rank: whether this node serves. Absent: it tries.
  std::optional<bool> serves;
  std::string master_addr = "127.0.0.1";
  /// By which address the other nodes reach the workers of this one; empty: they find out.
  std::string local_addr;
  /// Absent (one node only): a free one.
  std::optional<std::uint16_t> master_port;
  /// The program serves a store at that port itself.
  /// Name of the job; empty: one is made on one node, none on several.
  std::string job_id;
  std::string secret_file;
  /// All TCP connections are encrypted, the launchers' own included.
  bool tls = false;
  std::chrono::milliseconds link_timeout = std::chrono::seconds(15);  ///< Config::link_timeout
  std::chrono::nanoseconds stall_warning = std::chrono::seconds(30);  ///< Config::stall_warning
  /// How long the nodes wait for each other.
  std::chrono::milliseconds join_timeout = std::chrono::minutes(5);

  int max_restarts = 0;
  /// From asking the workers to end to ending them, after the failure of one.
  std::chrono::milliseconds grace = std::chrono::seconds(5);
  /// How long the ranks have after a signal from outside. Then all processes of the workers are
  /// asked, and have `grace`.
  std::chrono::milliseconds grace_on_signal = std::chrono::seconds(30);
  /// Beside those that always end the job.
  std::vector<int> ending_signals;
  std::string role = "default";

  /// The rank that has our standard input, kNoRank for none. Absent: rank 0 where that is a
  /// terminal, else the first rank of this node.
  std::optional<int> stdin_rank;
  static constexpr int kNoRank = -1;

  /// Absent: tag if the output is a terminal and there are several workers.
  std::optional<bool> tag;
  std::string log_dir;
  /// Where files of the flight recorders go at the end; empty: a temporary folder, after a failure.
  std::string record_dir;
  StreamChoice redirect;  ///< to a file only
  StreamChoice tee;       ///< to a file too; goes before `redirect`
  /// Local ranks whose output is shown; empty: all.
  std::vector<int> shown;

  Runner runner = Runner::by_name;
  /// "--local_rank=" or "--local-rank=", put with the number before the program's own arguments.
  std::string local_rank_argument;
  std::vector<std::string> program;

  [[nodiscard]] int world_size() const noexcept { return nnodes * nproc_per_node; }
};

/// The request of a command line: to run, or to print `text` and exit.
struct Parsed {
  Options options;
  std::optional<std::string> text;
};

/// invalid_argument, one line with a suggestion, for options that make no sense. Options that are
/// not on the line are looked for in torchrun's variables PET_<OPTION>.
Result<Parsed> parse_options(int argc, const char* const* argv);

}  // namespace tutti::launcher
