#pragma once

#include <chrono>

// How long those that watch operations and messages wait before they ask.
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

/// A rank that is asked what it is doing has so long to answer: nothing ends over that, and a busy
/// machine is not to be taken for a rank that computes.
inline constexpr auto kDoingTime = std::chrono::seconds(1);

/// Before a rank tells of an operation that waits it asks at most so many lower ones whether they
/// do, so that a large job does not connect each rank with each.
inline constexpr int kMostAsked = 31;

/// A rank that is asked for its last calls has so long to answer.
inline constexpr auto kHistoryTime = std::chrono::seconds(2);

}  // namespace tutti::engine
