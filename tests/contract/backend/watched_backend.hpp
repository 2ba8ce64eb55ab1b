#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <span>
#include <string>
#include <utility>

#include <tutti/backends.hpp>

#include "backend/native/native_backend.hpp"
#include "forwarding_backend.hpp"

namespace tutti::test {

/// A backend of another name that does what it does through the native one, and checks what the
/// rest of the library promises to every backend.
class WatchedBackend final : public ForwardingBackend {
 public:
  static constexpr std::string_view kName = "watched";

  /// Makes it known, once.
  static void make_known() {
    if (is_available(kName)) return;
    BackendFactory factory;
    factory.name = kName;
    factory.make_world = [](const WorldOptions& options) -> Result<Backend*> {
      return around(native::factory().make_world(options),
                    [](Backend* world) { return new WatchedBackend(world); });
    };
    factory.promises = native::factory().promises;
    register_backend(std::move(factory));
  }
  /// Of all groups: how often make_child was called.
  static std::atomic<int>& children_asked() {
    static std::atomic<int> count{0};
    return count;
  }
  /// Groups that live.
  static std::atomic<int>& living() {
    static std::atomic<int> count{0};
    return count;
  }

  ~WatchedBackend() override {
    EXPECT_EQ(closed_, 1) << "before the last reference goes, and once";
    --living();
  }

  [[nodiscard]] std::string_view name() const noexcept override { return kName; }
  [[nodiscard]] std::string unsupported(const Collective& call) const override {
    std::string why = inner().unsupported(call);
    const std::string native = "'native'";
    if (const auto at = why.find(native); at != std::string::npos)
      why.replace(at, native.size(), "'watched'");
    return why;
  }
  std::uint64_t submit(const Collective& call, bool asynchronous) noexcept override {
    EXPECT_EQ(inner().unsupported(call), "") << "it was to be asked before";
    EXPECT_GT(call.timeout.count(), 0);
    EXPECT_EQ(std::exchange(child_begun_, false), call.kind == Kind::new_group)
        << "a group is begun, and right afterwards the ranks agree on it";
    return inner().submit(call, asynchronous);
  }
  [[nodiscard]] Result<Backend*> make_child(std::span<const int> ranks,
                                            std::string name) noexcept override {
    ++children_asked();
    EXPECT_FALSE(std::exchange(child_begun_, true));
    EXPECT_TRUE(ranks.empty() || std::ranges::count(ranks, rank()) == 1)
        << "ranks of another group";
    return around(inner().make_child(ranks, std::move(name)),
                  [](Backend* child) { return new WatchedBackend(child); });
  }
  void close(std::chrono::nanoseconds drain) noexcept override {
    ++closed_;
    inner().close(drain);
  }

 private:
  explicit WatchedBackend(Backend* inner) : ForwardingBackend(inner) { ++living(); }

  bool child_begun_ = false;
  std::atomic<int> closed_{0};
};

}  // namespace tutti::test
