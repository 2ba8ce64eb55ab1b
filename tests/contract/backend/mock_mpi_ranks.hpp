#pragma once

#include "arrangement.hpp"
#include "backend/mpi/mpi_backend.hpp"
#include "backend/mpi/promises.hpp"
#include "backend/mpi/rendezvous.hpp"
#include "mock_mpi.hpp"

namespace tutti::test {

/// The backend on MPI, over a mock of MPI whose ranks are threads. Its world is made as a program
/// makes one, by the rendezvous of the backend.
inline constexpr std::string_view kMockMpiBackend = "mpi_mock";

/// What a rank of the mock has for itself.
struct MockMpiRank {
  MockRank* api = nullptr;
  std::unique_ptr<mpi::Driver> driver;
};

inline void make_mock_mpi_known() {
  static std::once_flag once;
  std::call_once(once, [] {
    const auto driver_of = [](const std::any& options) -> Result<mpi::Driver*> {
      auto* const rank = std::any_cast<MockMpiRank*>(options);
      if (!rank->driver) {
        auto driver = mpi::Driver::make(*rank->api);
        if (!driver) return driver.status();
        rank->driver = std::move(*driver);
      }
      return rank->driver.get();
    };
    const auto rendezvous =
        [driver_of](const std::any& options,
                    std::chrono::steady_clock::time_point deadline) -> Result<BackendRendezvous> {
      Result<mpi::Driver*> driver = driver_of(options);
      if (!driver) return driver.status();
      return mpi::rendezvous(**driver, {}, deadline);
    };
    const auto make_world = [driver_of](const WorldOptions& options) -> Result<Backend*> {
      Result<mpi::Driver*> driver = driver_of(options.backend_options);
      if (!driver) return driver.status();
      WorldOptions own = options;
      own.backend_options = {};
      return mpi::MpiBackend::make_world(**driver, own);
    };
    register_backend({.name = std::string(kMockMpiBackend),
                      .rendezvous = rendezvous,
                      .make_world = make_world,
                      .promises = mpi::kPromises});
  });
}

/// Runs the body on each rank of this MPI, with its world. Returns how each rank ended. The timeout
/// is that of operations: to make the world a rank may need longer, on a busy machine.
inline std::vector<std::exception_ptr> errors_of_mock_mpi(
    MockMpi& mpi, const Config& config, const Arrangement::Body& body,
    std::chrono::nanoseconds init_timeout = kForever) {
  make_mock_mpi_known();
  std::vector<MockMpiRank> ranks(static_cast<std::size_t>(mpi.size()));
  std::vector<std::exception_ptr> errors(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    ranks[r].api = &mpi.rank(static_cast<int>(r));
    threads.emplace_back([&, r] {
      try {
        Config own = config;
        own.backend = kMockMpiBackend;
        own.timeout = init_timeout;
        ProcessGroup world =
            init_process_group({.config = own, .backend_options = std::any(&ranks[r])});
        world.set_timeout(config.timeout);
        body(world);
        // A rank that is ahead must not end before the others have what they wait for.
        if (world.health().ok()) world.barrier().wait();
      } catch (...) {
        errors[r] = std::current_exception();
      }
    });
  }
  for (std::thread& one : threads) one.join();
  return errors;
}

/// The same. The first error of a rank is thrown.
template <class Mpi>
void run_mock_mpi(Mpi&& mpi, const Config& config, const Arrangement::Body& body) {
  for (const std::exception_ptr& one : errors_of_mock_mpi(mpi, config, body)) {
    if (one) std::rethrow_exception(one);
  }
}
template <class Mpi>
void run_mock_mpi(Mpi&& mpi, const Arrangement::Body& body) {
  run_mock_mpi(mpi, patient(), body);
}

}  // namespace tutti::test
