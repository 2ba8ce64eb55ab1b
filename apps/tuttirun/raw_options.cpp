#include "raw_options.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <vector>

#include <tutti/version.hpp>

#include "base/format.hpp"
#include "base/nearest.hpp"

namespace tutti::launcher {
namespace {

// torchrun's, about things that tuttirun does not do.
constexpr std::array<std::string_view, 6> kNotOurs = {"--numa-binding",
                                                      "--logs-specs",
                                                      "--event-log-handler",
                                                      "--virtual-local-rank",
                                                      "--duplicate-stdout-filters",
                                                      "--duplicate-stderr-filters"};

/// "--node-rank" in both spellings; short names stand before it.
std::string both(std::string_view name) {
  std::string other(name.substr(name.find("--")));
  std::replace(other.begin() + 2, other.end(), '-', '_');
  std::string all(name);
  return all.ends_with(other) ? all : all + "," + other;
}

/// torchrun's variable for an option: PET_NODE_RANK.
std::string variable_of(std::string_view name) {
  std::string variable = "PET_";
  for (const char letter : name.substr(name.find("--") + 2))
    variable += letter == '-' ? '_' : static_cast<char>(std::toupper(letter));
  return variable;
}

class Declaration {
 public:
  explicit Declaration(CLI::App& app) : app_(app) {}

  template <class T>
  CLI::Option* value(std::string_view name, T& to, const std::string& help) {
    return app_.add_option(both(name), to, help)->envname(variable_of(name));
  }
  CLI::Option* flag(std::string_view name, bool& to, const std::string& help) {
    return app_.add_flag(both(name), to, help)->envname(variable_of(name));
  }

 private:
  CLI::App& app_;
};

void declare_job(Declaration& declare, RawOptions& raw, Options& options) {
  declare
      .value("-n,--nproc-per-node", raw.nproc,
             "Workers on this node; cpu: one per CPU; gpu: one per GPU; auto: one per GPU, or per "
             "CPU where there is none. -np is understood, too")
      ->capture_default_str();
  declare.value("--backend", options.backend,
                "Backend of the workers (TUTTI_BACKEND); mpi: they are started by the mpiexec of "
                "the MPI library, and only --nproc-per-node and the options on the program may be "
                "beside it");
  declare.value("--nnodes", raw.nnodes, "Nodes of the job; start tuttirun on each")
      ->capture_default_str();
  declare.value("--node-rank", raw.node_rank, "Number of this node, from 0")->capture_default_str();
  declare
      .value(
          "--master-addr", options.master_addr,
          "Address or name of node 0; the store listens on all its addresses, or only on this one "
          "if it is a loopback address")
      ->capture_default_str();
  declare.value("--master-port", raw.master_port,
                "On one node MASTER_PORT of the workers [a free one]; on several the port of the "
                "store, and MASTER_PORT is the one after it [29500]");
  declare.value(
      "--secret-file", options.secret_file,
      "File (mode 600) with the job's secret, the same on all nodes [made on one node, else "
      "the user's key]");
  declare.flag("--tls", raw.tls,
               "Encrypt all TCP connections of the job (TLS 1.3), on all nodes or none "
               "[if TUTTI_TLS is 1]");
  declare.flag("--own-store", raw.own_store,
               "Accepted without effect: MASTER_PORT is always the program's own");
  declare.flag("--standalone", raw.standalone,
               "One node; the default, accepted for torchrun's sake");
  declare
      .value("--rdzv-backend", raw.rdzv_backend,
             "static: nodes are numbered by --node-rank; c10d: the store numbers them")
      ->capture_default_str();
  declare.value("--rdzv-endpoint", raw.rdzv_endpoint,
                "HOST:PORT of the store, in place of --master-addr and --master-port");
  declare.value("--rdzv-id", options.job_id,
                "Name of the job; nodes of another one are refused [none: nodes must have the same "
                "program and arguments]");
  declare.value("--rdzv-conf", raw.rdzv_conf,
                "KEY=VALUE,...: join_timeout or timeout (seconds that nodes wait for each other), "
                "is_host (c10d: whether this node serves the store)");
  declare.value("--local-addr", options.local_addr,
                "Address or name by which the other nodes reach the workers of this one "
                "(TUTTI_ADVERTISE), where it is not an address of its own");
}

void declare_watching(CLI::App& app, Declaration& declare, RawOptions& raw, Options& options) {
  declare
      .value("--max-restarts", raw.max_restarts,
             "After a failure start all workers again, so many times; the same on all nodes")
      ->capture_default_str();
  declare
      .value("--on-loss", raw.on_loss,
             "What follows where a worker is lost: end, of the whole job (then --max-restarts "
             "counts). Other words are reserved")
      ->capture_default_str();
  app.add_option("--grace", raw.grace,
                 "Seconds between asking workers to end, after one has failed, and ending them")
      ->capture_default_str();
  app.add_option(
         both("--grace-on-signal"), raw.grace_on_signal,
         "Seconds that the ranks have to end after a signal to tuttirun; then all processes "
         "of the workers are asked, and have --grace")
      ->capture_default_str();
  declare.value("--shutdown-timeout", raw.shutdown_timeout,
                "torchrun's name for both: --grace and --grace-on-signal, unless these are given");
  declare.value("--signals-to-handle", raw.signals_to_handle,
                "Signals to tuttirun that end the job, such as SIGUSR1, beside SIGTERM, SIGINT, "
                "SIGHUP and SIGQUIT, which always do. SIGUSR1, SIGUSR2, SIGWINCH and SIGCONT are "
                "else handed on to the ranks");
  declare.value("--monitor-interval", raw.monitor_interval,
                "Accepted for torchrun's sake: the end of a worker is noticed at once");
  declare.value("--start-method", raw.start_method,
                "Accepted for torchrun's sake (spawn, fork, forkserver): workers are programs of "
                "their own");
  declare
      .value("--role", options.role,
             "Name of these workers' role (ROLE_NAME), the same on all nodes")
      ->capture_default_str();
}

void declare_output(CLI::App& app, Declaration& declare, RawOptions& raw, Options& options) {
  app.add_option("--stdin", raw.input, "The rank that reads standard input, or none [rank 0]");
  auto* tag =
      app.add_flag("--tag", raw.tag, "Put [rank]: before each line of output [on a terminal]");
  app.add_flag("--no-tag,--no_tag", raw.no_tag, "Print lines without [rank]:")->excludes(tag);
  declare.value("--log-dir", options.log_dir,
                "Folder for files of the workers' output; alone it means --tee 3");
  declare.value(
      "-r,--redirects", raw.redirects,
      "Streams that go to files only: 1 stdout, 2 stderr, 3 both; or by local rank: 0:3,1:2");
  declare.value("-t,--tee", raw.tee, "Streams that go to files, too; numbered in the same way");
  declare.value("--record", options.record_dir,
                "Folder for a file of each rank's last operations (`tutti trace`); without it they "
                "are written after a failure, to a folder that is told");
  declare.value("--local-ranks-filter", raw.shown,
                "Show the output of these local ranks only, e.g. 0,2");
}

void declare_program(CLI::App& app, Declaration& declare, RawOptions& raw) {
  auto* module =
      declare.flag("-m,--module", raw.module, "The program is a Python module: python3 -m program");
  auto* no_python = declare.flag("--no-python", raw.no_python,
                                 "Start the program as it is, even if it is named *.py");
  auto* run_path =
      declare.flag("--run-path", raw.run_path, "Run it with Python, whatever its name is");
  module->excludes(no_python)->excludes(run_path);
  no_python->excludes(run_path);
  app.add_flag(
      "--pass-local-rank,--pass_local_rank", raw.pass_local_rank,
      "Give each worker its local rank as its first argument, as torch.distributed.launch does: "
      "--local_rank=K if an option of tuttirun on this line has an underscore, else "
      "--local-rank=K");
  app.add_flag("--use-env,--use_env", raw.use_env,
               "Do not, even so: the local rank stands in LOCAL_RANK [the default]");
}

}  // namespace

void declare_options(CLI::App& app, RawOptions& raw, Options& options) {
  app.prefix_command();
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.set_version_flag("--version", base::format("tuttirun {}", kVersion));
  Declaration declare(app);
  declare_job(declare, raw, options);
  declare_watching(app, declare, raw, options);
  declare_output(app, declare, raw, options);
  declare_program(app, declare, raw);
}

std::string advice_for(const CLI::App& app, const std::string& unknown) {
  std::string name = unknown.substr(0, unknown.find('='));
  std::ranges::replace(name, '_', '-');
  if (std::ranges::find(kNotOurs, name) != kNotOurs.end())
    return "torchrun has it, tuttirun does not: leave it out";
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& one : option->get_lnames())
      if (one.find('_') == std::string::npos) known.push_back("--" + one);
  }
  const auto found = base::nearest(name, known);
  return found ? base::format("did you mean {}?", *found) : "see tuttirun --help";
}

}  // namespace tutti::launcher
