#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace tutti::test {

/// Prints where all processes below this one stand, in C++ and in Python (stacks.py beside this
/// file). For tests that end a process whose time is over: before they do. Only the first few
/// times, since each may take half a minute.
inline void print_stacks_of_children() {
  constexpr int kMost = 3;
  static int printed = 0;
  if (++printed > kMost) return;
  std::fflush(stdout);
  const std::string script = std::filesystem::path(__FILE__).replace_extension(".py").string();
  const std::string command =
      "exec python3 '" + script + "' --below " + std::to_string(::getpid()) + " 2>&1";
  if (std::system(command.c_str()) != 0) std::puts("(no stacks: stacks.py has failed)");
}

}  // namespace tutti::test
