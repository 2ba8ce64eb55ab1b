#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "rendezvous/rendezvous.hpp"

// What a rank is told, without the environment of the test.
namespace tutti::rendezvous {

using Variables = std::map<std::string, std::string>;

inline std::function<const char*(const char*)> lookup_in(Variables variables) {
  return [variables = std::move(variables)](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

inline Settings settings_of(Variables variables, std::optional<std::string> url = {},
                            std::chrono::milliseconds timeout = std::chrono::seconds(10)) {
  Settings settings;
  settings.timeout = timeout;
  settings.init_method = std::move(url);
  settings.environment = lookup_in(std::move(variables));
  return settings;
}

/// Of a rank that is given a store.
inline Settings settings_in(std::shared_ptr<Store> store, int rank, int size,
                            Variables variables = {}) {
  Settings settings = settings_of(std::move(variables));
  settings.store = std::move(store);
  settings.rank = rank;
  settings.size = size;
  return settings;
}

/// Of a rank of a job.
inline Variables job_of(int rank, int size, Variables more = {}) {
  more.insert({{"RANK", std::to_string(rank)}, {"WORLD_SIZE", std::to_string(size)}});
  return more;
}

template <class T>
std::string message_of(const Result<T>& result) {
  return std::string(result.status().message());
}

/// The rendezvous of a rank that finds the others.
inline Rendezvous found_by(const Settings& settings) {
  auto found = find_others(settings);
  EXPECT_TRUE(found) << message_of(found);
  return found ? std::move(found).value() : Rendezvous();
}

}  // namespace tutti::rendezvous
