#include "workers.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/format.hpp"
#include "base/getenv.hpp"
#include "os/environment.hpp"
#include "os/handed_memory.hpp"
#include "os/pipe.hpp"
#include "os/system_error.hpp"

namespace tutti::launcher {
namespace {

std::vector<std::string> environment_for(const Options& options, const Start& start,
                                         int local_rank) {
  os::Variables variables = os::environment();
  const int rank = options.node_rank * options.nproc_per_node + local_rank;
  const auto set = [&](const char* name, int value) { variables[name] = std::to_string(value); };
  set("RANK", rank);
  set("WORLD_SIZE", options.world_size());
  set("LOCAL_RANK", local_rank);
  set("LOCAL_WORLD_SIZE", options.nproc_per_node);
  set("GROUP_RANK", options.node_rank);
  set("GROUP_WORLD_SIZE", options.nnodes);
  // All nodes have the same role, so ranks within it are the ranks.
  variables["ROLE_NAME"] = options.role;
  set("ROLE_RANK", rank);
  set("ROLE_WORLD_SIZE", options.world_size());
  variables["TORCHELASTIC_RUN_ID"] = start.run_id;
  set("TORCHELASTIC_RESTART_COUNT", start.restart);
  set("TORCHELASTIC_MAX_RESTARTS", options.max_restarts);
  variables["MASTER_ADDR"] = start.address.master_addr;
  set("MASTER_PORT", start.address.master_port);
  set("TUTTI_STORE_PORT", start.address.store_port);
  variables["TUTTI_AGENT_STORE"] = "1";
  // A launcher started by another launcher's worker must not hand on that one's.
  for (const char* name :
       {"TUTTI_SECRET_FD", "TUTTI_SECRET_FILE", "TUTTI_JOB", os::kRecordVariable, "TUTTI_STDIN"})
    variables.erase(name);
  if (start.on_terminal) {
    variables["TUTTI_STDIN"] =
        start.stdin_rank == Options::kNoRank ? "none" : std::to_string(start.stdin_rank);
  }
  if (start.records->fd_of(local_rank) >= 0)
    variables[os::kRecordVariable] = start.records->name_of(local_rank);
  if (start.address.secret_fd >= 0) variables["TUTTI_SECRET_FD"] = start.address.secret;
  if (!start.address.secret_file.empty())
    variables["TUTTI_SECRET_FILE"] = start.address.secret_file;
  if (options.tls) variables["TUTTI_TLS"] = "1";
  if (!start.address.job.empty()) variables["TUTTI_JOB"] = start.address.job;
  if (!options.local_addr.empty()) variables["TUTTI_ADVERTISE"] = options.local_addr;
  // Its output goes through a pipe, where Python would keep it back until the end.
  variables.try_emplace("PYTHONUNBUFFERED", "1");
  // Its output is a pipe, so this is where progress bars look.
  if (start.columns > 0) {
    variables.try_emplace("COLUMNS", std::to_string(start.columns));
    variables.try_emplace("LINES", std::to_string(start.rows));
  }
  // Several workers with a thread per CPU each would fight for the CPUs; torchrun does the same.
  if (options.nproc_per_node > 1) variables.try_emplace("OMP_NUM_THREADS", "1");

  return os::entries_of(variables);
}

std::string tag_of(int rank) { return base::format("[{}]: ", rank); }

/// Prepares one stream and returns what the worker gets as its end.
Result<os::Fd> prepare_stream(const Options& options, const Start& start, int local_rank, int rank,
                              int number, Stream& stream) {
  const bool copied = options.tee.has(local_rank, number);
  const bool redirected = !copied && options.redirect.has(local_rank, number);
  stream.to = number;
  if (start.logs != nullptr && (copied || redirected)) {
    auto file = start.logs->open(start.restart, local_rank, number);
    if (!file) return file.status();
    stream.log_path = std::move(file->path);
    if (redirected) return std::move(file->fd);
    stream.log = std::move(file->fd);
  }
  if (start.passes_terminal && isatty(number) != 0)
    return os::Fd(fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  auto pipe = os::make_pipe("cannot make a pipe");
  if (!pipe) return pipe.status();
  // Only our end: the worker must not be surprised by a full pipe.
  if (fcntl(pipe->read.get(), F_SETFL, O_NONBLOCK) != 0)
    return os::system_error("cannot make a pipe", errno);
  stream.fd = std::move(pipe->read);
  stream.lines = LineBuffer(start.forms[static_cast<std::size_t>(number)],
                            start.tag ? tag_of(rank) : "", base::format("[rank{}]: ", rank));
  stream.shown =
      options.shown.empty() || std::ranges::find(options.shown, local_rank) != options.shown.end();
  return std::move(pipe->write);
}

/// The worker's standard input; invalid: ours.
Result<os::Fd> prepare_input(const Start& start, int rank) {
  if (rank == start.stdin_rank) return start.typed != nullptr ? start.typed->connect() : os::Fd();
  os::Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.valid()) return os::system_error("cannot open /dev/null", errno);
  return null;
}

bool runs_python(const Options& options) {
  switch (options.runner) {
    case Runner::by_name: return options.program.front().ends_with(".py");
    case Runner::python:
    case Runner::module: return true;
    case Runner::as_is: return false;
  }
  return false;
}

std::string python() {
  // The first is torchrun's.
  for (const char* name : {"PYTHON_EXEC", "PYTHON"}) {
    if (std::string value = base::getenv(name); !value.empty()) return value;
  }
  return "python3";
}

}  // namespace

std::vector<std::string> command_of(const Options& options, int local_rank) {
  std::vector<std::string> command;
  if (runs_python(options)) command.push_back(python());
  if (options.runner == Runner::module) command.emplace_back("-m");
  command.push_back(options.program.front());
  if (!options.local_rank_argument.empty())
    command.push_back(options.local_rank_argument + std::to_string(local_rank));
  command.insert(command.end(), options.program.begin() + 1, options.program.end());
  return command;
}

Result<std::unique_ptr<Worker>> start_worker(const Options& options, const Start& start,
                                             int local_rank) {
  auto worker = std::make_unique<Worker>();
  worker->rank = options.node_rank * options.nproc_per_node + local_rank;
  auto out = prepare_stream(options, start, local_rank, worker->rank, STDOUT_FILENO, worker->out);
  if (!out) return out.status();
  auto err = prepare_stream(options, start, local_rank, worker->rank, STDERR_FILENO, worker->err);
  if (!err) return err.status();
  auto input = prepare_input(start, worker->rank);
  if (!input) return input.status();

  os::SpawnOptions spawn;
  spawn.argv = command_of(options, local_rank);
  spawn.environment = environment_for(options, start, local_rank);
  if (input->valid()) spawn.fds.emplace_back(input->get(), STDIN_FILENO);
  spawn.fds.emplace_back(out->get(), STDOUT_FILENO);
  spawn.fds.emplace_back(err->get(), STDERR_FILENO);
  const int secret = start.address.secret_fd;
  if (secret >= 0) spawn.fds.emplace_back(secret, secret);
  if (start.passes_terminal && start.in_foreground) spawn.terminal = STDIN_FILENO;
  const int record = start.records->fd_of(local_rank);
  if (record >= 0) spawn.fds.emplace_back(record, record);
  spawn.parent_death_signal = SIGKILL;
  spawn.announce_fd = start.announce_fd;
  spawn.descriptors = start.descriptors;
  auto process = os::spawn(spawn);
  if (!process) {
    // The child may have had it.
    if (spawn.terminal >= 0) (void)tcsetpgrp(spawn.terminal, getpgrp());
    const Outcome& status = process.status();
    std::string hint;
    const std::string& program = options.program.front();
    if (status.code() == Errc::resource) {
      // A limit, which the text names.
    } else if (runs_python(options)) {
      hint = "; the variable PYTHON_EXEC says which Python to take";
    } else if (struct stat found; ::stat(program.c_str(), &found) == 0 && S_ISDIR(found.st_mode)) {
      hint = "; it is a folder";
    } else if (status.code() == Errc::refused && access(program.c_str(), F_OK) == 0) {
      hint = "; make it executable, or give its interpreter too (--run-path: Python)";
    } else if (status.code() == Errc::invalid_argument && program.find('/') == std::string::npos &&
               access(program.c_str(), X_OK) == 0) {
      hint = base::format("; did you mean ./{}?", program);
    }
    return Outcome(status.code(), std::string(status.message()) + hint);
  }
  worker->process = std::move(*process);
  return worker;
}

}  // namespace tutti::launcher
