// A server's thread without memory: the connection that needs it ends, and no other.

#include <gmock/gmock.h>
#include <malloc.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "served.hpp"
#include "unit/group/error_text.hpp"

namespace {

std::atomic<bool> exhausted{false};
std::atomic<std::size_t> in_use{0};

thread_local std::size_t too_large = SIZE_MAX;  // this thread gets no piece of this size

/// By its name: the one thread that gets no memory.
bool is_server_thread() noexcept {
  std::array<char, 16> name{};
  return pthread_getname_np(pthread_self(), name.data(), name.size()) == 0 &&
         std::strcmp(name.data(), "tutti-store") == 0;
}

}  // namespace

void* operator new(std::size_t size) {
  if (size >= too_large) throw std::bad_alloc();
  if (exhausted.load() && is_server_thread()) throw std::bad_alloc();
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  in_use += malloc_usable_size(memory);
  return memory;
}
void operator delete(void* memory) noexcept {
  in_use -= malloc_usable_size(memory);
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }

namespace tutti::store {
namespace {

using namespace std::chrono_literals;

using TcpStoreMemory = Served;

TEST_F(TcpStoreMemory, AConnectionWithoutMemoryEndsAndNoOther) {
  store->set("before", "1");
  exhausted = true;
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(hung_up(dial(*server), 10s)) << i;
  exhausted = false;
  EXPECT_EQ(store->get("before"), "1");
  join(port())->set("after", "2");
  EXPECT_EQ(store->get("after"), "2");
}

TEST_F(TcpStoreMemory, AUserWithoutMemoryForItsRequestIsLost) {
  const os::Fd user = dial_and_prove(*server);
  exhausted = true;
  post(user, get("k", 1000));
  EXPECT_TRUE(hung_up(user, 10s));
  exhausted = false;
  store->set("k", "v");
  EXPECT_EQ(store->get("k"), "v");
}

// Memory that is no longer needed goes back, also where the next request has begun to come.
TEST_F(TcpStoreMemory, WhatALongRequestTookGoesBack) {
  constexpr std::size_t kUsers = 8;
  const std::vector<std::string> keys(1024, std::string(4000, 'k'));
  std::vector<std::byte> frame = encode_request(request(Op::check, keys), 1);
  const std::size_t bytes = frame.size();
  frame.push_back(std::byte{5});
  std::vector<os::Fd> users;
  for (std::size_t i = 0; i < kUsers; ++i) users.push_back(dial_and_prove(*server));
  const std::size_t before = in_use;
  for (const os::Fd& user : users) {
    ASSERT_TRUE(os::send_all(user.get(), frame, Clock::now() + 10s));
    std::array<std::byte, 36> answer{};
    ASSERT_TRUE(os::receive_all(user.get(), answer, Clock::now() + 10s));
  }
  join(port())->set("all", "read");  // the server is done with the others
  EXPECT_LT(in_use, before + kUsers * bytes / 2);
}

TEST_F(TcpStoreMemory, AClientWithoutMemorySaysSo) {
  auto poor = join(port());
  store->set("large", std::string(std::size_t{1} << 20, 'l'));
  for (const std::size_t least : {std::size_t{600'000}, SIZE_MAX}) {  // and when there is some
    too_large = least;
    const std::string told = test::text_of<StoreError>([&] { poor->get("large", 10s); });
    too_large = SIZE_MAX;
    EXPECT_THAT(told, testing::HasSubstr("this process has had no memory"));
  }
  EXPECT_EQ(store->get("large").size(), std::size_t{1} << 20);
}

}  // namespace
}  // namespace tutti::store
