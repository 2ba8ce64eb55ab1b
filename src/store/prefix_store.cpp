#include <tutti/store.hpp>

#include "base/deadline.hpp"
#include "base/format.hpp"
#include "store/part.hpp"
#include "store/served.hpp"

namespace tutti::store {
namespace {

using base::left_until;

class PrefixStore final : public Store {
 public:
  /// `shown`: error texts name the prefix, too.
  PrefixStore(std::string prefix, std::shared_ptr<Store> inner, bool shown)
      : prefix_(std::move(prefix) + "/"), inner_(std::move(inner)), shown_(shown) {
    set_timeout(inner_->get_timeout());
  }

  [[nodiscard]] SecretBytes derive_secret(std::string_view drawn) const override {
    return inner_->derive_secret(drawn);
  }
  [[nodiscard]] std::string describe() const override {
    if (!shown_) return inner_->describe();
    return base::format("{} (under \"{}\")", inner_->describe(), prefix_);
  }
  [[nodiscard]] std::shared_ptr<const Served> served() const override {
    const std::shared_ptr<const Served> inner = inner_->served();
    if (!inner) return nullptr;
    return std::make_shared<const Served>(Served{inner->client, inner->prefix + prefix_});
  }

 protected:
  void do_set(std::string_view key, std::string_view value, Deadline deadline) override {
    inner_->set(full(key), value, left_until(deadline));
  }
  std::string do_get(std::string_view key, Deadline deadline) override {
    return inner_->get(full(key), left_until(deadline));
  }
  std::int64_t do_add(std::string_view key, std::int64_t amount, Deadline deadline) override {
    return inner_->add(full(key), amount, left_until(deadline));
  }
  bool do_check(std::span<const std::string> keys, Deadline deadline) override {
    return inner_->check(full(keys), left_until(deadline));
  }
  void do_wait(std::span<const std::string> keys, Deadline deadline) override {
    inner_->wait(full(keys), left_until(deadline));
  }
  std::string do_compare_set(std::string_view key, std::string_view expected,
                             std::string_view desired, Deadline deadline) override {
    return inner_->compare_set(full(key), expected, desired, left_until(deadline));
  }
  bool do_delete_key(std::string_view key, Deadline deadline) override {
    return inner_->delete_key(full(key), left_until(deadline));
  }
  std::vector<std::string> do_list_keys(Deadline deadline) override {
    std::vector<std::string> keys;
    for (const std::string& key : inner_->list_keys(left_until(deadline)))
      if (key.starts_with(prefix_)) keys.push_back(key.substr(prefix_.size()));
    return keys;
  }
  void do_append(std::string_view key, std::string_view value, Deadline deadline) override {
    inner_->append(full(key), value, left_until(deadline));
  }
  std::vector<std::string> do_multi_get(std::span<const std::string> keys,
                                        Deadline deadline) override {
    return inner_->multi_get(full(keys), left_until(deadline));
  }
  void do_multi_set(std::span<const KeyValue> pairs, Deadline deadline) override {
    std::vector<KeyValue> renamed;
    for (const auto& [key, value] : pairs) renamed.emplace_back(full(key), value);
    inner_->multi_set(renamed, left_until(deadline));
  }
  void do_queue_push(std::string_view queue, std::string_view value, Deadline deadline) override {
    inner_->queue_push(full(queue), value, left_until(deadline));
  }
  std::string do_queue_pop(std::string_view queue, Deadline deadline) override {
    return inner_->queue_pop(full(queue), left_until(deadline));
  }
  std::optional<std::string> do_queue_try_pop(std::string_view queue, Deadline deadline) override {
    return inner_->queue_try_pop(full(queue), left_until(deadline));
  }
  std::int64_t do_queue_len(std::string_view queue, Deadline deadline) override {
    return inner_->queue_len(full(queue), left_until(deadline));
  }
  bool do_set_will(std::string_view key, std::string_view value, Deadline deadline) override {
    return inner_->set_will(full(key), value, left_until(deadline));
  }
  void do_drop_will(std::string_view key, Deadline deadline) override {
    inner_->drop_will(full(key), left_until(deadline));
  }

 private:
  [[nodiscard]] std::string full(std::string_view key) const { return prefix_ + std::string(key); }
  [[nodiscard]] std::vector<std::string> full(std::span<const std::string> keys) const {
    std::vector<std::string> renamed;
    renamed.reserve(keys.size());
    for (const std::string& key : keys) renamed.push_back(full(key));
    return renamed;
  }

  std::string prefix_;
  std::shared_ptr<Store> inner_;
  bool shown_;
};

}  // namespace

std::shared_ptr<Store> make_part(std::string prefix, std::shared_ptr<Store> store) {
  return std::make_shared<PrefixStore>(std::move(prefix), std::move(store), false);
}

}  // namespace tutti::store

namespace tutti {
inline namespace v0 {

std::shared_ptr<Store> make_prefix_store(std::string prefix, std::shared_ptr<Store> store) {
  if (!store) raise(Outcome(Errc::invalid_argument, "a prefix store needs a store beneath it"));
  return std::make_shared<store::PrefixStore>(std::move(prefix), std::move(store), true);
}

}  // namespace v0
}  // namespace tutti
