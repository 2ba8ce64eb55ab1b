#pragma once

#include <memory>
#include <string>

#include <tutti/store.hpp>

namespace tutti::store {

/// A part of a store for the library's own keys, as make_prefix_store makes it. Error texts name
/// only the store below it: such a prefix means nothing to a user.
[[nodiscard]] std::shared_ptr<Store> make_part(std::string prefix, std::shared_ptr<Store> store);

}  // namespace tutti::store
