#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <tutti/error.hpp>

#include "os/address.hpp"
#include "os/resolver.hpp"
#include "os/socket.hpp"
#include "os/stall_watch.hpp"
#include "secure/stream.hpp"
#include "store/credentials.hpp"
#include "store/request.hpp"

namespace tutti::store {

/// Told which store cannot be reached yet ("the store at ..."), and why ("cannot be reached ...").
using OnWait = std::function<void(const std::string& what, const std::string& why)>;

/// One connection to a TcpServer, for all threads of a process at once: requests carry a number,
/// and of the threads that wait for answers one reads for all.
class TcpClient {
 public:
  struct Target {
    std::string host;
    std::uint16_t port = 0;
    /// How long the server's host may be silent before it is lost (Config::link_timeout).
    std::chrono::milliseconds link_timeout = std::chrono::seconds(15);
    /// Instead of the system's resolver, for tests.
    os::Lookup lookup = {};
    /// Told after each attempt that has failed.
    OnWait on_wait = {};
  };
  /// Tries until the deadline, since the server may start later than its users. Ends at once where
  /// trying again cannot help: another secret, another job. `first`, if there is
  /// one, goes out together with the proof, so the server never knows us without having seen it;
  /// its answer comes from `first_answer`.
  static Result<std::unique_ptr<TcpClient>> connect(const Target& target, const secure::Party& mine,
                                                    os::Deadline deadline,
                                                    const Request* first = nullptr);
  /// Asks once whether the server there is the one that `mine` looks for, and is not known to it
  /// afterwards. Errc::refused: it is that of another job. Errc::disagreement: it says that it is
  /// of this job, and its secret or encryption differs. Errc::unsupported: it is no store of tutti.
  /// Anything else: there is no answer.
  static Outcome probe(const Target& target, const secure::Party& mine, os::Deadline deadline);
  /// The answer to the request that was given to `connect`; called once.
  Response first_answer(os::Deadline deadline);

  /// The longest wait that a request can ask for: it tells milliseconds in 32 bits.
  static constexpr std::chrono::milliseconds kLongestWait{UINT32_MAX};
  /// The number of the request that goes out with the proof.
  static constexpr std::uint64_t kFirstId = 1;

  /// The answer, or an error: timeout (with a text if the server has not answered at all, and may
  /// still carry the request out), or store when the connection is broken. A wait longer than
  /// `longest` is asked for again and again: one that has timed out has changed nothing.
  Response call(const Request& request, os::Deadline deadline,
                std::chrono::milliseconds longest = kLongestWait);
  /// Sends a request whose answer `answer_to` will have; does not wait. Nothing: the connection is
  /// broken, or cannot take more now.
  std::optional<std::uint64_t> post(const Request& request);
  /// The answer, once, if it has come, or an error where the connection is broken; does not wait.
  std::optional<Response> answer_to(std::uint64_t id);
  /// The two ends of the connection when it was made.
  struct Ends {
    os::Address ours;
    os::Address servers;
  };
  [[nodiscard]] const Ends& ends() const noexcept { return ends_; }
  /// The answer to this request is not needed.
  void forget(std::uint64_t id) noexcept;
  [[nodiscard]] bool broken();
  /// True if the server has announced a graceful shutdown. Known once the connection is broken.
  [[nodiscard]] bool server_left();
  /// Tells the server that we leave on purpose, and hangs up.
  void leave(os::Deadline deadline);
  /// Hangs up on a server that does not answer, which will take us for lost.
  void abandon();

 private:
  using Lock = std::unique_lock<std::mutex>;

  TcpClient(secure::Stream stream, const Ends& ends, std::string name,
            std::chrono::milliseconds link_timeout)
      : stream_(std::move(stream)),
        ends_(ends),
        name_(std::move(name)),
        link_timeout_(link_timeout) {}

  /// As `call`; an answer is waited for until `slack` after the deadline.
  Response ask(const Request& request, os::Deadline deadline, std::chrono::milliseconds slack);
  /// Sends one frame in one piece; nobody else may be sending. Breaks the connection if it cannot.
  void send_alone(std::span<const std::byte> bytes, os::Deadline deadline, Lock& lock);
  Outcome send(std::span<const std::byte> bytes, os::Deadline deadline);
  /// `breaks`: a server that has not answered by then is given up.
  Response await(std::uint64_t id, os::Deadline give_up, bool breaks, Lock& lock);
  /// Reads for all threads that wait, until the deadline or until something came. Nobody else may
  /// be reading.
  void read_for_all(os::Deadline deadline, Lock& lock);
  /// Reads what is there, waiting until the deadline; ok also when nothing came.
  Outcome read_some(os::Deadline deadline,
                    std::vector<std::pair<std::uint64_t, Response>>& answers);
  /// As os::wait_ready, and an error once the server's host is silent for link_timeout.
  Result<bool> wait_watching(short events, os::Deadline deadline);
  void lose_locked(const Outcome& why);
  void run_out_locked() noexcept;
  void give_up_locked();
  void break_locked(std::string why);

  std::mutex stream_mutex_;  // one thread reads and another sends; never held while waiting
  secure::Stream stream_;    // guarded by stream_mutex_, but for its descriptor
  os::StallWatch stall_;     // guarded by stream_mutex_
  const Ends ends_;
  const std::string name_;
  const std::chrono::milliseconds link_timeout_;

  std::mutex mutex_;  // everything below
  std::condition_variable changed_;
  bool somebody_reads_ = false;
  bool somebody_sends_ = false;  // a frame goes out in one piece
  std::uint64_t next_id_ = kFirstId + 1;
  std::optional<std::string> broken_;
  bool server_left_ = false;
  std::unordered_map<std::uint64_t, std::optional<Response>> slots_;

  std::vector<std::byte> in_;  // belongs to the thread that reads
};

}  // namespace tutti::store
