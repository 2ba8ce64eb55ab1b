#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <tutti/store.hpp>

#include "options.hpp"

namespace tutti::launcher {

/// With several nodes: how the launchers tell each other, through the store, that the job has
/// failed on one node or is done on all.
class Nodes {
 public:
  struct Verdict {
    bool success = false;
    bool final = false;  ///< not to be started again, whatever --max-restarts says
    int exit_code = 1;
    std::string text;  ///< what failed, and where
  };

  /// `on_news` is called from a thread of ours when this node has joined and when there is a
  /// verdict.
  /// `node_rank`: ours, if it is known; otherwise the store counts who comes, from 1.
  /// `restart`: which start of the workers this is about; each is told apart in the store.
  /// `workers_port`: of the store that this node has made for the restarted workers, which the
  /// others are told.
  Nodes(const Options& options, TcpStoreOptions store, std::optional<int> node_rank, int restart,
        std::optional<std::uint16_t> workers_port, std::function<void()> on_news);
  ~Nodes();
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  /// All workers of this node have ended well.
  void report_done();
  /// A worker of this node has failed. `final`: see Verdict.
  void report_failure(int exit_code, const std::string& text, bool final);
  [[nodiscard]] std::optional<Verdict> verdict() const;
  /// The number of this node; absent until it has joined the others. What is reported before that
  /// reaches nobody.
  [[nodiscard]] std::optional<int> joined() const;
  /// Port of the store that restarted workers use; known once joined, 0 at the first start.
  [[nodiscard]] std::uint16_t workers_port() const;

 private:
  // Shared with the thread, which may hang in a call to a store that is gone when we go.
  struct State {
    int nnodes = 1;
    int restart = 0;
    std::string prefix;  ///< of the keys of this start
    mutable std::mutex mutex;
    std::function<void()> on_news;              // guarded; empty when we have gone
    std::optional<int> node_rank;               // guarded
    bool joined = false;                        // guarded
    std::optional<std::uint16_t> workers_port;  // guarded
    std::shared_ptr<TcpStore> store;            // guarded; null until connected
    std::optional<Verdict> verdict;             // guarded
  };
  static void run(State& state, const TcpStoreOptions& options);
  static void say(TcpStore& store, const std::string& message, const State& state);
  /// Both return what speaks against it, or nothing.
  static std::string agree_on_port(State& state, TcpStore& store);
  static std::string join(State& state, const std::shared_ptr<TcpStore>& store);
  void report(const std::string& message);

  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::thread thread_;
};

}  // namespace tutti::launcher
