#pragma once

#include <chrono>
#include <cstdio>
#include <string>

// How long those that watch operations and messages wait before they ask, and how they say it.
namespace tutti::engine {

/// A process that answers nothing for so long is the one to blame.
inline constexpr auto kAnswerTime = std::chrono::milliseconds(200);
/// So long before its deadline, or half its timeout, an operation asks all once: who is not
/// connected yet needs some ways there and back more than an answer takes.
inline constexpr auto kAskAhead = std::chrono::seconds(2);
/// When an operation waits for messages so long, those it waits for are told what it is ...
inline constexpr auto kPingAfter = std::chrono::milliseconds(40);
/// ... and again now and then, as they may enter it later, and so that something is on the way
/// when the network is cut: that is to be told within Config::link_timeout and 1 s.
inline constexpr auto kPingAgain = std::chrono::milliseconds(200);

/// A rank that is asked for its last calls has so long to answer.
inline constexpr auto kHistoryTime = std::chrono::seconds(2);

[[nodiscard]] inline std::string seconds_text(std::chrono::nanoseconds duration) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g s", std::chrono::duration<double>(duration).count());
  return text;
}

}  // namespace tutti::engine
