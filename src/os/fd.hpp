#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <utility>

#include "os/private_descriptors.hpp"

namespace tutti::os {

/// The same file under a number above 2; `fd` itself if there is none.
[[nodiscard]] int above_standard_streams(int fd) noexcept;

/// Reads the file from `at` on, until it ends or the memory is full: the bytes; -1, with errno.
[[nodiscard]] ssize_t read_at(int fd, std::span<std::byte> to, off_t at) noexcept;

/// Owns a file descriptor. It is never 0, 1 or 2: a process may have been started with these
/// closed, and what somebody prints must not go to a socket of ours. So ask `get` for the number.
class Fd {
 public:
  Fd() noexcept = default;
  explicit Fd(int fd) noexcept : fd_(fd < 0 || fd > 2 ? fd : above_standard_streams(fd)) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Fd() { reset(); }

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] bool valid() const noexcept { return fd_ >= 0; }
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
  void reset() noexcept {
    if (fd_ >= 0) close_descriptor(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

}  // namespace tutti::os
