#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <tutti/error.hpp>

#include "os/socket.hpp"
#include "secure/stream.hpp"
#include "store/handshake.hpp"
#include "store/request.hpp"

namespace tutti::store {

/// One connection to a TcpServer, for all threads of a process at once: requests carry a number,
/// and of the threads that wait for answers one reads for all.
class TcpClient {
 public:
  struct Target {
    std::string host;
    std::uint16_t port = 0;
  };
  /// Tries until the deadline, since the server may start later than its users. Ends at once where
  /// trying again cannot help: another secret, another job, an unknown host. `first`, if there is
  /// one, goes out together with the proof, so the server never knows us without having seen it;
  /// its answer comes from `first_answer`.
  static Result<std::unique_ptr<TcpClient>> connect(const Target& target, const Credentials& mine,
                                                    os::Deadline deadline,
                                                    const Request* first = nullptr);
  /// Of the request that was given to `connect`; called once.
  Response first_answer(os::Deadline deadline);

  /// The answer, or an error: timeout, or store when the connection is broken.
  Response call(const Request& request, os::Deadline deadline);
  /// Tells the server that we go on purpose.
  void leave(os::Deadline deadline);

 private:
  using Lock = std::unique_lock<std::mutex>;

  TcpClient(secure::Stream stream, std::string name)
      : stream_(std::move(stream)), name_(std::move(name)) {}

  Status send(std::span<const std::byte> bytes, os::Deadline deadline);
  Response await(std::uint64_t id, os::Deadline give_up, Lock& lock);
  /// Reads what is there, waiting until the deadline; ok also when nothing came.
  Status read_some(os::Deadline deadline, std::vector<std::pair<std::uint64_t, Response>>& answers);
  void break_locked(std::string why);

  std::mutex stream_mutex_;  // one thread reads and another sends; never held while waiting
  secure::Stream stream_;    // guarded by stream_mutex_, but for its descriptor
  const std::string name_;

  std::mutex send_mutex_;  // a frame goes out in one piece

  std::mutex mutex_;  // everything below
  std::condition_variable changed_;
  bool somebody_reads_ = false;
  std::uint64_t next_id_ = 2;  // 1: what went out with the proof
  std::optional<std::string> broken_;
  std::unordered_map<std::uint64_t, std::optional<Response>> slots_;

  std::vector<std::byte> in_;  // belongs to whoever reads
};

}  // namespace tutti::store
