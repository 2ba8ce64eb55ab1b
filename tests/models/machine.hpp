#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "models/checker.hpp"

namespace tutti::models {

/// Runs the executions of one program, each from its beginning, with the choices that it has made
/// before. It is the machine that the running one sees.
class Machine {
 public:
  Machine(const Make& make, Sites& sites, const Options& options);
  Report explore();
  [[nodiscard]] int thread() const noexcept { return running_; }
  [[nodiscard]] int threads() const noexcept { return options_.threads; }
  [[nodiscard]] bool has_ended(int thread) const noexcept { return at(thread).ended; }
  [[nodiscard]] Graph& graph() noexcept { return graph_; }
  [[nodiscard]] Report& report() noexcept { return report_; }
  /// Call before each access: other threads may go first. Does not return if the execution ends.
  void step();
  /// The program is wrong. The execution ends at the next step.
  void fail(const std::string& text);
  /// Adds an event, of this thread if it names none. If the memory model has no such execution, it
  /// ends at the next step.
  void append(Event one, std::size_t place = 0);
  [[nodiscard]] std::size_t choose(std::size_t count);
  /// The site of an access; `order` becomes the one that it has in this exploration.
  int site_of(const char* what, Order& order, const At& at);
  void sleep(int kernel);
  [[nodiscard]] std::vector<int> sleepers(int kernel) const;
  void wake(int thread) noexcept { at(thread).asleep_on = -1; }
  void await(const std::function<bool()>& look);

 private:
  struct Thread {
    ucontext_t context;  ///< where it begins
    jmp_buf place;       ///< where it is
    std::vector<char> stack = std::vector<char>(std::size_t{256} * 1024);
    bool ended = false;
    int asleep_on = -1;
    std::uint64_t steps = 0;                  ///< one that is woken may end without an event
    bool looking = false;                     ///< in await
    bool waits = false;                       ///< in await, which has found nothing
    std::vector<std::pair<int, int>> looked;  ///< locations, and the stores that it has read there
  };
  struct Choice {
    std::size_t chosen;
    std::size_t count;
  };

  [[nodiscard]] Thread& at(int thread) noexcept { return threads_[std::size_t(thread)]; }
  [[nodiscard]] const Thread& at(int thread) const noexcept {
    return threads_[std::size_t(thread)];
  }
  [[nodiscard]] bool may_see_more(const Thread& thread) const noexcept;
  static void enter() noexcept;
  void start(int thread);
  void resume(int thread);
  void execute();
  bool next_choices();
  void add_site(const char* what, Order order, const At& at);
  [[nodiscard]] std::string trace() const;

  const Make& make_;
  Sites& sites_;
  Options options_;
  Report report_;
  Graph graph_;
  std::deque<Thread> threads_;
  Program* program_ = nullptr;
  jmp_buf scheduler_;
  int running_ = -1;
  bool given_up_ = false;  ///< the execution ends at the next step
  std::vector<Choice> choices_;
  std::size_t made_ = 0;   ///< of them, in this execution
  std::size_t known_ = 0;  ///< of them, by earlier executions; the last of these has changed
  std::unordered_set<std::uint64_t> seen_;  ///< hashes of states from which all was explored
};

/// The one that explores.
extern Machine* machine;

}  // namespace tutti::models
