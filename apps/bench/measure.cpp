#include "apps/bench/measure.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "apps/bench/cpu_use.hpp"
#include "apps/bench/hogs.hpp"
#include "apps/bench/hop.hpp"
#include "apps/bench/spawn.hpp"
#include "apps/bench/started_job.hpp"
#include "base/format.hpp"

namespace tutti::bench {

namespace {

constexpr std::uint64_t kLeastIterations = 2;
/// A library this many times slower than the best is measured in one round only: it decides nothing
/// and would take most of the time.
constexpr double kHopelesslySlow = 20;

/// Starts the jobs of a run.
class Starter {
 public:
  explicit Starter(const Settings& settings) : settings_(settings) {}
  Starter(const Starter&) = delete;
  Starter& operator=(const Starter&) = delete;
  ~Starter() { end_orphans(); }

  std::unique_ptr<Job> open(const std::string& library, int ranks) {
    std::string why;
    if (!installed(library, settings_.programs, why, settings_.mpi)) throw JobError(why);
    return start_job(settings_, library, settings_.programs, ranks,
                     scratch_.path() / base::format("{}.{}", library, ranks), network_.get());
  }

 private:
  const Settings& settings_;
  ScratchFolder scratch_;  // outlives the jobs, as the network does
  std::unique_ptr<HostNetwork> network_ = make_network(settings_, scratch_);
};

class Runner {
 public:
  Runner(const Settings& settings, const OpenJob& open, const Observer& observer)
      : settings_(settings), open_(open), observer_(observer), cpus_(first_cpu_pair()) {}

  Results run() {
    for (const int ranks : settings_.ranks) {
      start(ranks);
      for (const Operation operation : settings_.operations) {
        for (const std::uint64_t bytes : sizes_of(settings_, operation)) {
          results_.points.push_back(measure({operation, ranks, bytes, {}, 0, {}}));
          if (observer_.on_point) observer_.on_point(results_.points.back());
        }
      }
      jobs_.clear();
    }
    return std::move(results_);
  }

 private:
  using Jobs = std::map<std::string, std::unique_ptr<Job>>;

  void start(int ranks) {
    for (const auto& library : settings_.libraries) {
      check_interrupt();
      Started started{library, ranks, {}, {}, {}};
      try {
        auto job = open_(library, ranks);
        started.version = job->version();
        started.settings = job->settings();
        jobs_[library] = std::move(job);
      } catch (const Interrupted&) {
        throw;
      } catch (const std::exception& error) {
        started.failure = error.what();
      }
      results_.started.push_back(started);
      if (observer_.on_started) observer_.on_started(results_.started.back());
    }
  }

  Point measure(Point point) {
    tell_round(point);
    for (const auto& library : settings_.libraries) {
      if (!jobs_.contains(library)) continue;
      point.series.push_back({.name = library, .seconds = {}});
      guarded(point.series.back(), [&](Job& job) {
        const CallTimer calls = timer_of(point);
        calls.verify(job);
        const auto found = calls.calibrate(job, settings_.budget, kLeastIterations);
        estimates_[library] = found.seconds;
        point.series.back().iterations = found.iterations;
      });
    }
    const double best = best_estimate(point);
    const CpuUse before = usage();
    for (int round = 0; round < settings_.rounds; ++round) {
      probe(point);
      const std::size_t count = point.series.size();
      for (std::size_t turn = 0; turn < count; ++turn) {
        auto& series = point.series[(turn + static_cast<std::size_t>(round)) % count];
        const bool hopeless = estimates_[series.name] > kHopelesslySlow * best;
        if (!series.failure.empty() || (hopeless && round > 0)) continue;
        guarded(series, [&](Job& job) { one_round(job, point, series); });
      }
      ++rounds_done_;
      tell_round(point);
    }
    probe(point);
    point.others = others_between(before, usage());
    return point;
  }

  void tell_round(const Point& point) const {
    if (!observer_.on_round) return;
    observer_.on_round(point, rounds_done_, point_count(settings_) * settings_.rounds);
  }

  [[nodiscard]] CpuUse usage() const {
    std::vector<pid_t> processes = hogs_.processes();
    for (const auto& [name, job] : jobs_) {
      const auto ranks = job->processes();
      processes.insert(processes.end(), ranks.begin(), ranks.end());
    }
    return cpu_use(std::move(processes));
  }

  /// A library that fails is out until the next number of ranks.
  template <class Action>
  void guarded(Series& series, Action action) {
    try {
      action(*jobs_.at(series.name));
    } catch (const JobError& error) {
      series = {.name = series.name, .seconds = {}, .failure = error.what()};
      jobs_.erase(series.name);
    }
  }

  void probe(Point& point) {
    check_interrupt();
    if (!cpus_) return;
    if (const auto hop = spin_hop(*cpus_)) point.hops.push_back(hop->count());
  }

  [[nodiscard]] CallTimer timer_of(const Point& point) const {
    return {point.operation, point.bytes, settings_.mode, settings_.timeout, lead_of(settings_)};
  }

  [[nodiscard]] double best_estimate(const Point& point) const {
    double best = INFINITY;
    for (const auto& series : point.series) {
      if (series.failure.empty()) best = std::min(best, estimates_.at(series.name));
    }
    return best;
  }

  void one_round(Job& job, const Point& point, Series& series) {
    const std::uint64_t warmup = std::clamp<std::uint64_t>(series.iterations / 10, 1, 1000);
    const Measured measured = timer_of(point).time(
        job, warmup, series.iterations, estimates_.at(series.name), CallTimer::Alone::some);
    series.seconds.push_back(measured.seconds);
    series.fastest.push_back(measured.fastest);
    series.means.push_back(measured.mean);
    series.slowest.push_back(measured.slowest);
    series.voluntary_switches.push_back(measured.voluntary_switches);
    series.involuntary_switches.push_back(measured.involuntary_switches);
    series.calls.insert(series.calls.end(), measured.calls.begin(), measured.calls.end());
  }

  const Settings& settings_;
  const OpenJob& open_;
  const Observer& observer_;
  std::optional<CpuPair> cpus_;
  Hogs hogs_{settings_.hogs, settings_.hogs_bound};
  Jobs jobs_;
  int rounds_done_ = 0;
  std::map<std::string, double> estimates_;  ///< seconds per call, of the current point
  Results results_;
};

}  // namespace

std::chrono::microseconds lead_of(const Settings& settings) {
  constexpr int kHops = 4;
  if (!settings.links) return {};
  return std::chrono::ceil<std::chrono::microseconds>(kHops * settings.links->delay);
}

std::unique_ptr<HostNetwork> make_network(const Settings& settings, const ScratchFolder& scratch) {
  if (settings.hosts == 1) return nullptr;
  return std::make_unique<HostNetwork>(settings.hosts, settings.links, scratch.path());
}

std::unique_ptr<Job> start_job(const Settings& settings, const std::string& library,
                               const std::filesystem::path& programs, int ranks,
                               const std::filesystem::path& folder, const HostNetwork* network) {
  std::filesystem::create_directory(folder);
  LaunchRequest request{library,      ranks,        static_cast<int>(usable_cpus().size()),
                        programs,     folder,       folder / "socket",
                        settings.mpi, settings.gpu, settings.backend};
  if (network != nullptr) {
    request.hosts = network->hosts();
    request.remote_shell = network->remote_shell();
  }
  return std::make_unique<StartedJob>(request, settings.timeout);
}

std::vector<std::uint64_t> sizes_of(const Settings& settings, Operation operation) {
  if (operation == Operation::barrier) return {0};
  return settings.sizes;
}

std::optional<double> Series::median() const {
  if (seconds.empty()) return std::nullopt;
  return bench::median(seconds);
}

State state_of(const std::vector<double>& hops) {
  if (hops.empty()) return State::unknown;
  // A hop within one state varies by less than that.
  constexpr double kChanged = 1.8;
  const auto [least, most] = std::minmax_element(hops.begin(), hops.end());
  if (*most > kChanged * *least) return State::mixed;
  switch (nearness(std::chrono::duration<double>(bench::median(hops)))) {
    case Nearness::near: return State::near;
    case Nearness::middle: return State::middle;
    case Nearness::far: return State::far;
  }
  return State::unknown;
}

State Point::state() const { return state_of(hops); }

const Series* Point::of(const std::string& library) const {
  const auto found = std::find_if(series.begin(), series.end(),
                                  [&](const Series& s) { return s.name == library; });
  return found == series.end() ? nullptr : &*found;
}

const Series* Point::best_peer() const {
  const Series* best = nullptr;
  for (const auto& one : series) {
    if (is_ours(one.name) || !one.median()) continue;
    if (best == nullptr || *one.median() < *best->median()) best = &one;
  }
  return best;
}

std::optional<double> Point::ratio(const std::string& ours) const {
  const Series* own = of(ours);
  const Series* best = best_peer();
  if (own == nullptr || best == nullptr) return std::nullopt;
  std::vector<double> ratios;
  for (std::size_t r = 0; r < std::min(own->seconds.size(), best->seconds.size()); ++r) {
    ratios.push_back(own->seconds[r] / best->seconds[r]);
  }
  if (ratios.empty()) return std::nullopt;
  return bench::median(ratios);
}

Results run(const Settings& settings, const OpenJob& open, const Observer& observer) {
  return Runner(settings, open, observer).run();
}

Results run(const Settings& settings, const Observer& observer) {
  Starter starter(settings);
  return run(
      settings, [&](const std::string& library, int ranks) { return starter.open(library, ranks); },
      observer);
}

int point_count(const Settings& settings) {
  std::size_t count = 0;
  for (const Operation operation : settings.operations) {
    count += sizes_of(settings, operation).size();
  }
  return static_cast<int>(count * settings.ranks.size());
}

const char* name_of(State state) {
  constexpr std::array kNames = {"near", "middle", "far", "mixed", "unknown"};
  return kNames[static_cast<std::size_t>(state)];
}

const char* name_of(Mode mode) { return mode == Mode::loop ? "loop" : "sync"; }

}  // namespace tutti::bench
