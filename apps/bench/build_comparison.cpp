#include "apps/bench/build_comparison.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "apps/bench/call_timer.hpp"
#include "apps/bench/cpu_use.hpp"
#include "apps/bench/hop.hpp"
#include "apps/bench/spawn.hpp"
#include "base/format.hpp"

namespace tutti::bench {

namespace {

using Order = std::array<Side, 3>;

/// Every order of the three sides, so that each follows each equally often.
constexpr std::array<Order, 6> kOrders{{
    {Side::reference, Side::build, Side::control},
    {Side::control, Side::build, Side::reference},
    {Side::build, Side::reference, Side::control},
    {Side::control, Side::reference, Side::build},
    {Side::build, Side::control, Side::reference},
    {Side::reference, Side::control, Side::build},
}};

/// Short, so that many fit between two disturbances and all sides see the same machine.
constexpr std::chrono::duration<double> kWindow = std::chrono::milliseconds(1);

/// The windows of one side at one point, in one pair.
class Windows {
 public:
  void add(const Measured& measured) {
    all_.push_back(measured.seconds);
    if (measured.involuntary_switches == 0) calm_.push_back(measured.seconds);
  }

  /// Of the windows in which no other process took a core, if there are enough of them.
  [[nodiscard]] double seconds() const {
    constexpr std::size_t kEnough = 4;
    return lower_quartile(calm_.size() >= kEnough ? calm_ : all_);
  }

 private:
  std::vector<double> all_;
  std::vector<double> calm_;
};

constexpr std::size_t index(Side side) { return static_cast<std::size_t>(side); }

class Comparer {
 public:
  Comparer(const BuildSettings& settings, const std::function<void(int)>& on_pair)
      : settings_(settings), on_pair_(on_pair), cpus_(first_cpu_pair()) {
    const Settings& common = settings.common;
    for (const int ranks : common.ranks) {
      for (const Operation operation : common.operations) {
        for (const std::uint64_t bytes : sizes_of(common, operation)) {
          result_.cells.push_back({operation, ranks, bytes, {}, {}, 0});
        }
      }
    }
  }

  Comparer(const Comparer&) = delete;
  Comparer& operator=(const Comparer&) = delete;
  ~Comparer() {
    for (auto& job : jobs_) job.reset();
    end_orphans();
  }

  Comparison run() {
    double others = 0;
    for (int pair = 0; pair < settings_.pairs; ++pair) {
      on_pair_(pair + 1);
      for (const int ranks : settings_.common.ranks) {
        const Order& order = kOrders[static_cast<std::size_t>(pair) % kOrders.size()];
        for (const Side side : order) start(side, pair, ranks);
        const CpuUse before = cpu_use(processes());
        for (auto& cell : result_.cells) {
          if (cell.ranks == ranks) measure(cell, static_cast<std::size_t>(pair));
        }
        others += others_between(before, cpu_use(processes()));
        for (auto& job : jobs_) job.reset();
      }
    }
    const auto starts = static_cast<double>(settings_.common.ranks.size());
    result_.others = others / starts / settings_.pairs;
    return std::move(result_);
  }

 private:
  [[nodiscard]] const std::filesystem::path& programs_of(Side side) const {
    return side == Side::build ? settings_.common.programs : settings_.reference;
  }

  /// Adds to an error the side that it happened to.
  template <class Action>
  auto of(Side side, Action action) {
    try {
      return action();
    } catch (const JobError& error) {
      throw JobError(
          base::format("{} ({}): {}", name_of(side), programs_of(side).string(), error.what()));
    }
  }

  void start(Side side, int pair, int ranks) {
    check_interrupt();
    auto& job = jobs_[index(side)];
    job = of(side, [&] {
      return start_job(settings_.common, kOurs, programs_of(side), ranks,
                       scratch_.path() / base::format("{}.{}.{}", index(side), ranks, pair),
                       network_.get());
    });
    result_.versions[index(side)] = job->version();
  }

  [[nodiscard]] std::vector<pid_t> processes() const {
    std::vector<pid_t> all;
    for (const auto& job : jobs_) {
      const auto ranks = job->processes();
      all.insert(all.end(), ranks.begin(), ranks.end());
    }
    return all;
  }

  void measure(CellPairs& cell, std::size_t pair) {
    const Settings& common = settings_.common;
    const CallTimer calls(cell.operation, cell.bytes, common.mode, common.timeout, lead_of(common));
    double estimate = 0;
    for (const Side side : kOrders[pair % kOrders.size()]) {
      of(side, [&] {
        Job& job = *jobs_[index(side)];
        calls.verify(job);
        if (pair > 0) return;
        // The same number for all sides: a disturbed calibration finds too few, so the most.
        const auto found = calls.calibrate(job, kWindow, 1);
        cell.iterations = std::max(cell.iterations, found.iterations);
        estimate = std::max(estimate, found.seconds);
      });
    }
    if (pair > 0) estimate = cell.pairs.front().reference;
    if (cpus_) {
      if (const auto hop = spin_hop(*cpus_)) cell.hops.push_back(hop->count());
    }
    std::array<Windows, 3> windows;
    const double each = std::max(estimate * static_cast<double>(cell.iterations), kWindow.count());
    const double fitting = std::chrono::duration<double>(common.budget).count() / each;
    // Whole sets of all orders.
    const std::size_t sets =
        std::max<std::size_t>(1, static_cast<std::size_t>(fitting) / kOrders.size());
    for (std::size_t turn = 0; turn < sets * kOrders.size(); ++turn) {
      check_interrupt();
      for (const Side side : kOrders[(turn + pair) % kOrders.size()]) {
        of(side, [&] {
          const std::uint64_t warmup = std::max<std::uint64_t>(1, cell.iterations / 5);
          const Measured measured =
              calls.time(*jobs_[index(side)], warmup, cell.iterations, estimate);
          windows[index(side)].add(measured);
        });
      }
    }
    cell.pairs.push_back({windows[0].seconds(), windows[1].seconds(), windows[2].seconds()});
  }

  const BuildSettings& settings_;
  const std::function<void(int)>& on_pair_;
  std::optional<CpuPair> cpus_;
  ScratchFolder scratch_;  // outlives the jobs, as the network does
  std::unique_ptr<HostNetwork> network_ = make_network(settings_.common, scratch_);
  std::array<std::unique_ptr<Job>, 3> jobs_;
  Comparison result_;
};

}  // namespace

const char* name_of(Side side) {
  constexpr std::array kNames = {"A", "B", "A'"};
  return kNames[index(side)];
}

std::vector<Verdict> Comparison::verdicts() const {
  std::vector<Verdict> all;
  for (const auto& cell : cells) all.push_back(judge(cell.pairs, needed()));
  return all;
}

Verdict Comparison::overall() const {
  std::vector<std::vector<Pair>> pairs;
  for (const auto& cell : cells) pairs.push_back(cell.pairs);
  return judge(geometric_means(pairs), needed());
}

int Comparison::needed() const {
  return cells.empty() ? 1
                       : needed_pairs(static_cast<int>(cells.front().pairs.size()), questions());
}

Comparison compare_builds(const BuildSettings& settings, const std::function<void(int)>& on_pair) {
  return Comparer(settings, on_pair).run();
}

}  // namespace tutti::bench
