#include "requests.hpp"

#include <exception>
#include <utility>
#include <vector>

#include <tutti/error.hpp>

namespace tutti::jax {

Handle Requests::keep(const SharedCommunicator& of, Work work) {
  const std::lock_guard lock(mutex_);
  const Handle request = next_++;
  running_.emplace(request, Request{of, std::move(work)});
  return request;
}

void Requests::wait(Handle request) {
  Request one;
  {
    const std::lock_guard lock(mutex_);
    const auto found = running_.find(request);
    if (found == running_.end())
      raise(Outcome(Errc::invalid_argument, "MPI_Wait: there is no such request"));
    one = std::move(found->second);
    running_.erase(found);
  }
  try {
    one.work.wait();
  } catch (const std::exception& error) {
    give_up(one.of, error.what());
    throw;
  }
}

void Requests::give_up(const SharedCommunicator& of, const std::string& why) {
  of->abort(why);
  std::vector<Work> theirs;
  {
    const std::lock_guard lock(mutex_);
    for (auto next = running_.begin(); next != running_.end();) {
      if (next->second.of != of) {
        ++next;
        continue;
      }
      theirs.push_back(std::move(next->second.work));
      next = running_.erase(next);
    }
  }
  // Over at once, since the group is broken. Told, so that no destructor logs the failure again.
  for (Work& one : theirs) {
    try {
      one.wait();
    } catch (const std::exception&) {
    }
  }
}

}  // namespace tutti::jax
