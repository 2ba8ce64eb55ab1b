#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>

#include "base/format.hpp"
#include "store/request_store.hpp"
#include "store/secret.hpp"
#include "store/store_table.hpp"

namespace tutti::store {
namespace {

class HashStore final : public RequestStore<Store> {
 public:
  /// No value leaves this process.
  [[nodiscard]] SecretBytes derive_secret(std::string_view drawn) const override {
    return to_secret(drawn);
  }
  [[nodiscard]] std::string describe() const override {
    return base::format("store {} of this process", number_);
  }

 protected:
  Response call(Request request, Deadline deadline) override {
    std::unique_lock lock(mutex_);
    const auto now = Clock::now();
    const StoreTable::Ticket ticket = next_ticket_++;
    // The table counts from its `now` in whole milliseconds; the waiting below ends by the
    // deadline itself.
    request.timeout_ms = UINT32_MAX;
    std::vector<std::string> keys = request.keys;
    if (auto response = store_table_.submit(std::move(request), ticket, now)) {
      hand_out();
      return *std::move(response);
    }
    Slot slot;
    try {
      slots_.emplace(ticket, &slot);
    } catch (...) {
      store_table_.cancel(ticket);
      throw;
    }
    while (!slot.over && Clock::now() < deadline) slot.ready.wait_until(lock, deadline);
    if (slot.over) {
      if (slot.response == nullptr) throw std::bad_alloc();
      return *slot.response;
    }
    slots_.erase(ticket);
    store_table_.cancel(ticket);
    Response response;
    response.code = Errc::timeout;
    response.values = std::move(keys);
    return response;
  }

 private:
  struct Slot {
    bool over = false;
    std::shared_ptr<const Response> response;  ///< null: there was no memory for it
    std::condition_variable ready;
  };

  static std::uint64_t next_number() noexcept {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;  // relaxed: it only counts
  }
  void hand_out() {
    while (auto answer = store_table_.take_answer()) {
      const auto entry = slots_.find(answer->ticket);
      entry->second->over = true;
      entry->second->response = std::move(answer->response);
      entry->second->ready.notify_one();
      slots_.erase(entry);
    }
  }

  // Each is a place of its own, and ranks count how often they have met at a place.
  const std::uint64_t number_ = next_number();
  std::mutex mutex_;
  StoreTable store_table_;
  StoreTable::Ticket next_ticket_ = 1;
  std::unordered_map<StoreTable::Ticket, Slot*> slots_;  // of the threads that wait in `call`
};

}  // namespace
}  // namespace tutti::store

namespace tutti {
inline namespace v0 {

std::shared_ptr<Store> make_hash_store() { return std::make_shared<store::HashStore>(); }

}  // namespace v0
}  // namespace tutti
