#include "backend/mpi/meeting.hpp"

#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include <poll.h>

namespace tutti::mpi {
namespace {

Status mpi_status(Api& api, const char* what, int code) {
  return Status(Errc::internal,
                "meeting by MPI: " + std::string(what) + " failed: " + api.error_text(code));
}

/// Until the request is done; the deadline is that of init.
Status wait_for(Driver& driver, Request request, std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    bool done = false;
    const int code = driver.with([&] { return driver.api().test(request, done, nullptr); });
    if (code != 0) return mpi_status(driver.api(), "telling the others", code);
    if (done) return {};
    if (std::chrono::steady_clock::now() > deadline)
      return Status(Errc::timeout,
                    "meeting by MPI timed out: not all ranks of MPI_COMM_WORLD have called "
                    "init_process_group; all of them must");
    const timespec pause{0, 50'000};
    (void)::ppoll(nullptr, 0, &pause, nullptr);  // MPI has no event
  }
}

Result<std::vector<std::string>> exchange(Driver& driver, Comm comm, int size,
                                          const std::string& mine,
                                          std::chrono::steady_clock::time_point deadline) {
  Api& api = driver.api();
  std::vector<int> lengths(static_cast<std::size_t>(size));
  const int length = static_cast<int>(mine.size());
  Request request{};
  int code = driver.with([&] {
    return api.iall_gather(&length, lengths.data(), sizeof(length), api.byte(), comm, request);
  });
  if (code != 0) return mpi_status(api, "telling the others", code);
  // Memory that MPI works on stays until then, or for good.
  if (Status s = wait_for(driver, request, deadline); !s.ok()) {
    new std::vector<int>(std::move(lengths));
    return s;
  }
  std::vector<int> offsets(lengths.size());
  std::exclusive_scan(lengths.begin(), lengths.end(), offsets.begin(), 0);
  std::string all(static_cast<std::size_t>(offsets.back() + lengths.back()), '\0');
  code = driver.with([&] {
    return api.iall_gather_v(mine.data(), length, all.data(), lengths.data(), offsets.data(),
                             api.byte(), comm, request);
  });
  if (code != 0) return mpi_status(api, "telling the others", code);
  if (Status s = wait_for(driver, request, deadline); !s.ok()) {
    new std::string(std::move(all));
    return s;
  }
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < lengths.size(); ++r)
    texts.push_back(
        all.substr(static_cast<std::size_t>(offsets[r]), static_cast<std::size_t>(lengths[r])));
  return texts;
}

}  // namespace

Status duplicate(Driver& driver, Comm base, std::chrono::steady_clock::time_point deadline,
                 Comm& made) {
  Api& api = driver.api();
  auto result = std::make_unique<Comm>();
  Request request{};
  int code = driver.with([&] { return api.iduplicate(base, *result, request); });
  if (code != 0) return mpi_status(api, "MPI_Comm_idup", code);
  if (Status s = wait_for(driver, request, deadline); !s.ok()) {
    (void)result.release();  // MPI may still write it
    return s;
  }
  made = *result;
  code = driver.with([&] { return api.return_errors(made); });
  if (code != 0) return mpi_status(api, "MPI_Comm_set_errhandler", code);
  return {};
}

Result<Meeting> meet(Driver& driver, const std::any& options,
                     std::chrono::steady_clock::time_point deadline) {
  Api& api = driver.api();
  Comm base = api.world();
  if (const auto* const given = std::any_cast<std::uintptr_t>(&options)) base = Comm{*given};
  if (const std::string why = driver.forbidden(); !why.empty())
    return Status(Errc::unsupported, why);
  Meeting meeting;
  Comm comm{};
  const int code = driver.with([&] {
    const int made = api.rank(base, meeting.rank);
    return made != 0 ? made : api.size(base, meeting.size);
  });
  if (code != 0) return mpi_status(api, "asking MPI for its ranks", code);
  if (Status s = duplicate(driver, base, deadline, comm); !s.ok()) return s;
  const std::shared_ptr<Comm> kept(new Comm(comm), [&driver](Comm* ours) {
    driver.with([&] { return driver.api().free(*ours); });
    delete ours;
  });
  meeting.exchange = [&driver, kept, size = meeting.size, deadline](const std::string& mine) {
    return exchange(driver, *kept, size, mine, deadline);
  };
  return meeting;
}

}  // namespace tutti::mpi
