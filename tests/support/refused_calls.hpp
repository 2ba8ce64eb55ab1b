#pragma once

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tutti::test {

/// A system call, or the calls of it in which one argument has this value.
struct RefusedCall {
  long number = 0;
  std::optional<std::size_t> argument = {};  ///< counted from 0
  std::uint32_t value = 0;
};

/// From here on the kernel answers `error` to these calls of this thread, and of what it forks and
/// starts, as old kernels and sandboxes do. False: it does not.
[[nodiscard]] inline bool refuse_calls(const std::vector<RefusedCall>& calls, int error) noexcept {
  const auto code = [](int bits) { return static_cast<std::uint16_t>(bits); };
  const auto load = [&](std::size_t at) {
    return sock_filter{code(BPF_LD | BPF_W | BPF_ABS), 0, 0, static_cast<std::uint32_t>(at)};
  };
  const auto unless = [&](std::uint32_t value, std::uint8_t skipped) {
    return sock_filter{code(BPF_JMP | BPF_JEQ | BPF_K), 0, skipped, value};
  };
  std::vector<sock_filter> program;
  for (const RefusedCall& call : calls) {
    program.push_back(load(offsetof(seccomp_data, nr)));
    program.push_back(unless(static_cast<std::uint32_t>(call.number), call.argument ? 3 : 1));
    if (call.argument) {
      program.push_back(
          load(offsetof(seccomp_data, args) + *call.argument * sizeof(std::uint64_t)));
      program.push_back(unless(call.value, 1));
    }
    program.push_back(
        {code(BPF_RET | BPF_K), 0, 0, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error)});
  }
  program.push_back({code(BPF_RET | BPF_K), 0, 0, SECCOMP_RET_ALLOW});
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

[[nodiscard]] inline bool refuse_pidfds() noexcept {
  return refuse_calls({{SYS_pidfd_open}}, EPERM);
}

}  // namespace tutti::test
