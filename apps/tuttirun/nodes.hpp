#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <tutti/store.hpp>

#include "node_meeting.hpp"
#include "options.hpp"
#include "record/start_watch.hpp"
#include "verdict.hpp"

namespace tutti::launcher {

/// With several nodes: how the launchers tell each other, through the store, that the job has
/// failed on one node or is done on all. One connection serves all starts of the workers, so the
/// end of a launcher is seen whenever it comes: that of node 0 by the connection itself, that of
/// another by the wills it has left with the store.
///
/// Each start has a verdict, which is put once. A final one ends the job. It may be put for a start
/// that is still to come, when the present one has been judged already: a node that comes there
/// finds it, and one that is still busy with the present one hears of it at once.
class Nodes {
 public:
  /// `on_news` is called from a thread of ours when this node has joined a start and when there is
  /// a verdict.
  /// `node_rank`: ours, if it is known; otherwise the store counts the nodes that come, from 1.
  /// `why_serving`: on the node that serves, for error texts.
  Nodes(const Options& options, TcpStoreOptions store, std::optional<int> node_rank,
        std::string why_serving, std::function<void()> on_news);
  ~Nodes();
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;
  /// Whether a thread of one that has gone may still look for node 0. Nothing stops it but the end
  /// of the process, which must then not take down the objects and libraries that it uses.
  [[nodiscard]] static bool left_a_thread();

  /// From here on all is about this start of the workers: the next one. `workers_port`: of the
  /// store that this node has made for them, which the others are told.
  void begin(int start, std::optional<std::uint16_t> workers_port);
  /// All workers of this node have ended well.
  void report_done();
  /// A worker of this node has failed, or this node goes. `final`: see Verdict. Returns the failure
  /// that another node has reported before: ours may be a consequence of it.
  std::optional<Verdict> report_failure(int exit_code, const std::string& text, bool final);
  /// A signal to this launcher ends the job.
  void report_signal(int signal, const std::string& text);
  /// Of this start.
  [[nodiscard]] std::optional<Verdict> verdict() const;
  /// The final one of a start that is still to come: there will be none.
  [[nodiscard]] std::optional<Verdict> end_of_job() const;
  /// The number of this node; absent until it has joined the others in this start. Reports
  /// before the first start was joined reach no other node.
  [[nodiscard]] std::optional<int> joined() const;
  /// Port of the store that restarted workers use; known once joined, 0 at the first start.
  [[nodiscard]] std::uint16_t workers_port() const;

 private:
  // Shared with the thread, which may still look for node 0 when this object goes.
  struct State {
    State(const Options& options, std::string why_serving);

    const NodeMeeting meeting;
    const int max_restarts;
    const std::chrono::nanoseconds stall_warning;
    const std::chrono::milliseconds done_timeout;
    mutable std::mutex mutex;
    std::condition_variable settled;   // joined, or over
    std::function<void()> on_news;     // guarded; empty when we have gone
    std::optional<int> node_rank;      // guarded
    std::size_t start = 0;             // guarded
    std::vector<std::uint16_t> ports;  // guarded; by start: those that were joined
    std::vector<Verdict> verdicts;     // guarded; by start
    std::shared_ptr<TcpStore> store;   // guarded; null until joined and when nobody listens
    bool reached = false;              // guarded: the store, so this node joins in a moment
    bool over = false;                 // guarded: the thread has nothing more to wait for
  };
  static void run(State& state, const TcpStoreOptions& options);
  /// All starts, until a verdict ends the job or something speaks against us, which is returned.
  static std::string follow(State& state, const std::shared_ptr<TcpStore>& store,
                            record::StartWatch& watch);
  static Result<int> join(State& state, const std::shared_ptr<TcpStore>& store);
  static std::string await_port(State& state, TcpStore& store, int number, int start);
  static void publish(State& state, Verdict verdict);
  /// Returns what stands as the verdict of this start: the message, or what came before it.
  std::string report(const std::string& message, bool final);

  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace tutti::launcher
