#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

/// The time that a cache line takes between two cores of this machine right now. A host may move
/// the CPUs of a virtual machine between chiplets, which changes every figure several times: a
/// measurement means nothing without the state it was taken in.
namespace tutti::bench {

/// CPUs that this process may use.
std::vector<int> usable_cpus();

/// The two CPUs between which hops are measured: the first two usable ones.
struct CpuPair {
  int first = 0;
  int second = 0;
};
std::optional<CpuPair> first_cpu_pair();

struct HopOptions {
  int batches = 7;
  int round_trips = 500;  ///< per batch
  /// Gives up here: somebody else may have taken one of the cores.
  std::chrono::milliseconds limit{200};
};

/// Time for a flag to get from one core to the other, both spinning: the least over the batches,
/// each of which is a mean. Nothing if not one batch was finished in time.
std::optional<std::chrono::duration<double>> spin_hop(CpuPair cpus, const HopOptions& options = {});

/// The same for a thread that sleeps in the kernel and is woken.
std::optional<std::chrono::duration<double>> futex_hop(CpuPair cpus,
                                                       const HopOptions& options = {});

/// Bytes per second that both cores copy together, each from and to memory of its own.
double copy_bandwidth(CpuPair cpus, std::size_t bytes, int repetitions);

/// How close two cores are.
enum class Nearness { near, middle, far };

/// Times seen on virtual machines: near 0.02-0.06 us; far 0.12-0.28 us; and in between, cores as
/// fast as ever that hand lines over half as fast as in the near state.
constexpr std::chrono::duration<double> kNearHop = std::chrono::nanoseconds(60);
constexpr std::chrono::duration<double> kFarHop = std::chrono::nanoseconds(100);

constexpr Nearness nearness(std::chrono::duration<double> hop) {
  if (hop <= kNearHop) return Nearness::near;
  return hop < kFarHop ? Nearness::middle : Nearness::far;
}

}  // namespace tutti::bench
