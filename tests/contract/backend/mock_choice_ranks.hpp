#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mock_nccl_ranks.hpp"

namespace tutti::test {

/// Our own engine whose groups may choose NCCL; ranks are threads.
inline constexpr std::string_view kChoosing = "choosing_mock";

inline Result<Backend*> make_choosing(const WorldOptions& options) {
  staged::BesideOptions beside;
  beside.name = "nccl";
  beside.make = [rank = options.identity.rank, config = options.config](Backend* cpus,
                                                                        const std::string& group) {
    WorldOptions its;
    its.name = group;
    its.config = config;
    return make_mock_nccl_beside(cpus, its, rank);
  };
  return make_mock_staged(options, std::move(beside));
}

/// `gpus`: that of each rank; all say cuda:0.
inline void run_mock_choice(MockNcclWorld& mock, const std::vector<int>& gpus,
                            const Arrangement::Body& body,
                            const staged::DirectOptions& direct = {}) {
  if (!is_available(kChoosing)) {
    BackendFactory factory;
    factory.name = kChoosing;
    factory.make_world = make_choosing;
    register_backend(std::move(factory));
  }
  for (std::size_t rank = 0; rank < gpus.size(); ++rank)
    mock.machine.first_gpu[static_cast<int>(rank)] = gpus[rank];
  run_mock(mock, {.direct = direct}, kChoosing, body);
}

inline void run_choice(MockNcclWorld& mock, const std::vector<int>& gpus,
                       const Arrangement::Body& body, const staged::DirectOptions& direct = {}) {
  run_mock_choice(mock, gpus, body, direct);
  expect_clean(mock.machine);
}

}  // namespace tutti::test
