#pragma once

#include <chrono>

namespace tutti::engine {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;

}  // namespace tutti::engine
