#include "workers.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <map>

#include "os/system_error.hpp"

namespace tutti::launcher {
namespace {

using Variables = std::map<std::string, std::string>;

Variables our_environment() {
  Variables variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return variables;
}

std::vector<std::string> environment_for(const Options& options, const JobAddress& address,
                                         int local_rank) {
  Variables variables = our_environment();
  const int rank = options.node_rank * options.nproc_per_node + local_rank;
  const auto set = [&](const char* name, int value) { variables[name] = std::to_string(value); };
  set("RANK", rank);
  set("WORLD_SIZE", options.world_size());
  set("LOCAL_RANK", local_rank);
  set("LOCAL_WORLD_SIZE", options.nproc_per_node);
  set("GROUP_RANK", options.node_rank);
  set("GROUP_WORLD_SIZE", options.nnodes);
  variables["MASTER_ADDR"] = address.master_addr;
  set("MASTER_PORT", address.master_port);
  variables["TUTTI_AGENT_STORE"] = "1";
  // A launcher started by another launcher's worker must not hand on that one's.
  for (const char* name : {"TUTTI_SECRET_FD", "TUTTI_SECRET_FILE", "TUTTI_JOB"})
    variables.erase(name);
  if (address.secret_fd >= 0) set("TUTTI_SECRET_FD", address.secret_fd);
  if (!address.secret_file.empty()) variables["TUTTI_SECRET_FILE"] = address.secret_file;
  if (!address.job.empty()) variables["TUTTI_JOB"] = address.job;
  // Its output goes through a pipe, where Python would keep it back until the end.
  variables.try_emplace("PYTHONUNBUFFERED", "1");
  // Several workers with a thread per CPU each would fight for the CPUs; torchrun does the same.
  if (options.nproc_per_node > 1) variables.try_emplace("OMP_NUM_THREADS", "1");

  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
  return entries;
}

struct Pipe {
  os::Fd ours;
  os::Fd theirs;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return os::system_error("cannot make a pipe", errno);
  Pipe pipe{os::Fd(ends[0]), os::Fd(ends[1])};
  // Only our end: the worker must not be surprised by a full pipe.
  if (fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
    return os::system_error("cannot make a pipe", errno);
  return pipe;
}

}  // namespace

std::vector<std::string> command_of(const Options& options) {
  std::vector<std::string> command = options.program;
  if (options.module)
    command.insert(command.begin(), {"python3", "-m"});
  else if (command.front().ends_with(".py"))
    command.insert(command.begin(), "python3");
  return command;
}

Result<std::unique_ptr<Worker>> start_worker(const Options& options, const JobAddress& address,
                                             int local_rank, int announce_fd, bool tag) {
  auto out = make_pipe();
  if (!out) return out.status();
  auto err = make_pipe();
  if (!err) return err.status();
  os::Fd null;
  // A terminal is not for us to share: a worker's process group is never in its foreground, and
  // reading would stop the worker.
  if (local_rank != 0 || isatty(STDIN_FILENO) != 0) {
    null = os::Fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!null.valid()) return os::system_error("cannot open /dev/null", errno);
  }

  os::SpawnOptions spawn;
  spawn.argv = command_of(options);
  spawn.environment = environment_for(options, address, local_rank);
  if (null.valid()) spawn.fds.emplace_back(null.get(), STDIN_FILENO);
  spawn.fds.emplace_back(out->theirs.get(), STDOUT_FILENO);
  spawn.fds.emplace_back(err->theirs.get(), STDERR_FILENO);
  if (address.secret_fd >= 0) spawn.fds.emplace_back(address.secret_fd, address.secret_fd);
  spawn.parent_death_signal = SIGKILL;
  spawn.announce_fd = announce_fd;
  auto process = os::spawn(spawn);
  if (!process) return process.status();

  auto worker = std::make_unique<Worker>();
  worker->rank = options.node_rank * options.nproc_per_node + local_rank;
  worker->process = std::move(*process);
  const std::string prefix = tag ? fmt::format("[{}]: ", worker->rank) : "";
  worker->out.fd = std::move(out->ours);
  worker->out.lines = LineBuffer(prefix);
  worker->err.fd = std::move(err->ours);
  worker->err.lines = LineBuffer(prefix);
  worker->err.to = 2;
  return worker;
}

}  // namespace tutti::launcher
