#include "call/call_code.hpp"

#include <tutti/backend/kinds.hpp>
#include "base/call_purpose.hpp"
#include "base/format.hpp"
#include "call/extent.hpp"
#include "call/gpu_calls.hpp"
#include "call/user_ops.hpp"

namespace tutti::call {

CallCode encode(const Collective& call, const Extent& extent) noexcept {
  const KindTraits& traits = traits_of(call.kind);
  const bool data = traits.layout != Layout::none;
  const auto byte = [](auto value) {
    return static_cast<std::uint64_t>(static_cast<std::uint8_t>(value));
  };
  CallCode code{};
  code[0] = byte(call.kind) | (traits.reduces ? byte(call.op) : 0xff) << 8 |
            (data ? byte(extent.dtype) : 0xff) << 16 |
            static_cast<std::uint64_t>(traits.rooted ? static_cast<std::uint32_t>(call.root)
                                                     : 0xffffffffU)
                << 32;
  code[1] = extent.agreed;
  code[2] = call.digest + extent.digest;  // never both
  return code;
}

CallCode agreed_part(std::span<const std::uint64_t, 3> call) noexcept {
  return {call[0], call[1], call[1] == kSplits ? 0 : call[2]};
}

std::string describe(const CallCode& code) {
  const auto kind = static_cast<Kind>(code[0] & 0xff);
  std::string text(to_string(kind));
  if (static_cast<int>(kind) >= kKindCount) return text;
  const KindTraits& traits = traits_of(kind);
  if (code[1] != kSplits && base::has_purpose(kind, code[2]))
    return base::purpose_text(kind, static_cast<std::int32_t>(code[0] >> 32), code[2]);
  text += '(';
  if (traits.reduces)
    text += std::string(to_string(static_cast<ReduceOp>(code[0] >> 8 & 0xff))) + ", ";
  if (traits.rooted)
    text += "root " + std::to_string(static_cast<std::int32_t>(code[0] >> 32)) + ", ";
  if (traits.layout != Layout::none) {
    text += std::string(to_string(static_cast<DType>(code[0] >> 16 & 0xff)));
    const bool counts = code[1] == kSplits || code[2] == gpu_call_digest(kUncompared);
    if (counts)
      text += traits.layout == Layout::exchange ? " in splits" : " with counts";
    else
      text += " x " + std::to_string(code[1]);
    const bool uneven = (code[2] & 1) != 0;
    if (traits.layout != Layout::same && !counts)
      text += uneven ? " in uneven blocks" : " per rank";
    if (code[1] != kSplits && is_gpu_call(code[2]))
      text += ", on GPUs";
    else if (code[1] != kSplits && is_user_op(code[2]))
      text += ", for " + describe_user_op(code[2]);
    else if (code[1] != kSplits && code[2] != 0 && !uneven)
      text += " in several tensors";
  }
  return text + ')';
}

namespace {

/// The difference between two calls that `describe` prints alike.
std::string_view unseen_difference(const CallCode& code) noexcept {
  if (!has_data(static_cast<Kind>(code[0] & 0xff))) return " of other ranks";
  const bool several = code[1] != kSplits && (code[2] & 1) == 0;
  return several ? " of other sizes or in another number" : " of other sizes";
}

}  // namespace

std::string difference(std::uint64_t seq, const CallCode& ours, std::string_view us,
                       std::string_view our_call, std::string_view them,
                       std::string_view their_call) {
  return base::format("as operation {} {} called {} but {} called {}{}", seq, us, our_call, them,
                      their_call, our_call == their_call ? unseen_difference(ours) : "");
}

Outcome ranks_disagree(std::string_view group, std::string_view difference) {
  return Outcome(
      Errc::disagreement,
      base::format("ranks disagree in group '{}': {}. All ranks must call the same operations in "
                   "the same order with the same dtype, count, root and reduce op; the group is "
                   "broken, make a new one.",
                   group, difference));
}

std::uint64_t chain_start(std::uint64_t group_id, std::uint64_t settings) noexcept {
  return detail::mix(group_id + detail::mix(settings + 0x9e3779b97f4a7c15ULL));
}

std::uint64_t hash_text(std::string_view text, std::uint64_t seed) noexcept {
  std::uint64_t hash = detail::mix(seed + text.size());
  for (const char c : text) hash = detail::mix(hash ^ static_cast<unsigned char>(c));
  return hash;
}

}  // namespace tutti::call
