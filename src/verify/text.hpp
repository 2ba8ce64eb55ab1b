#pragma once

#include <string>
#include <string_view>

#include "plan/schedule.hpp"

// Schedules as text for people.
namespace tutti::verify {

[[nodiscard]] std::string_view to_string(plan::StepKind kind) noexcept;
/// A line each step.
[[nodiscard]] std::string to_text(const plan::Schedule& schedule);
[[nodiscard]] std::string to_text(const plan::Step& step);

}  // namespace tutti::verify
