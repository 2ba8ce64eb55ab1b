#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "unit/simulation/script.hpp"
#include "unit/simulation/simulation.hpp"

namespace tutti::engine::simulation {

/// How a call ended on one rank.
struct Ending {
  int rank = 0;
  std::size_t item = 0;
  Outcome status;
  bool output_touched = false;
  TimePoint when{};
};

/// Carries out a script on a simulation and checks what must hold whatever happens: results that
/// are reported as good are right to the last bit and nothing beside them was written; callbacks
/// come once, with the same outcome; a broken group stays broken with its first cause, at once;
/// memory of a call that has ended is not written again.
class Play {
 public:
  /// `own`: the script of single ranks, where it differs from the common one.
  Play(Simulation& simulation, const Script& script, std::chrono::nanoseconds timeout,
       std::map<int, Script> own = {});

  /// What the program of a rank does when it is its turn. True if it did something.
  bool act(int rank);
  [[nodiscard]] bool finished(int rank) const {
    return player(rank).at >= script_of(rank).items.size() && !has_pending(rank);
  }
  [[nodiscard]] bool all_finished() const {
    return std::ranges::all_of(numbers(players_.size()), [&](int rank) { return finished(rank); });
  }
  /// This rank makes no further calls; it still ends what it has begun.
  void stop_calling(int rank);
  /// After stop_calling, with no call pending: destroys all groups of this rank, and makes and
  /// destroys those that it would have made. Once.
  void let_go(int rank);
  /// Calls made by a rank so far.
  [[nodiscard]] std::size_t calls(int rank) const { return player(rank).calls; }
  [[nodiscard]] bool has_pending(int rank) const { return !player(rank).pending.empty(); }
  /// An operation of this rank that has begun and is not done; nullptr: none.
  [[nodiscard]] const Op* running(int rank) const;
  /// A call of a rank is not done, in a group with these two members.
  [[nodiscard]] bool waits_with(int rank, int one, int other) const;

  [[nodiscard]] const std::vector<Ending>& endings() const noexcept { return endings_; }
  /// What was not as it must be; also checks the memory of ended calls.
  [[nodiscard]] std::vector<std::string> complaints();
  [[nodiscard]] const Script& script_of(int rank) const;
  /// Where each unfinished rank stands, for the message about a deadlock.
  [[nodiscard]] std::string standing() const;

 private:
  struct Call {
    std::size_t item = 0;
    Group* group = nullptr;
    std::uint64_t ticket = 0;
    std::unique_ptr<Buffer> in;
    std::unique_ptr<Buffer> out;   ///< empty: in place
    std::vector<std::byte> given;  ///< what the output held before
    bool wants_callback = false;
    std::optional<Outcome> told;
    int times_told = 0;
  };
  struct Player {
    std::size_t at = 0;
    std::size_t stopped_at = 0;  ///< of stop_calling
    bool has_let_go = false;
    std::size_t most = 1;  ///< calls pending at once
    std::size_t calls = 0;
    std::vector<std::unique_ptr<Call>> pending;
    std::map<int, Group*> groups;
    std::map<int, std::string> broken;  ///< the cause, as the first failed call told it
  };

  [[nodiscard]] Player& player(int rank) { return base::at(players_, rank); }
  [[nodiscard]] const Player& player(int rank) const { return base::at(players_, rank); }
  [[nodiscard]] bool is_member(int rank, const Item& item) const {
    const auto& ranks = base::at(script_.groups, item.group).ranks;
    return std::ranges::count(ranks, rank) > 0;
  }
  bool next_item(int rank);
  bool make(int rank, int group);
  void call(int rank, const Item& item);
  void end(int rank, Call& call, const Outcome& status);
  bool end_one(int rank);
  const std::vector<std::byte>& result(const Item& item, int rank, int size);
  void complain(const std::string& what) {
    if (complaints_.size() < 20) complaints_.push_back(what);
  }

  Simulation& simulation_;
  Script script_;
  std::map<int, Script> own_;
  std::chrono::nanoseconds timeout_;
  std::vector<Player> players_;
  std::vector<Ending> endings_;
  std::vector<std::unique_ptr<Call>> graveyard_;
  std::map<std::pair<std::uint64_t, int>, std::vector<std::byte>> results_;
  std::vector<std::string> complaints_;
};

}  // namespace tutti::engine::simulation
