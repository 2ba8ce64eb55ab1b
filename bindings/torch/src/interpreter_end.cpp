#include "interpreter_end.hpp"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "without_gil.hpp"

namespace tutti::torch_plugin {
namespace {

std::atomic<int> uses{0};
std::atomic<bool> has_ended{false};
// A forked child has none of the threads that were counted.
[[maybe_unused]] const int watches_forks = pthread_atfork(nullptr, nullptr, [] { uses.store(0); });

}  // namespace

// Sequentially consistent, as is `end`: it sees this use, or the use sees that it is not allowed.
InterpreterUse::InterpreterUse() noexcept {
  ++uses;
  allowed_ = !has_ended.load();
  if (!allowed_) --uses;
}

InterpreterUse::~InterpreterUse() {
  if (allowed_) --uses;
}

void InterpreterUse::end() noexcept {
  has_ended.store(true);
  const WithoutGil unlocked;
  // A callback that never returns shall not keep the process from ending.
  constexpr auto kPatience = std::chrono::seconds(5);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (uses.load() > 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

bool InterpreterUse::ended() noexcept { return has_ended.load(); }

}  // namespace tutti::torch_plugin
