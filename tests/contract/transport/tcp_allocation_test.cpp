// After warm-up, frames cost no memory, encrypted or not.

#include <dlfcn.h>

#include <cstdlib>
#include <new>

#include "contract/transport/tcp_fixture.hpp"

namespace {

std::atomic<long> g_allocations{0};

}  // namespace

// Not inlined: the compiler would see malloc and free behind the other names, and warn.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++g_allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new[](std::size_t size) { return ::operator new(size); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace tutti::transport::test {
namespace {

class Counter final : public Sink {
 public:
  std::span<std::byte> on_header(int, const FrameHeader&) noexcept override { return buffer_; }
  void on_frame(int, const FrameHeader&) noexcept override { ++frames; }
  bool on_short(int, const ShortHead&, const std::byte*) noexcept override { return false; }
  void on_sent(int, std::uint64_t token) noexcept override { sent = token; }
  void on_lost(int, const Outcome&) noexcept override { lost = true; }

  int frames = 0;
  std::uint64_t sent = 0;
  bool lost = false;

 private:
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kMaxFramePayload + 1);
};

std::atomic<long> g_held_by_openssl{0};

void* crypto_malloc(std::size_t size, const char*, int) {
  ++g_held_by_openssl;
  return std::malloc(size);
}
void* crypto_realloc(void* memory, std::size_t size, const char*, int) {
  if (memory == nullptr) ++g_held_by_openssl;
  if (memory != nullptr && size == 0) --g_held_by_openssl;
  return std::realloc(memory, size);
}
void crypto_free(void* memory, const char*, int) {
  if (memory != nullptr) --g_held_by_openssl;
  std::free(memory);
}

/// Counts what OpenSSL holds. Before its first use only. It takes a few small pieces for each
/// record and gives them back at once; that is not ours to change.
bool count_openssl() {
  using Set = int (*)(decltype(&crypto_malloc), decltype(&crypto_realloc), decltype(&crypto_free));
  void* library = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  const auto set = reinterpret_cast<Set>(dlsym(library, "CRYPTO_set_mem_functions"));
  return set != nullptr && set(crypto_malloc, crypto_realloc, crypto_free) == 1;
}

class TcpAllocation : public testing::TestWithParam<bool> {
 protected:
  static void SetUpTestSuite() {
    static const bool kCounts = count_openssl();
    ASSERT_TRUE(kCounts);
  }
};
INSTANTIATE_TEST_SUITE_P(Encrypted, TcpAllocation, testing::Bool());

TEST_P(TcpAllocation, IsNoneForFrames) {
  TcpFixture fixture(2, GetParam());
  Counter sinks[2];
  std::uint64_t tokens[2] = {0, 0};
  for (int rank = 0; rank < 2; ++rank) fixture.at(rank).set_sink(&sinks[rank]);
  const std::vector<std::byte> payload(kMaxFramePayload);
  const auto exchange = [&](int frames) {
    const int target = sinks[0].frames + frames;
    while (sinks[0].frames < target || sinks[1].frames < target) {
      for (int rank = 0; rank < 2; ++rank) {
        FrameHeader header;
        header.type = static_cast<std::uint8_t>(FrameType::data);
        header.payload_bytes = static_cast<std::uint32_t>(tokens[rank] % 50 == 0 ? 131072 : 64);
        if (tokens[rank] < static_cast<std::uint64_t>(target) &&
            fixture.at(rank).can_send(1 - rank))
          fixture.at(rank).send(1 - rank, header, payload.data(), ++tokens[rank]);
        fixture.at(rank).poll();
      }
      if (sinks[0].lost || sinks[1].lost) return;
    }
  };
  exchange(200);
  const long before = g_allocations;
  const long held = g_held_by_openssl;
  exchange(10'000);
  EXPECT_EQ(g_allocations - before, 0);
  EXPECT_EQ(g_held_by_openssl - held, 0);
  EXPECT_FALSE(sinks[0].lost || sinks[1].lost);
  EXPECT_EQ(sinks[0].frames, 10'200);
  EXPECT_GT(before, 0) << "the counter does not count";
  EXPECT_GT(held, 0) << "the counter does not count";
}

}  // namespace
}  // namespace tutti::transport::test
