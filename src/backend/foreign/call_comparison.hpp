#pragma once

#include <cstdint>
#include <string>

#include <tutti/config.hpp>

#include "backend/foreign/foreign_operation.hpp"

namespace tutti::foreign {

/// Compares the calls of this rank with those of the other ranks of a group: it decides if they
/// agree, and makes the text of the error if they do not.
///
/// Each rank hashes all its calls so far to h. The ranks take the maximum of {h, ~h}: it is a
/// rank's own only if all ranks have the same h, so every rank sees a difference.
/// Threads: those that hold the lock of the group.
class CallComparison {
 public:
  /// A backend's part: three primitives that move words between all ranks of a group, and the names
  /// of the error. A primitive only begins. The backend calls `ended` when it is over; if it fails,
  /// the backend breaks the group.
  class Primitives {
   public:
    /// Writes the maximum of `fingerprint` over all ranks to `greatest`, each word by itself.
    virtual void begin_maximum(ForeignOperation& op) = 0;
    /// Sends word r of `lengths_sent` to rank r, and writes the one from rank r to word r of
    /// `lengths_got`.
    virtual void begin_lengths(ForeignOperation& op) = 0;
    /// Writes the `code` of each rank to `codes`. It may end on one rank only, which then breaks
    /// the group on all ranks.
    virtual void begin_codes(ForeignOperation& op) = 0;

    /// "rank 3 on node-1, pid 17".
    [[nodiscard]] virtual std::string name_of(int rank) const = 0;
    [[nodiscard]] virtual std::string text_of(const ForeignOperation& op) const = 0;
    [[nodiscard]] virtual std::string call_text(const call::CallCode& code) const {
      return call::describe(code);
    }

   protected:
    ~Primitives() = default;
  };

  struct Group {
    std::string name;
    std::uint64_t id = 0;  ///< the same on all ranks
    int rank = 0;
    int size = 1;
    /// Lengths are exchanged together with the fingerprints. Otherwise at the turn of the
    /// operation, after those before it.
    bool lengths_at_once = false;
  };
  CallComparison(Primitives& primitives, Group group, const Config& config);

  /// The number of the last collective.
  [[nodiscard]] std::uint64_t last() const noexcept { return last_; }
  /// The next collective of this rank: gives it its number and fingerprint.
  void take(ForeignOperation& op) noexcept;
  /// Begins to compare it, in the order of the numbers.
  void begin(ForeignOperation& op);
  /// The primitive that ran for the operation is over. An error: the ranks disagree, and the
  /// backend breaks the group with it.
  [[nodiscard]] Outcome ended(ForeignOperation& op);
  /// At the turn of the operation: begins the next primitive, if one is due. True: all ranks agree.
  [[nodiscard]] bool settle(ForeignOperation& op);

 private:
  [[nodiscard]] bool compares(const Collective& call) const noexcept;
  void measure(ForeignOperation& op);
  [[nodiscard]] Outcome lengths_differ(ForeignOperation& op) const;
  [[nodiscard]] Outcome calls_differ(const ForeignOperation& op) const;

  Primitives& primitives_;
  const Group group_;
  const bool on_;  ///< TUTTI_AGREE
  std::uint64_t last_ = 0;
  std::uint64_t chain_;     ///< hash of all calls so far
  bool explained_ = false;  ///< one operation is enough: later ones differ because it does
};

}  // namespace tutti::foreign
