#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "engine/pace.hpp"

namespace tutti::engine {

/// The progress of a rank in a call that does not end. The rank with the least progress is to
/// blame.
struct RankProgress {
  bool left = false;
  bool runs = true;        ///< false: its process is stopped, or does not answer
  bool waited = false;     ///< the call waits for it
  std::uint64_t seq = 0;   ///< number of its last call, but not beyond this call
  std::string state = {};  ///< of its process, in words; empty: it runs, or we cannot see it
  /// The sum of its counters in the call. Absent: a rank that is waited for counts as 0, another
  /// one as finished.
  std::optional<std::uint64_t> count = {};
  /// The text of its pong: what it is doing; empty text: it is in no call. Absent: no answer.
  std::optional<std::string> doing = {};

  [[nodiscard]] bool operator<(const RankProgress& other) const noexcept;
};

/// Decides which rank is to blame for the end of a call, and makes the error text. A rank that was
/// lost is to blame first, else the rank with the least progress. Callers add observations in any
/// order. A rank without an observation is never to blame.
class Blame {
 public:
  /// Of at most this many ranks a text says what they are doing.
  static constexpr std::size_t kMostTold = 4;

  /// `call`: the text of the call, which is number `seq` of a group of `size` ranks. `name` returns
  /// the text for a rank.
  Blame(std::string call, std::uint64_t seq, int size, std::function<std::string(int)> name);

  // Observations of a rank of the group.
  /// The call waits for it.
  void waits_for(int rank);
  /// Its lines in shared memory show its last call, and how far it has come in this one.
  void lines(int rank, std::uint64_t last_call, std::uint64_t count);
  /// It has answered a ping, with its last call.
  void pong(int rank, std::uint64_t last_call);
  /// It was pinged, and has not answered in time.
  void silent(int rank);
  /// The state of its process ("stopped"); empty: it runs, or cannot be seen from here.
  void process(int rank, std::string state);
  /// It has answered what it is doing; empty: it is in no call.
  void doing(int rank, std::string what);
  /// It has moved so many bytes in the call, or this rank itself has.
  void moved(int rank, const MovedBytes& bytes);
  /// It has ended gracefully.
  void left(int rank);
  /// It was lost, because its connection or its process has ended, or the store says so. Only the
  /// first loss counts. `culprit`: a rank that is to blame instead; -1: none.
  void lost(int rank, const Outcome& why, int culprit = -1);

  // Judgement.
  /// The rank that is to blame; -1: nobody.
  [[nodiscard]] int culprit() const noexcept;
  /// An observation of a rank.
  [[nodiscard]] const RankProgress& progress_of(int rank) const;
  /// The cause if the call has not ended in time: the ranks as in `waiting`.
  [[nodiscard]] Outcome timed_out(std::chrono::nanoseconds waited,
                                  std::chrono::nanoseconds limit) const;
  /// The log line for a call that still waits: the ranks that have not made it, or that have the
  /// least progress, and what each of them is doing; the one to blame first.
  [[nodiscard]] std::string waiting(std::chrono::nanoseconds waited) const;
  /// The cause if the call could not begin, because a rank has not passed an earlier call.
  [[nodiscard]] Outcome cannot_begin(std::chrono::nanoseconds waited, int most_under_way) const;
  /// The log line for a call that waits to begin.
  [[nodiscard]] std::string waiting_to_begin(std::chrono::nanoseconds waited,
                                             int most_under_way) const;
  /// The cause if a rank was lost.
  [[nodiscard]] Outcome loss() const;
  /// " and is in ...": the part of the text that says what a rank is doing.
  [[nodiscard]] static std::string doing_text(const std::optional<std::string>& doing);

 private:
  struct Loss {
    int rank = 0;
    Outcome why;
    int culprit = 0;
  };
  RankProgress& told_of(int rank);
  [[nodiscard]] std::string text_of(int rank, const char* behind) const;
  [[nodiscard]] std::string late_text(const char* behind) const;
  [[nodiscard]] bool all_have_come() const;
  [[nodiscard]] std::string moved_text() const;
  [[nodiscard]] std::string place_of(int rank, int most_under_way) const;

  std::string call_;
  std::uint64_t seq_;
  std::function<std::string(int)> name_;
  std::vector<std::optional<RankProgress>> ranks_;
  std::map<int, MovedBytes> moved_;  ///< by rank
  std::vector<int> waited_;          ///< in the order of the waits_for calls
  std::optional<Loss> loss_;
};

}  // namespace tutti::engine
