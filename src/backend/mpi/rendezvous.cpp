#include "backend/mpi/rendezvous.hpp"

#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>

#include <poll.h>

#include "base/kept.hpp"

namespace tutti::mpi {
namespace {

Outcome mpi_status(Api& api, const char* what, int code) {
  return Outcome(Errc::internal,
                 "rendezvous by MPI: " + std::string(what) + " failed: " + api.error_text(code));
}

/// Until the request is done; the deadline is that of init.
Outcome wait_for(Driver& driver, Request request, std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    bool done = false;
    const int code = driver.with([&] { return driver.api().test(request, done, nullptr); });
    if (code != 0) return mpi_status(driver.api(), "telling the others", code);
    if (done) return {};
    if (std::chrono::steady_clock::now() > deadline)
      return Outcome(Errc::timeout,
                     "rendezvous by MPI timed out: not all ranks of MPI_COMM_WORLD have called "
                     "init_process_group; all of them must");
    const timespec pause{0, 50'000};
    (void)::ppoll(nullptr, 0, &pause, nullptr);  // MPI has no event
  }
}

/// The memory that MPI reads and writes while texts are told.
struct Texts {
  std::string mine;
  int length = 0;
  std::vector<int> lengths;
  std::vector<int> offsets;
  std::vector<char> all;
};

Result<std::vector<std::string>> exchange(Driver& driver, Comm comm, int size,
                                          const std::string& mine,
                                          std::chrono::steady_clock::time_point deadline) {
  Api& api = driver.api();
  auto texts = std::make_unique<Texts>();
  texts->mine = mine;
  texts->length = static_cast<int>(mine.size());
  texts->lengths.resize(static_cast<std::size_t>(size));
  Request request{};
  int code = driver.with([&] {
    return api.iall_gather(&texts->length, texts->lengths.data(), sizeof(int), api.byte(), comm,
                           request);
  });
  if (code != 0) return mpi_status(api, "telling the others", code);
  if (Outcome s = wait_for(driver, request, deadline); !s.ok()) {
    base::keep_for_good(std::move(texts));
    return s;
  }
  texts->offsets.resize(texts->lengths.size());
  std::exclusive_scan(texts->lengths.begin(), texts->lengths.end(), texts->offsets.begin(), 0);
  texts->all.resize(static_cast<std::size_t>(texts->offsets.back() + texts->lengths.back()));
  code = driver.with([&] {
    return api.iall_gather_v(texts->mine.data(), texts->length, texts->all.data(),
                             texts->lengths.data(), texts->offsets.data(), api.byte(), comm,
                             request);
  });
  if (code != 0) return mpi_status(api, "telling the others", code);
  if (Outcome s = wait_for(driver, request, deadline); !s.ok()) {
    base::keep_for_good(std::move(texts));
    return s;
  }
  std::vector<std::string> told;
  for (std::size_t r = 0; r < texts->lengths.size(); ++r)
    told.emplace_back(texts->all.data() + texts->offsets[r],
                      static_cast<std::size_t>(texts->lengths[r]));
  return told;
}

}  // namespace

Outcome duplicate(Driver& driver, Comm base, std::chrono::steady_clock::time_point deadline,
                  Comm& made) {
  Api& api = driver.api();
  auto result = std::make_unique<Comm>();
  Request request{};
  int code = driver.with([&] { return api.iduplicate(base, *result, request); });
  if (code != 0) return mpi_status(api, "MPI_Comm_idup", code);
  if (Outcome s = wait_for(driver, request, deadline); !s.ok()) {
    base::keep_for_good(std::move(result));
    return s;
  }
  made = *result;
  code = driver.with([&] { return api.return_errors(made); });
  if (code != 0) return mpi_status(api, "MPI_Comm_set_errhandler", code);
  return {};
}

Result<Ranks> ranks_of(Api& api, const std::any& options) {
  using Both = std::pair<std::uintptr_t, std::vector<int>>;
  Ranks ranks{api.world(), std::nullopt};
  if (const auto* const handle = std::any_cast<std::uintptr_t>(&options)) {
    ranks.comm = Comm{*handle};
  } else if (const auto* const members = std::any_cast<std::vector<int>>(&options)) {
    ranks.members = *members;
  } else if (const auto* const both = std::any_cast<Both>(&options)) {
    ranks = {Comm{both->first}, both->second};
  } else if (options.has_value()) {
    return Outcome(Errc::invalid_argument,
                   "backend_options of 'mpi' must be what mpi_handle(communicator) gives "
                   "(<tutti/mpi.hpp>), or be left out for MPI_COMM_WORLD");
  }
  if (api.is_null(ranks.comm))
    return Outcome(Errc::invalid_argument,
                   "backend_options of 'mpi' is MPI_COMM_NULL: this process is in no such "
                   "communicator, so it must not call init_process_group with it");
  return ranks;
}

Result<BackendRendezvous> rendezvous(Driver& driver, const std::any& options,
                                     std::chrono::steady_clock::time_point deadline) {
  Api& api = driver.api();
  const Result<Ranks> given = ranks_of(api, options);
  if (!given) return given.status();
  if (given.value().members)
    return Outcome(Errc::invalid_argument,
                   "backend_options of 'mpi': a list of ranks needs rank, size and an exchange");
  const Comm base = given.value().comm;
  if (const std::string why = driver.forbidden(); !why.empty())
    return Outcome(Errc::unsupported, why);
  BackendRendezvous found;
  Comm comm{};
  const int code = driver.with([&] {
    const int made = api.rank(base, found.rank);
    return made != 0 ? made : api.size(base, found.size);
  });
  if (code != 0) return mpi_status(api, "asking MPI for its ranks", code);
  if (Outcome s = duplicate(driver, base, deadline, comm); !s.ok()) return s;
  const std::shared_ptr<Comm> kept(new Comm(comm), [&driver](Comm* ours) {
    driver.with([&] { return driver.api().free(*ours); });
    delete ours;
  });
  found.exchange = [&driver, kept, size = found.size, deadline](const std::string& mine) {
    return exchange(driver, *kept, size, mine, deadline);
  };
  return found;
}

}  // namespace tutti::mpi
