#include "os/cpu_set.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <climits>

namespace tutti::os {
namespace {

constexpr std::size_t kDigitBits = 4;
constexpr std::size_t kMostDigits = CpuSet::kMostCpus / kDigitBits;
constexpr std::string_view kDigits = "0123456789abcdef";

/// The kernel's words, as many as its largest set has.
using KernelSet = std::array<unsigned long, CpuSet::kMostCpus / (sizeof(long) * CHAR_BIT)>;

cpu_set_t* as_kernel_set(KernelSet& set) noexcept {
  return reinterpret_cast<cpu_set_t*>(set.data());
}

}  // namespace

CpuSet CpuSet::of(std::initializer_list<std::size_t> cpus) {
  CpuSet set;
  for (const std::size_t cpu : cpus) set.add(cpu);
  return set;
}

void CpuSet::add(std::size_t cpu) {
  if (cpu >= kMostCpus) return;
  words_.resize(std::max(words_.size(), cpu / kBits + 1));
  words_[cpu / kBits] |= std::uint64_t{1} << cpu % kBits;
}

void CpuSet::add(const CpuSet& other) {
  words_.resize(std::max(words_.size(), other.words_.size()));
  for (std::size_t i = 0; i < other.words_.size(); ++i) words_[i] |= other.words_[i];
}

bool CpuSet::has(std::size_t cpu) const noexcept {
  return cpu / kBits < words_.size() && (words_[cpu / kBits] >> cpu % kBits & 1) != 0;
}

std::size_t CpuSet::count() const noexcept {
  std::size_t all = 0;
  for (const std::uint64_t word : words_) all += static_cast<std::size_t>(std::popcount(word));
  return all;
}

std::string CpuSet::to_text() const {
  std::string text;
  for (std::size_t i = words_.size() * kBits / kDigitBits; i-- > 0;) {
    const std::size_t bit = i * kDigitBits;
    const std::uint64_t digit = words_[bit / kBits] >> bit % kBits & 15;
    if (digit != 0 || !text.empty()) text += kDigits[digit];
  }
  return text;
}

std::optional<CpuSet> CpuSet::parse(std::string_view text) {
  if (text.size() > kMostDigits) return std::nullopt;
  CpuSet set;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t digit = kDigits.find(text[text.size() - 1 - i]);
    if (digit == std::string_view::npos) return std::nullopt;
    for (std::size_t bit = 0; bit < kDigitBits; ++bit) {
      if ((digit >> bit & 1) != 0) set.add(i * kDigitBits + bit);
    }
  }
  return set;
}

CpuSet affinity_of(pid_t thread) {
  KernelSet words{};
  CpuSet set;
  if (::sched_getaffinity(thread, sizeof(words), as_kernel_set(words)) != 0) return set;
  for (std::size_t cpu = 0; cpu < CpuSet::kMostCpus; ++cpu) {
    if (CPU_ISSET_S(cpu, sizeof(words), as_kernel_set(words))) set.add(cpu);
  }
  return set;
}

bool take_affinity_of_process() noexcept {
  KernelSet words{};
  // The main thread's number is that of the process.
  return ::sched_getaffinity(::getpid(), sizeof(words), as_kernel_set(words)) == 0 &&
         ::sched_setaffinity(0, sizeof(words), as_kernel_set(words)) == 0;
}

}  // namespace tutti::os
