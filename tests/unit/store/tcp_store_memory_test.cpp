// A server's thread without memory: the connection that needs it ends, and no other.

#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "served.hpp"

namespace {

std::atomic<bool> exhausted{false};

/// By its name: the one thread that gets no memory.
bool is_server_thread() noexcept {
  std::array<char, 16> name{};
  return pthread_getname_np(pthread_self(), name.data(), name.size()) == 0 &&
         std::strcmp(name.data(), "tutti-store") == 0;
}

}  // namespace

void* operator new(std::size_t size) {
  if (exhausted.load() && is_server_thread()) throw std::bad_alloc();
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tutti::store {
namespace {

using namespace std::chrono_literals;

TEST(TcpStoreMemory, AConnectionWithoutMemoryEndsAndNoOther) {
  auto server = serve();
  auto store = join(server->address().port());
  store->set("before", "1");
  exhausted = true;
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(hung_up(dial(*server), 10s)) << i;
  exhausted = false;
  EXPECT_EQ(store->get("before"), "1");
  join(server->address().port())->set("after", "2");
  EXPECT_EQ(store->get("after"), "2");
}

TEST(TcpStoreMemory, AUserWithoutMemoryForItsRequestIsLost) {
  auto server = serve();
  auto store = join(server->address().port());
  const os::Fd user = dial_and_prove(*server);
  exhausted = true;
  EXPECT_TRUE(os::send_all(user.get(), encode_request(get("k", 1000), 1), Clock::now() + 5s));
  EXPECT_TRUE(hung_up(user, 10s));
  exhausted = false;
  store->set("k", "v");
  EXPECT_EQ(store->get("k"), "v");
}

}  // namespace
}  // namespace tutti::store
