#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/call_timer.hpp"
#include "apps/bench/host_network.hpp"
#include "apps/bench/library.hpp"
#include "apps/bench/protocol.hpp"
#include "apps/bench/scratch_folder.hpp"
#include "apps/bench/statistics.hpp"

/// The plan of a run: every library alive at once, one measuring at a time, in turns.
namespace tutti::bench {

struct Settings {
  std::vector<Operation> operations;
  std::vector<std::uint64_t> sizes;
  std::vector<int> ranks;
  std::vector<std::string> libraries;  ///< ours first, if it takes part
  std::string mpi;                     ///< that ours runs on; empty: none
  std::string backend;                 ///< of ours, as in LaunchRequest
  bool gpu = false;                    ///< the tensors are on GPUs
  int rounds = 5;
  Mode mode = Mode::loop;
  /// About what one library may take per round of one point.
  std::chrono::milliseconds budget{60};
  /// For a library to start, and to answer beyond what its calls should take.
  std::chrono::seconds timeout{30};
  std::filesystem::path programs;  ///< folder of the worker programs
  /// The ranks are divided over so many hosts of a network that is made for them; 1: they run here.
  int hosts = 1;
  std::optional<LinkShape> links = {};  ///< of that network
  int hogs = 0;                         ///< processes beside the ranks that use a core each
  bool hogs_bound = false;              ///< each is bound to a CPU
};

/// Of CallTimer: on links with a delay, enough for a broadcast to reach all hosts.
std::chrono::microseconds lead_of(const Settings& settings);

/// The network that the settings ask for, or null.
std::unique_ptr<HostNetwork> make_network(const Settings& settings, const ScratchFolder& scratch);

/// Starts the ranks of a library in a new folder. Throws JobError.
std::unique_ptr<Job> start_job(const Settings& settings, const std::string& library,
                               const std::filesystem::path& programs, int ranks,
                               const std::filesystem::path& folder, const HostNetwork* network);

/// A barrier has no size, and so is one point.
std::vector<std::uint64_t> sizes_of(const Settings& settings, Operation operation);

/// How far apart the cores were during a point (hop.hpp); mixed: it changed meanwhile.
enum class State { near, middle, far, mixed, unknown };

/// Of hops in seconds.
State state_of(const std::vector<double>& hops);

/// The times of one library at one point.
struct Series {
  std::string name;
  std::vector<double> seconds;  ///< per call, one figure per round
  /// Seconds of a call on average, of the fastest rank, of all ranks and of the slowest, per round.
  std::vector<double> fastest = {};
  std::vector<double> means = {};
  std::vector<double> slowest = {};
  /// Seconds of those calls of all rounds that were timed by themselves, each the mean over the
  /// ranks.
  std::vector<double> calls = {};
  std::uint64_t iterations = 0;
  /// How often its ranks gave their cores up, and lost them, per round.
  std::vector<double> voluntary_switches = {};
  std::vector<double> involuntary_switches = {};
  std::string failure = {};  ///< why there are no figures
  [[nodiscard]] std::optional<double> median() const;
};

struct Point {
  Operation operation = Operation::all_reduce;
  int ranks = 0;
  std::uint64_t bytes = 0;
  std::vector<double> hops;  ///< seconds, before each round and after the last
  /// Part of the machine's CPU time, 0 to 1, that went to processes that are not ours meanwhile.
  double others = 0;
  std::vector<Series> series;

  [[nodiscard]] State state() const;
  [[nodiscard]] const Series* of(const std::string& library) const;
  /// The fastest of those that are not ours.
  [[nodiscard]] const Series* best_peer() const;
  /// Median over the rounds of our time / its time in the same round. `ours`: kOurs, or
  /// kOursUnchecked.
  [[nodiscard]] std::optional<double> ratio(const std::string& ours = kOurs) const;
};

/// A library as it was started for a number of ranks.
struct Started {
  std::string name;
  int ranks = 0;
  std::string version;
  std::string settings;
  std::string failure;
};

struct Results {
  std::vector<Started> started;
  std::vector<Point> points;
};

/// Told as the run goes on.
struct Observer {
  std::function<void(const Started&)> on_started;
  std::function<void(const Point&)> on_point;
  /// Before each round of the point that is being measured: `done` rounds of `all` are behind us.
  std::function<void(const Point&, int done, int all)> on_round;
};

/// Gives the job of a library with so many ranks, or throws JobError, which tells why it cannot.
using OpenJob = std::function<std::unique_ptr<Job>(const std::string& library, int ranks)>;

Results run(const Settings& settings, const OpenJob& open, const Observer& observer);

/// The same with jobs that are started here, by the programs of `settings`.
Results run(const Settings& settings, const Observer& observer);

/// The points of a run: operations, sizes, numbers of ranks.
int point_count(const Settings& settings);

const char* name_of(State state);
const char* name_of(Mode mode);

}  // namespace tutti::bench
