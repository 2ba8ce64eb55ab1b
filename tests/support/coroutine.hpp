#pragma once

#include <coroutine>
#include <exception>

namespace tutti::test {

/// A coroutine that runs by itself: whoever starts it is told of its end by other means.
struct Coroutine {
  struct promise_type {
    Coroutine get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

}  // namespace tutti::test
