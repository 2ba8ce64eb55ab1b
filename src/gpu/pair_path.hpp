#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "call/gpu_calls.hpp"
#include "gpu/operation.hpp"

namespace tutti::gpu {

/// The two ranks of the messages from GPU to GPU from one rank to another. This rank is one.
class MessagePair final : public PeerGroup {
 public:
  MessagePair(PeerGroup& parent, Backend* host_group, std::string its_name, int from, int to)
      : PeerGroup(parent.gpus, host_group, std::move(its_name), true),
        parent_(parent),
        sender_(from),
        receiver_(to) {}

  /// The error of the message in the group of all ranks, which may be broken for another cause.
  [[nodiscard]] Outcome error_of(const GpuOperation& op, Outcome outcome) const override;

  std::uint64_t begun = 0;  ///< messages whose elements it moves or has moved

 private:
  PeerGroup& parent_;
  const int sender_;
  const int receiver_;
};

/// The pairs of a group that this rank has messages with, made at their first use.
class MessagePairs {
 public:
  explicit MessagePairs(PeerGroup& parent) : parent_(parent) {}

  /// True if the message may go from GPU to GPU, which its peer may still refuse.
  [[nodiscard]] bool may_take(const GpuOperation& op, const Collective& call);
  [[nodiscard]] Result<MessagePair*> find(int sender, int receiver);
  template <class Action>
  void each(const Action& action) const {
    for (const auto& [ranks, pair] : pairs_) action(*pair);
  }

 private:
  PeerGroup& parent_;
  std::map<std::pair<int, int>, std::unique_ptr<MessagePair>> pairs_;  ///< by sender and receiver
  Gpu* gpu_ = nullptr;  ///< that of the first message
};

/// A message between two GPUs. The host backend matches it. If the peer's tensor is on a GPU, too,
/// the operation goes on as a broadcast of the two ranks, on another path.
class PairPath final : public Path {
 public:
  /// `message`: the caller's send or recv.
  PairPath(const Collective& message, MessagePairs& pairs);

  [[nodiscard]] Step step(GpuOperation& op) override;
  [[nodiscard]] std::string_view waits_for(const GpuOperation& op) const noexcept override;

 private:
  [[nodiscard]] Step match(GpuOperation& op);
  [[nodiscard]] Step stage(GpuOperation& op);
  [[nodiscard]] Step pair_up(GpuOperation& op);

  MessagePairs& pairs_;
  Collective call_;  ///< the message without its memory, for the host backend
  Details details_;
  call::GpuMessage message_;
  bool by_host_ = false;  ///< the peer's tensor is in host memory
  bool matched_ = false;  ///< the peer's tensor is on a GPU
};

}  // namespace tutti::gpu
