#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::os {

/// A set of CPU numbers, of any number of CPUs up to kMostCpus (cpu_set_t ends at 1,024).
class CpuSet {
 public:
  /// No set holds a CPU with this number or a higher one. Linux is built for 8,192 at most.
  static constexpr std::size_t kMostCpus = 8192;

  CpuSet() = default;
  [[nodiscard]] static CpuSet of(std::initializer_list<std::size_t> cpus);

  /// Numbers from kMostCpus on are left out.
  void add(std::size_t cpu);
  void add(const CpuSet& other);
  [[nodiscard]] bool has(std::size_t cpu) const noexcept;
  [[nodiscard]] std::size_t count() const noexcept;
  [[nodiscard]] bool empty() const noexcept { return count() == 0; }

  /// One hexadecimal number, CPU 0 its lowest bit: "3" for CPUs 0 and 1. Empty: no CPU.
  [[nodiscard]] std::string to_text() const;
  /// nullopt: not such a number, or one with a CPU from kMostCpus on.
  [[nodiscard]] static std::optional<CpuSet> parse(std::string_view text);
  [[nodiscard]] bool operator==(const CpuSet& other) const = default;

 private:
  static constexpr std::size_t kBits = 64;
  std::vector<std::uint64_t> words_;  ///< the last one is not 0
};

/// The CPUs that a thread may run on; 0: the caller. Empty where the kernel does not tell.
[[nodiscard]] CpuSet affinity_of(pid_t thread);
/// Lets the calling thread run where the main thread of this process may run. False: refused.
bool take_affinity_of_process() noexcept;

}  // namespace tutti::os
