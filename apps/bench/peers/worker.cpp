#include "apps/bench/peers/worker.hpp"

#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace tutti::bench {

namespace {

int obey_harness(Library& library, int fd) {
  Hello hello;
  hello.rank = library.rank();
  hello.size = library.size();
  std::snprintf(hello.title, sizeof hello.title, "%s", library.name().c_str());
  if (!send_all(fd, &hello, sizeof hello)) return 1;
  Performer performer(library);
  Command command;
  while (receive_all(fd, &command, sizeof command)) {
    if (command.magic != kMagic) return 1;
    if (command.task == Task::quit) return 0;
    const Answer answer = performer.obey(command);
    const auto samples = performer.samples();
    if (!send_all(fd, &answer, sizeof answer) ||
        !send_all(fd, samples.data(), samples.size_bytes())) {
      return 1;
    }
  }
  return 1;  // the harness went away without saying quit
}

}  // namespace

WorkerOptions parse_worker_options(int argc, char** argv) {
  WorkerOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--pin" || name == "--gpu") {
      (name == "--pin" ? options.pin : options.gpu) = true;
      continue;
    }
    if (++i == argc) throw std::invalid_argument(name + " needs a value");
    if (name == "--socket") {
      options.socket = argv[i];
    } else if (name == "--rank") {
      options.rank = std::atoi(argv[i]);
    } else if (name == "--size") {
      options.size = std::atoi(argv[i]);
    } else if (name == "--directory") {
      options.directory = argv[i];
    } else if (name == "--address") {
      options.address = argv[i];
    } else {
      throw std::invalid_argument("unknown option " + name);
    }
  }
  if (options.socket.empty()) {
    throw std::invalid_argument("this program is started by `tutti bench`: --socket is missing");
  }
  return options;
}

void pin_to_cpu_of(int rank) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  int left = rank % std::max(1, CPU_COUNT(&allowed));
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || left-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ::sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

int serve(Library& library, const std::string& socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket.size() >= sizeof address.sun_path) throw std::invalid_argument("socket path too long");
  std::memcpy(address.sun_path, socket.c_str(), socket.size() + 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    std::perror("cannot reach `tutti bench`");
    return 1;
  }
  const int code = obey_harness(library, fd);
  ::close(fd);
  return code;
}

}  // namespace tutti::bench
