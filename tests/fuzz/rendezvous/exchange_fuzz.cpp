// A store that answers anything: ranks that meet there get one text for each rank or an error.

#include <chrono>
#include <string>

#include "fuzz/fuzzer.hpp"
#include "fuzz/input.hpp"
#include "rendezvous/rendezvous.hpp"

namespace tutti::fuzz::exchange_parser {

class LyingStore final : public tutti::Store {
 public:
  explicit LyingStore(Input& input) : input_(input) {}

 protected:
  void do_set(std::string_view, std::string_view, Deadline) override {}
  std::string do_get(std::string_view, Deadline) override { return text(); }
  std::int64_t do_add(std::string_view, std::int64_t, Deadline) override {
    return input_.number<std::int8_t>();
  }
  bool do_check(std::span<const std::string>, Deadline) override {
    return input_.number<std::uint8_t>() % 2 == 1;
  }
  void do_wait(std::span<const std::string>, Deadline) override {}
  // Mostly what an honest one would say: that nobody was before.
  std::string do_compare_set(std::string_view, std::string_view, std::string_view desired,
                             Deadline) override {
    return input_.number<std::uint8_t>() % 4 == 3 ? text() : std::string(desired);
  }
  bool do_delete_key(std::string_view, Deadline) override { return false; }
  std::vector<std::string> do_list_keys(Deadline) override { return {}; }
  bool do_set_will(std::string_view, std::string_view, Deadline) override {
    return input_.number<std::uint8_t>() % 2 == 1;
  }
  void do_drop_will(std::string_view, Deadline) override {}

 private:
  std::string text() {
    const auto bytes = input_.bytes(input_.number<std::uint16_t>());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  Input& input_;
};

TUTTI_FUZZER(exchange_fuzz)(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const int ranks = 1 + input.number<std::uint8_t>() % 5;
  const int rank = input.number<std::uint8_t>() % ranks;
  LyingStore store(input);
  auto texts =
      tutti::rendezvous::exchange(store, "worker_addresses", rank, ranks, "mine",
                                  tutti::rendezvous::Clock::now() + std::chrono::seconds(10));
  if (!texts) {
    require(texts.status().code() != tutti::Errc::ok);
    require(texts.status().culprit().value_or(0) < ranks);
    return 0;
  }
  require(texts->size() == static_cast<std::size_t>(ranks));
  return 0;
}

}  // namespace tutti::fuzz::exchange_parser
