#pragma once

#include <chrono>

// The times after which a rank asks other ranks about operations and messages that wait.
namespace tutti::engine {

/// A process that does not answer for this time is the one to blame.
inline constexpr auto kAnswerTime = std::chrono::milliseconds(200);
/// An operation pings all other hosts once, this long before its deadline, or at half its timeout.
/// Ranks that are not connected yet need some round trips more than an answer takes.
inline constexpr auto kAskAhead = std::chrono::seconds(2);
/// An operation that has waited for messages for this time pings the ranks that it waits for.
inline constexpr auto kPingAfter = std::chrono::milliseconds(40);
/// It pings them again after this time: they may have entered the operation meanwhile. And bytes
/// must be under way for a cut network to be reported within Config::link_timeout and 1 s.
inline constexpr auto kPingAgain = std::chrono::milliseconds(200);

/// How long a rank may take to answer what it is doing. No operation fails because of it. It is
/// long, so that a rank on a busy machine is not taken for one that computes.
inline constexpr auto kDoingTime = std::chrono::seconds(1);

/// Before a rank reports that an operation waits, it asks at most this many lower ranks whether
/// they report it. So a large job does not connect every rank with every other.
inline constexpr int kMostAsked = 31;

/// How long other ranks may take to answer whether they still reach a rank that does not answer us.
inline constexpr auto kWitnessTime = std::chrono::milliseconds(400);

/// How long a rank that was sent the last calls of another one has to break the group.
inline constexpr auto kHistoryTime = std::chrono::seconds(2);

}  // namespace tutti::engine
