#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace tutti::test {

/// How much of a resource this process may take, as long as this lives.
class SoftLimit {
 public:
  using Resource = decltype(RLIMIT_NOFILE);
  SoftLimit(Resource resource, rlim_t most) : resource_(resource) {
    EXPECT_EQ(::getrlimit(resource, &before_), 0);
    const rlimit limit{most, before_.rlim_max};
    EXPECT_EQ(::setrlimit(resource, &limit), 0);
  }
  ~SoftLimit() { EXPECT_EQ(::setrlimit(resource_, &before_), 0); }
  SoftLimit(const SoftLimit&) = delete;
  SoftLimit& operator=(const SoftLimit&) = delete;

 private:
  Resource resource_;
  rlimit before_{};
};

/// Nothing more can be opened.
inline SoftLimit no_more_files() {
  const int next = ::dup(STDIN_FILENO);  // the lowest number that is free
  ::close(next);
  return {RLIMIT_NOFILE, static_cast<rlim_t>(next)};
}

}  // namespace tutti::test
