#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tutti/error.hpp>

namespace tutti::engine {

/// The progress of a rank in a call that does not end. The least is to blame.
struct RankProgress {
  bool left = false;
  bool runs = true;
  bool waited = false;     ///< the call waits for it
  std::uint64_t seq = 0;   ///< its last call, at most the one in question
  std::string state = {};  ///< of its process, in words; empty: nothing is known against it
  /// Of its counters in the call. Unknown: it has come nowhere if it is waited for, else it has
  /// done all.
  std::optional<std::uint64_t> count = {};
  /// What it has under way, in words; empty text: nothing. Unknown: it has not told.
  std::optional<std::string> doing = {};

  [[nodiscard]] bool operator<(const RankProgress& other) const noexcept;
};

/// Decides which rank is to blame for the end of a call, and says so in words: the first loss, else
/// the rank that is furthest behind. It is told what was observed, in any order; only ranks of
/// which something was observed can be to blame.
class Blame {
 public:
  /// `call`: names it in messages, number `seq` of a group of `size` ranks; `name`: of a rank.
  Blame(std::string call, std::uint64_t seq, int size, std::function<std::string(int)> name);

  // Observations of a rank of the group.
  /// The call waits for it.
  void waits_for(int rank);
  /// Its lines in shared memory show its last call, and how far it has come in this one.
  void lines(int rank, std::uint64_t last_call, std::uint64_t count);
  /// It has answered a ping, with its last call.
  void pong(int rank, std::uint64_t last_call);
  /// It was asked, and has not answered in time.
  void silent(int rank);
  /// The state of its process ("stopped"); empty: it runs, or cannot be seen from here.
  void process(int rank, std::string state);
  /// It has told what it has under way; empty: nothing, it is in no call.
  void doing(int rank, std::string what);
  /// It has ended in peace.
  void left(int rank);
  /// It was lost: its connection, its process, or the store's note of who was lost first says so.
  /// The first loss counts. `culprit`: a rank that is to blame instead; -1: none.
  void lost(int rank, const Status& why, int culprit = -1);

  // Judgement.
  /// The rank that is to blame; -1: nobody.
  [[nodiscard]] int culprit() const noexcept;
  /// An observation of a rank.
  [[nodiscard]] const RankProgress& progress_of(int rank) const;
  /// The cause where the call has not ended in time.
  [[nodiscard]] Status timed_out(std::chrono::nanoseconds waited,
                                 std::chrono::nanoseconds limit) const;
  /// What is to be said of the call while it goes on waiting: the ranks that have not come, or are
  /// furthest behind, and what each of them does.
  [[nodiscard]] std::string waiting(std::chrono::nanoseconds waited) const;
  /// The cause where it could not even begin, since a rank has not passed the calls before it.
  [[nodiscard]] Status cannot_begin(std::chrono::nanoseconds waited, int most_under_way) const;
  /// What is to be said of it while it waits to begin.
  [[nodiscard]] std::string waiting_to_begin(std::chrono::nanoseconds waited,
                                             int most_under_way) const;
  /// The cause where a rank was lost.
  [[nodiscard]] Status loss() const;
  /// "; it is in ..." of a rank that has told what it does.
  [[nodiscard]] static std::string doing_text(const std::optional<std::string>& doing);

 private:
  struct Loss {
    int rank = 0;
    Status why;
    int culprit = 0;
  };
  RankProgress& told_of(int rank);
  [[nodiscard]] std::string text_of(int rank, const char* behind) const;
  [[nodiscard]] std::string place_of(int rank, int most_under_way) const;

  std::string call_;
  std::uint64_t seq_;
  std::function<std::string(int)> name_;
  std::vector<std::optional<RankProgress>> ranks_;
  std::vector<int> waited_;  ///< in the order in which they were told
  std::optional<Loss> loss_;
};

}  // namespace tutti::engine
