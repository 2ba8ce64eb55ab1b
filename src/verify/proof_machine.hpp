#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "plan/step_cursor.hpp"
#include "verify/proof_memory.hpp"
#include "verify/prover.hpp"

namespace tutti::verify::proof {

using plan::Binding;
using plan::Expr;
using plan::Operand;
using plan::Range;
using plan::RankSet;
using plan::Space;
using plan::Step;

/// One execution of the schedules of all ranks, with as little order between them as the steps
/// make.
class Machine {
 public:
  /// winner[r]: the rank that rank r's claims find; -1: none. Empty: nobody claims.
  Machine(std::span<const Schedule> all, const ProofCase& c, const Claims& claims,
          std::vector<int> winner);
  [[nodiscard]] std::vector<Finding> run();

 private:
  /// All that a rank makes known by a line, a counter or a message.
  struct Release {
    std::int64_t value = 0;
    Clock clock;
    Known known;
  };
  struct Post {
    Place place;
    bool to_output = false;
    std::size_t output_at = 0;
    Clock clock;
    Known known;
    std::size_t step = 0;
  };
  struct Inbox {
    std::deque<Message> messages;
    std::size_t received = 0;
    std::vector<Post> posts;
    std::size_t completed = 0;
  };
  struct Rank : plan::StepCursor {
    const Schedule* schedule = nullptr;
    Binding binding;
    std::size_t slot = 0;  ///< elements of one
    std::int64_t cycle = 0;
    bool has_input = false;
    bool has_output = false;
    bool shared = false;     ///< input and output are the same memory where they overlap
    std::size_t origin = 0;  ///< of its elements among those of all ranks (all_to_all)
    std::vector<std::size_t> in_ends;
    std::vector<std::size_t> out_ends;
    std::uint64_t done = 0;  ///< steps
    bool agreed = false;
    bool failed = false;
    int found = -1;  ///< by the claim
    Clock clock;
    Known known;
    std::vector<bool> line_seen;
    std::vector<Release> line;  ///< none or one
    std::vector<Release> counters[plan::kCounters];
    std::vector<Inbox> from;  ///< by sender
    std::size_t given = 0;    ///< elements of the input
    std::vector<Cell> input;
    std::vector<Cell> output;
    std::vector<Cell> stage;
    std::vector<Cell> scratch;
    std::vector<bool> written;  ///< elements of the output
  };

  void set_up(int r, std::span<const Schedule> all);
  void set_up_blocks(int r);
  void set_up_memory(int r);
  bool advance(int r);
  /// False where it must wait; waits_for_ says for which rank.
  bool execute(int r, const Step& step);
  bool await_lines(int r, const Step& step);
  bool await_counter(int r, const Step& step, int of, std::int64_t value);
  bool await_counters(int r, const Step& step);
  bool claim(int r, const Step& step);
  bool await_receives(int r, const Step& step);
  void complete(int r, int from, Post& post);
  void copy(int r, const Step& step);
  void reduce(int r, const Step& step);
  void send(int r, const Step& step);
  void receive(int r, const Step& step);
  void signal(int r, const Step& step);

  [[nodiscard]] std::int64_t at(int r, const Expr& e) const;
  [[nodiscard]] int rank_at(int r, const Expr& e) const;
  [[nodiscard]] int member(int r, const RankSet& set, int index) const;
  [[nodiscard]] Range range(int r, const Operand& operand) const;
  /// Names an element alike wherever it lies: its number in the operation; of all_to_all a number
  /// among the inputs of all ranks.
  [[nodiscard]] std::size_t identity(int r, const Operand& operand, const Range& elements) const;
  /// False (and told) where the blocks that it names do not exist.
  bool blocks_exist(int r, const Operand& operand);
  /// Where number `element` of a rank's input or output is kept.
  [[nodiscard]] Place user_memory(int r, Space space, const Range& elements);
  /// False (and told) where it lies outside.
  bool place(int r, const Operand& operand, std::int64_t slot_plus, Place& out);
  bool read(int r, const Operand& operand, std::int64_t slot_plus, const Message* message,
            std::vector<int>& sums);
  /// in_place: the values are there already.
  void write(int r, const Operand& operand, const std::vector<int>& sums, bool in_place = false);
  bool same_elements(int r, const Step& step, bool& nothing);
  int result_of(int r, const Step& step, const std::vector<int>& terms);
  bool may_write_output(int r);
  [[nodiscard]] Release release(int r);
  void acquire(int r, int from, const Release& release, bool compared);

  void check_end();
  void check_messages(int r);
  void check_output(int r);
  void check_barrier(int r);
  void tell(Fault kind, int r, const std::string& text);
  void tell(const std::vector<Memory::Race>& races, int r);

  int size_;
  ProofCase case_;
  Claims claims_;
  std::vector<int> winner_;
  std::vector<Rank> ranks_;
  Sums sums_;
  Memory memory_;
  int waits_for_ = -1;
  std::vector<Finding> findings_;
  std::set<std::tuple<Fault, int, std::size_t>> told_;
};

/// The findings that need no run.
[[nodiscard]] std::vector<Finding> check_form(const Schedule& schedule, int rank, int size);
/// For each other rank exactly one receive of its block of the output and one send of its block of
/// the input, all receives posted before anything is awaited, the own block copied, nothing else.
[[nodiscard]] std::vector<Finding> check_any_splits(const Schedule& schedule);

}  // namespace tutti::verify::proof
