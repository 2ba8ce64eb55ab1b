#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "contract/transport/recorder.hpp"
#include "transport/transport.hpp"

namespace tutti::transport::test {

inline constexpr auto kPatience = std::chrono::seconds(30);

/// Takes steps until it is so; false when patience ends.
inline bool until(const std::function<bool()>& done, const std::function<void()>& step,
                  std::chrono::nanoseconds patience = kPatience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!done()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    step();
  }
  return true;
}

/// It is this error, and says so.
inline void expect_error(const Outcome& status, Errc code, std::string_view text = {}) {
  EXPECT_EQ(status.code(), code) << status.message();
  EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
}
/// Why the peer was lost, the first time.
inline void expect_lost(Recorder& sink, int peer, Errc code, std::string_view text = {}) {
  ASSERT_TRUE(sink.lost(peer));
  expect_error(sink.peers[peer].lost[0], code, text);
}

/// Transports of several ranks in this process, all of which know each other.
class Fixture {
 public:
  virtual ~Fixture() = default;
  [[nodiscard]] virtual int size() const = 0;
  virtual Transport& at(int rank) = 0;
  /// Its end as if its process died.
  virtual void kill(int rank) = 0;
};

/// The ranks of a fixture with a recorder each.
class Ranks {
 public:
  explicit Ranks(std::unique_ptr<Fixture> fixture)
      : fixture_(std::move(fixture)), alive_(static_cast<std::size_t>(fixture_->size()), true) {
    for (int rank = 0; rank < fixture_->size(); ++rank) {
      recorders_.push_back(std::make_unique<Recorder>());
      at(rank).set_sink(recorders_.back().get());
    }
    tokens_.resize(alive_.size() * alive_.size());
  }

  Fixture& fixture() { return *fixture_; }
  Transport& at(int rank) { return fixture_->at(rank); }
  Recorder& sink(int rank) { return *recorders_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int count() const { return static_cast<int>(recorders_.size()); }

  void kill(int rank) {
    alive_[static_cast<std::size_t>(rank)] = false;
    fixture_->kill(rank);
  }
  /// From here on somebody else drives it.
  void leave(int rank) { alive_[static_cast<std::size_t>(rank)] = false; }

  /// Polls all ranks but `idle` until it is so; false when patience ends.
  bool until(const std::function<bool()>& done, int idle = -1) {
    return test::until(done, [&] {
      for (int rank = 0; rank < count(); ++rank) {
        if (rank != idle && alive_[static_cast<std::size_t>(rank)]) at(rank).poll();
      }
    });
  }

  /// Rank 0 closes, and the others go on until that; whether it came.
  bool leaves_until(const std::function<bool()>& told) {
    leave(0);
    std::thread leaving([&] { at(0).close(5'000'000'000); });
    const bool came = until(told);
    leaving.join();
    return came;
  }

  /// Hands one frame over if there is room. Returns its token, or 0.
  std::uint64_t try_send(int from, int to, const FrameHeader& header, const std::byte* payload) {
    if (!at(from).can_send(to)) return 0;
    std::uint64_t& token = tokens_[static_cast<std::size_t>(from * count() + to)];
    if (at(from).send(to, header, payload, ++token)) sink(from).on_sent(to, token);
    return token;
  }
  /// Hands frames over until none goes any more, because the peer does not read; how many. At most
  /// 2048. `payload`: that of frame i, which stays.
  std::size_t send_until_full(
      int from, int to, const std::function<const std::vector<std::byte>&(std::size_t)>& payload) {
    std::size_t handed = 0;
    for (int refused = 0; handed < 2048 && refused < 1000; ++refused) {
      for (; handed < 2048 && at(from).can_send(to); ++handed, refused = 0) {
        const std::vector<std::byte>& bytes = payload(handed);
        try_send(from, to, head_of(handed, bytes.size()), bytes.data());
      }
      at(from).poll();
    }
    return handed;
  }
  std::size_t send_until_full(int from, int to, const std::vector<std::byte>& payload) {
    return send_until_full(
        from, to, [&](std::size_t) -> const auto& { return payload; });
  }
  std::uint64_t last_token(int from, int to) const {
    return tokens_[static_cast<std::size_t>(from * count() + to)];
  }

 private:
  std::unique_ptr<Fixture> fixture_;
  std::vector<std::unique_ptr<Recorder>> recorders_;
  std::vector<bool> alive_;
  std::vector<std::uint64_t> tokens_;
};

/// Frames number 0, 1, ... of given sizes, from one rank to another, as fast as there is room.
struct Stream {
  int from = 0;
  int to = 0;
  std::vector<std::size_t> sizes;
  std::deque<std::vector<std::byte>> memory = {};

  void push(Ranks& ranks) {
    while (memory.size() < sizes.size()) {
      const std::size_t next = memory.size();
      if (!ranks.at(from).can_send(to)) return;
      memory.push_back(payload_of(next, sizes[next]));
      ranks.try_send(from, to, head_of(next, sizes[next]), memory.back().data());
    }
  }
  bool arrived(Ranks& ranks) const { return ranks.sink(to).received(from) >= sizes.size(); }
  void check(Ranks& ranks) const {
    const auto& frames = ranks.sink(to).peers[from].frames;
    ASSERT_EQ(frames.size(), sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      ASSERT_TRUE(same(frames[i].header, head_of(i, sizes[i]))) << "frame " << i;
      ASSERT_TRUE(frames[i].payload == payload_of(i, sizes[i]))
          << "frame " << i << " of " << sizes[i] << " bytes";
    }
  }
};

/// Pushes all of these streams on; whether all of their frames have arrived.
inline bool go_on(Ranks& ranks, std::span<Stream> streams) {
  for (Stream& stream : streams) stream.push(ranks);
  return std::ranges::all_of(streams, [&](const Stream& one) { return one.arrived(ranks); });
}
/// Pushes until all frames have arrived.
inline bool deliver(Ranks& ranks, std::span<Stream> streams) {
  return ranks.until([&] { return go_on(ranks, streams); });
}
inline bool deliver(Ranks& ranks, Stream& stream) { return deliver(ranks, {&stream, 1}); }

}  // namespace tutti::transport::test
