#include "bench/measure.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "bench/cpu_use.hpp"
#include "bench/hop.hpp"
#include "bench/job.hpp"
#include "bench/scratch_folder.hpp"
#include "bench/spawn.hpp"

namespace tutti::bench {

namespace {

using std::chrono::seconds;

constexpr std::uint64_t kMostIterations = 1'000'000;
constexpr std::uint64_t kMostSamples = 5000;  ///< of a sync command
constexpr std::uint64_t kLeastIterations = 2;
/// A library this many times slower than the best is measured in one round only: it decides nothing
/// and would take most of the time.
constexpr double kHopelesslySlow = 20;

struct Measured {
  double seconds = 0;  ///< per call
  double total = 0;    ///< of the command
  std::uint64_t switches = 0;
};

class Runner {
 public:
  Runner(const Settings& settings, const Observer& observer)
      : settings_(settings), observer_(observer), cpus_(first_cpu_pair()) {}

  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  ~Runner() {
    jobs_.clear();
    end_orphans();
  }

  Results run() {
    for (const int ranks : settings_.ranks) {
      start(ranks);
      for (const Operation operation : settings_.operations) {
        for (const std::uint64_t bytes : sizes_of(operation)) {
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

  [[nodiscard]] std::vector<std::uint64_t> sizes_of(Operation operation) const {
    if (operation == Operation::barrier) return {0};
    return settings_.sizes;
  }

  void start(int ranks) {
    for (const auto& library : settings_.libraries) {
      check_interrupt();
      Started started{library, ranks, {}, {}, {}};
      if (installed(library, settings_.programs, started.failure)) {
        const auto folder = scratch_.path() / fmt::format("{}.{}", library, ranks);
        std::filesystem::create_directory(folder);
        LaunchRequest request{library,
                              ranks,
                              static_cast<int>(usable_cpus().size()),
                              settings_.programs,
                              folder,
                              folder / "socket"};
        try {
          auto job = std::make_unique<Job>(request, settings_.timeout);
          started.version = job->version();
          started.settings = job->settings();
          jobs_[library] = std::move(job);
        } catch (const Interrupted&) {
          throw;
        } catch (const std::exception& error) {
          started.failure = error.what();
        }
      }
      results_.started.push_back(started);
      if (observer_.on_started) observer_.on_started(results_.started.back());
    }
  }

  Point measure(Point point) {
    for (const auto& library : settings_.libraries) {
      if (!jobs_.contains(library)) continue;
      point.series.push_back({library, {}, 0, {}, {}});
      guarded(point.series.back(), [&](Job& job) {
        verify(job, point);
        calibrate(job, point, point.series.back());
      });
    }
    const double best = best_estimate(point);
    const Usage before = usage();
    for (int round = 0; round < settings_.rounds; ++round) {
      probe(point);
      const std::size_t count = point.series.size();
      for (std::size_t turn = 0; turn < count; ++turn) {
        auto& series = point.series[(turn + static_cast<std::size_t>(round)) % count];
        const bool hopeless = estimates_[series.name] > kHopelesslySlow * best;
        if (!series.failure.empty() || (hopeless && round > 0)) continue;
        guarded(series, [&](Job& job) { one_round(job, point, series); });
      }
    }
    probe(point);
    const Usage after = usage();
    const double all = (after.when - before.when) * static_cast<double>(usable_cpus().size());
    const double others = (after.machine - before.machine) - (after.ours - before.ours);
    point.others = all > 0 ? std::clamp(others / all, 0.0, 1.0) : 0;
    return point;
  }

  /// Seconds.
  struct Usage {
    double when = 0;
    double machine = 0;
    double ours = 0;
  };
  [[nodiscard]] Usage usage() const {
    std::vector<pid_t> processes{::getpid()};
    for (const auto& [name, job] : jobs_) {
      const auto ranks = job->processes();
      processes.insert(processes.end(), ranks.begin(), ranks.end());
    }
    const std::chrono::duration<double> now = Job::Clock::now().time_since_epoch();
    return {now.count(), machine_cpu_seconds(), cpu_seconds_of(processes)};
  }

  /// A library that fails is out until the next number of ranks.
  template <class Action>
  void guarded(Series& series, Action action) {
    try {
      action(*jobs_.at(series.name));
    } catch (const JobError& error) {
      series.failure = error.what();
      series.seconds.clear();
      jobs_.erase(series.name);
    }
  }

  void probe(Point& point) {
    check_interrupt();
    if (!cpus_) return;
    if (const auto hop = spin_hop(*cpus_)) point.hops.push_back(hop->count());
  }

  static Command command_for(const Point& point) {
    Command command;
    command.operation = point.operation;
    command.bytes = point.bytes;
    return command;
  }

  void verify(Job& job, const Point& point) const {
    Command command = command_for(point);
    command.task = Task::verify;
    const auto answers = job.ask(command, settings_.timeout);
    if (point.operation != Operation::barrier) return;
    // Samples: entered, left, entered, left ... by one clock.
    for (std::size_t call = 0; call < answers.size(); ++call) {
      double last_entered = 0;
      double first_left = INFINITY;
      for (const auto& [answer, samples] : answers) {
        last_entered = std::max(last_entered, samples.at(2 * call));
        first_left = std::min(first_left, samples.at(2 * call + 1));
      }
      if (first_left < last_entered) {
        throw JobError("a rank left the barrier before the last had entered it");
      }
    }
  }

  Measured ask(Job& job, const Point& point, std::uint64_t warmup, std::uint64_t iterations,
               double estimate) const {
    Command command = command_for(point);
    command.task = settings_.mode == Mode::loop ? Task::loop : Task::sync;
    command.warmup = warmup;
    command.iterations = iterations;
    const double expected = estimate * static_cast<double>(warmup + iterations) * 4;
    const auto timeout = settings_.timeout + seconds(static_cast<int>(expected));
    const auto answers = job.ask(command, timeout);
    Measured measured;
    for (const auto& rank : answers) measured.switches += rank.answer.involuntary_switches;
    if (settings_.mode == Mode::loop) {
      double slowest = 0;
      double rewriting = 0;
      for (const auto& rank : answers) {
        slowest = std::max(slowest, rank.answer.seconds);
        rewriting = std::max(rewriting, rank.answer.rewrite_seconds);
      }
      measured.total = slowest;
      measured.seconds = (slowest - rewriting) / static_cast<double>(iterations);
      return measured;
    }
    std::vector<double> calls(iterations);
    for (const auto& rank : answers) {
      for (std::size_t i = 0; i < calls.size(); ++i) calls[i] = std::max(calls[i], rank.samples[i]);
    }
    for (const double call : calls) measured.total += call;
    measured.seconds = median(std::move(calls));
    return measured;
  }

  /// Finds how many calls fill the budget: more and more until a tenth of it is filled.
  void calibrate(Job& job, const Point& point, Series& series) {
    const double budget = std::chrono::duration<double>(settings_.budget).count();
    const std::uint64_t most = settings_.mode == Mode::sync ? kMostSamples : kMostIterations;
    std::uint64_t iterations = 1;
    Measured measured = ask(job, point, 1, iterations, 0);
    while (measured.total < budget / 10 && iterations < most) {
      iterations = std::min(most, iterations * 4);
      measured = ask(job, point, 1, iterations, 0);
    }
    const double each = std::max(measured.total / static_cast<double>(iterations), 1e-9);
    estimates_[series.name] = measured.seconds;
    series.iterations =
        std::clamp(static_cast<std::uint64_t>(budget / each), kLeastIterations, most);
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
    const Measured measured =
        ask(job, point, warmup, series.iterations, estimates_.at(series.name));
    series.seconds.push_back(measured.seconds);
    series.involuntary_switches.push_back(measured.switches);
  }

  const Settings& settings_;
  const Observer& observer_;
  std::optional<CpuPair> cpus_;
  ScratchFolder scratch_;  // outlives the jobs
  Jobs jobs_;
  std::map<std::string, double> estimates_;  ///< seconds per call, of the current point
  Results results_;
};

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return NAN;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::optional<double> Series::median() const {
  if (seconds.empty()) return std::nullopt;
  return bench::median(seconds);
}

State Point::state() const {
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

const Series* Point::of(const std::string& library) const {
  const auto found = std::find_if(series.begin(), series.end(),
                                  [&](const Series& s) { return s.name == library; });
  return found == series.end() ? nullptr : &*found;
}

const Series* Point::best_peer() const {
  const Series* best = nullptr;
  for (const auto& one : series) {
    if (one.name == kOurs || !one.median()) continue;
    if (best == nullptr || *one.median() < *best->median()) best = &one;
  }
  return best;
}

std::optional<double> Point::ratio() const {
  const Series* own = of(kOurs);
  const Series* best = best_peer();
  if (own == nullptr || best == nullptr) return std::nullopt;
  std::vector<double> ratios;
  for (std::size_t r = 0; r < std::min(own->seconds.size(), best->seconds.size()); ++r) {
    ratios.push_back(own->seconds[r] / best->seconds[r]);
  }
  if (ratios.empty()) return std::nullopt;
  return bench::median(ratios);
}

Results run(const Settings& settings, const Observer& observer) {
  return Runner(settings, observer).run();
}

const char* name_of(Operation operation) { return traits_of(operation).name; }

const char* name_of(State state) {
  switch (state) {
    case State::near: return "near";
    case State::middle: return "middle";
    case State::far: return "far";
    case State::mixed: return "mixed";
    case State::unknown: return "unknown";
  }
  return "?";
}

const char* name_of(Mode mode) { return mode == Mode::loop ? "loop" : "sync"; }

}  // namespace tutti::bench
