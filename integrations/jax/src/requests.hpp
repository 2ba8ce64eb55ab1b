#pragma once

#include <map>
#include <mutex>
#include <string>

#include <tutti/work.hpp>

#include "abi.hpp"
#include "communicator.hpp"

namespace tutti::jax {

/// The sends and receives that run.
///
/// Threads: any.
class Requests {
 public:
  [[nodiscard]] Handle keep(const SharedCommunicator& of, Work work);
  /// Waits for the request, which is over then. Throws as Work::wait, and after `give_up`;
  /// InvalidArgument if there is no such request.
  void wait(Handle request);
  /// Breaks the group and waits for all requests of the communicator. jaxlib frees the memory of
  /// all of them as soon as it hears that one has failed.
  void give_up(const SharedCommunicator& of, const std::string& why);

 private:
  struct Request {
    SharedCommunicator of;
    Work work;
  };

  std::mutex mutex_;
  Handle next_ = first_made;
  std::map<Handle, Request> running_;
};

}  // namespace tutti::jax
