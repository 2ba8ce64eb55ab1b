#pragma once

#include <chrono>
#include <vector>

#include "secure/stream.hpp"
#include "store/answer_queue.hpp"

namespace tutti::store {

/// A user of a server that ends, and the bytes that are still to be sent to it.
struct ClosingConnection {
  secure::Stream stream;
  AnswerQueue out;
};

/// Announces the shutdown to all users, after the answers that wait for them. Closes each
/// connection when the user's host has received all of it, at the latest when the time is over.
/// Requests that still come are read and dropped: closing a socket with unread bytes resets the
/// connection, and loses bytes that are on their way to the user.
void shut_down_gracefully(std::vector<ClosingConnection> users,
                          std::chrono::milliseconds at_most) noexcept;

}  // namespace tutti::store
