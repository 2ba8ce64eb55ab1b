#pragma once

#include <chrono>
#include <vector>

#include "secure/stream.hpp"
#include "store/answer_queue.hpp"

namespace tutti::store {

/// A user of a server that ends, and what he has not been sent yet.
struct ClosingConnection {
  secure::Stream stream;
  AnswerQueue out;
};

/// Announces the shutdown to all of them, behind what waits, and hangs up on each when his host has
/// all of it; on those who do not take it when the time is over. What they still send is read and
/// forgotten: closing a socket with unread bytes resets the connection, and throws away what is on
/// the way to them.
void shut_down_gracefully(std::vector<ClosingConnection> users,
                          std::chrono::milliseconds at_most) noexcept;

}  // namespace tutti::store
