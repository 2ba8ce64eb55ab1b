#include "engine/names.hpp"

#include "call/call_code.hpp"

namespace tutti::engine {

std::string name_of(const World& world, const Group& group, int rank) {
  const int global = group.members[static_cast<std::size_t>(rank)].global;
  std::string text = "rank " + std::to_string(rank);
  if (global != rank) text += " (global rank " + std::to_string(global) + ")";
  const std::string& where = world.whereabouts[static_cast<std::size_t>(global)];
  return where.empty() ? text : text + " on " + where;
}

std::string op_text(const Op& op) {
  return "group '" + op.group->name + "', operation " + std::to_string(op.seq) + " " +
         call::describe(op.plan->code);
}

}  // namespace tutti::engine
