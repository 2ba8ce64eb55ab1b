#include "rendezvous/rendezvous.hpp"

#include <unistd.h>

#include "base/fnv.hpp"
#include "base/format.hpp"
#include "os/host.hpp"
#include "record/start_watch.hpp"
#include "rendezvous/beside_agent.hpp"
#include "rendezvous/environment.hpp"
#include "rendezvous/generations.hpp"
#include "rendezvous/launcher_process.hpp"
#include "rendezvous/url.hpp"
#include "store/file_sweep.hpp"
#include "store/job_secret.hpp"
#include "store/part.hpp"
#include "store/secret.hpp"
#include "store/served.hpp"
#include "store/tcp_store.hpp"

namespace tutti::rendezvous {
namespace {

constexpr std::string_view kAdvice =
    "start the program with tuttirun, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT";

/// Stands for all addresses of this host: where rank 0 serves that was not told its own.
constexpr const char* kAnyAddress = "0.0.0.0";

// Shared by all schemes: a checked rank and size, and the job's secret.
class RendezvousHandler {
 public:
  explicit RendezvousHandler(const Settings& settings)
      : settings_(settings), environment_(settings.environment) {
    place_.rank = settings.rank;
    place_.size = settings.size;
    place_.local_rank = settings.local_rank;
  }

  /// Takes from the URL each value that is not given.
  void take_place(const Url& url) {
    if (!place_.rank) place_.rank = url.rank;
    if (!place_.size) place_.size = url.size;
  }
  Result<Rendezvous> by_env();
  Result<Rendezvous> by_tcp(const Url& url);
  Result<Rendezvous> by_file(const Url& url);
  Result<Rendezvous> by_store();

 private:
  // The file for ranks of one host that know nothing but their launcher, and how the names of all
  // such files of this user begin.
  [[nodiscard]] static std::string local_name() {
    return base::format("tutti-job-{}-", ::geteuid());
  }
  [[nodiscard]] Result<std::string> local_path() const;
  // The part of a store that belongs to this job name: of all its groups.
  [[nodiscard]] std::string part() const {
    return settings_.job_name.empty() ? "tutti/"
                                      : base::format("tutti/named/{}/", settings_.job_name);
  }
  // The key under which this process counts the groups that it makes at one place.
  [[nodiscard]] std::string counter(const std::string& place) const {
    return base::format("{} {} {}", place, result_.identity.rank, settings_.job_name);
  }
  // The part of the store for this group; `store` is the whole one.
  void take_part_of(const std::shared_ptr<Store>& store) {
    result_.store =
        store::make_part(base::format("{}{}", part(), result_.identity.generation), store);
  }
  // Connections of ranks of other job names are refused.
  Rendezvous found() {
    if (!settings_.job_name.empty()) job_ += "\n" + settings_.job_name;
    result_.identity.job = base::fnv_of(job_);
    return std::move(result_);
  }
  // Rank, size and a given secret into the result; `how` names the way that needs them.
  Outcome settle(std::string_view how);
  // The secret of the job, given or not, into the result.
  Outcome take_secret();
  void use(store::JobSecret secret) {
    result_.identity.secret = secret.bytes;
    result_.authenticated = !secret.bytes.empty();
    secret_ = std::move(secret);
  }
  /// `agent`: a launcher serves the store. `beside`: torchrun has that port, and rank 0 one next to
  /// it.
  Result<Rendezvous> over_tcp(std::string host, int port, bool agent, bool beside = false);
  Result<Rendezvous> over_file(const std::string& path);
  Result<Rendezvous> over_store(const std::shared_ptr<Store>& store, const std::string& place);
  /// Told why the store cannot be reached yet.
  [[nodiscard]] store::OnWait on_wait() const;
  [[nodiscard]] Outcome failed(const Error& error) const {
    return Outcome(error.code(),
                   base::format("rank {} of {} cannot join the job: {}", result_.identity.rank,
                                result_.identity.size, error.what()));
  }

  const Settings& settings_;
  Environment environment_;
  Place place_;
  store::JobSecret secret_;
  std::string job_;  ///< name of the job
  Rendezvous result_;
};

Outcome RendezvousHandler::settle(std::string_view how) {
  std::string missing;
  if (!place_.rank) missing = "rank";
  if (!place_.size) missing += missing.empty() ? "world_size" : " and world_size";
  if (!missing.empty()) {
    return cannot_join(base::format(
        "{} needs {}: give it to init_process_group, behind the URL (?rank=0&world_size=4) or in "
        "RANK and WORLD_SIZE",
        how, missing));
  }
  if (Outcome s = check_place(place_); !s) return s;
  result_.identity.rank = *place_.rank;
  result_.identity.size = *place_.size;
  result_.local_rank = place_.local_rank.value_or(0);
  if (settings_.watch != nullptr)
    settings_.watch->show(result_.identity.rank, result_.identity.size, os::host_name());
  auto secret = store::given_secret(environment_.lookup(), settings_.secret);
  if (!secret) return secret.status();
  if (*secret) use(std::move(**secret));
  job_ = environment_.text("TUTTI_JOB").value_or("");
  return {};
}

Outcome RendezvousHandler::take_secret() {
  auto secret = store::job_secret(environment_.lookup(), settings_.secret);
  if (secret) use(std::move(*secret));
  return secret.status();
}

Result<Rendezvous> RendezvousHandler::by_env() {
  if (Outcome s = complete(place_, environment_); !s) return s;
  std::optional<int> port = settings_.master_port;
  const char* variable = "MASTER_PORT";
  // A launcher's own store may not stand on the port that other libraries use as well.
  for (const char* const name : {"TUTTI_STORE_PORT", "MASTER_PORT"}) {
    if (port) break;
    auto number = environment_.number(name);
    if (!number) return number.status();
    port = *number;
    variable = name;
  }
  std::optional<std::string> master =
      settings_.master_addr ? settings_.master_addr : environment_.text("MASTER_ADDR");
  const bool started_by_others = !place_.launcher.empty() && place_.rank && place_.size;
  if (started_by_others && !port && !master) {
    if (Outcome s = settle("env://"); !s) return s;
    if (place_.local_size && *place_.local_size != result_.identity.size) {
      return cannot_join(base::format(
          "{} has started {} processes on several hosts, and MASTER_ADDR and MASTER_PORT are not "
          "set; set them to the address of the host of rank 0 and to a free port there",
          place_.launcher, result_.identity.size));
    }
    auto path = local_path();
    if (!path) return path.status();
    if (result_.identity.rank == 0) store::sweep_files("/tmp", local_name());
    return over_file(*path);
  }
  // Rank 0 is where the others go: it need not know by which of its addresses they come.
  const bool anywhere = !master && place_.rank == 0;
  if (anywhere) master = kAnyAddress;
  std::string missing;
  const auto note = [&](bool there, const char* name) {
    if (!there) missing += base::format("{}{}", missing.empty() ? "" : ", ", name);
  };
  note(place_.rank.has_value(), "RANK");
  note(place_.size.has_value(), "WORLD_SIZE");
  note(port.has_value(), "MASTER_PORT");
  note(master.has_value(), "MASTER_ADDR");
  if (!missing.empty()) {
    const bool several = missing.find(',') != std::string::npos;
    return cannot_join(base::format("{} {} not set; {}", missing, several ? "are" : "is", kAdvice));
  }
  if (Outcome s = check_place(place_); !s) return s;
  if (Outcome s = check_master(anywhere ? "localhost" : *master, *port, variable); !s) return s;
  auto agent = agent_serves(environment_);
  if (!agent) return agent.status();
  if (Outcome s = settle("env://"); !s) return s;
  if (anywhere && *agent)
    return cannot_join("MASTER_ADDR is not set; with a launcher's store rank 0 needs it, too");
  std::optional<std::string> torchrun;
  if (variable == std::string_view("MASTER_PORT") && !settings_.master_port && !*agent)
    torchrun = job_of_agent(environment_);
  if (torchrun && job_.empty()) job_ = *torchrun;
  return over_tcp(*master, *port, *agent, torchrun.has_value());
}

Result<Rendezvous> RendezvousHandler::by_tcp(const Url& url) {
  if (Outcome s = complete(place_, environment_); !s) return s;
  if (Outcome s = check_master(url.host, url.port, "the port of init_method"); !s) return s;
  if (Outcome s = settle("init_method tcp://"); !s) return s;
  return over_tcp(url.host, url.port, false);
}

Result<Rendezvous> RendezvousHandler::by_file(const Url& url) {
  if (Outcome s = complete(place_, environment_); !s) return s;
  if (Outcome s = settle("init_method file://"); !s) return s;
  return over_file(url.path);
}

Result<Rendezvous> RendezvousHandler::by_store() {
  if (Outcome s = complete(place_, environment_); !s) return s;
  if (Outcome s = settle("a store of your own"); !s) return s;
  // One that is drawn in the store can be read on the way there.
  if (settings_.tls && result_.identity.secret.empty()) {
    if (Outcome s = take_secret(); !s) return s;
    if (result_.identity.secret.empty()) {
      return cannot_join(
          "TUTTI_TLS needs a secret, and TUTTI_INSECURE says that there is none; unset one of "
          "them");
    }
  }
  try {
    return over_store(settings_.store, settings_.store->describe());
  } catch (const Error& error) {
    return failed(error);
  }
}

Result<std::string> RendezvousHandler::local_path() const {
  std::string job = place_.launcher_job;
  if (job.find_first_not_of(' ') == std::string::npos) {
    auto process = launcher_process(environment_);
    if (!process) {
      return cannot_join(base::format(
          "the variables of {} tell the rank of this process, but no launcher is among the "
          "processes above it (a container hides it, or they were set by hand), so the ranks have "
          "no place to meet; set MASTER_ADDR and MASTER_PORT to the address of the host of rank 0 "
          "and to a free port there",
          place_.launcher));
    }
    job = std::move(*process);
  }
  // Another user must not be able to occupy the name.
  const auto secret = store::job_secret(environment_.lookup(), settings_.secret);
  if (!secret) return secret.status();
  const auto name = store::private_name(secret.value(), job);
  if (!name) return name.status();
  return base::format("/tmp/{}{}", local_name(), name.value());
}

store::OnWait RendezvousHandler::on_wait() const {
  if (settings_.watch == nullptr) return {};
  return [watch = settings_.watch, &identity = result_.identity](const std::string& what,
                                                                 const std::string& why) {
    watch->waits_for(what);
    if (!watch->is_due()) return;
    watch->log(base::format("init of rank {} of {}", identity.rank, identity.size),
               base::format("{} {}; look whether rank 0, or tuttirun, runs there", what, why));
  };
}

Result<Rendezvous> RendezvousHandler::over_tcp(std::string host, int port, bool agent,
                                               bool beside) {
  if (Outcome s = take_secret(); !s) return s;
  result_.master_addr = std::move(host);
  result_.master_port = static_cast<std::uint16_t>(port);
  const std::string key =
      counter(base::format("{}:{} {}", result_.master_addr, result_.master_port, job_));
  result_.identity.generation = Generations::of_process().next(key);

  TcpStoreOptions options;
  options.host = result_.master_addr;
  options.port = result_.master_port;
  options.timeout = settings_.timeout;
  options.encrypt = settings_.tls;
  options.link_timeout = settings_.link_timeout;
  options.job = job_;
  result_.rank_0_serves = !agent;
  if (!agent) {
    options.serve = result_.identity.rank == 0;
    options.users = result_.identity.size;
    // When our time is over, so is that of ranks that have not come: we do not stay for them.
    options.come_within = settings_.timeout;
    options.generation =
        settings_.job_name.empty()
            ? static_cast<std::uint32_t>(result_.identity.generation)
            : Generations::of_job_name(settings_.job_name, result_.identity.generation);
  }
  try {
    // The will goes with us into the store: a rank that is killed later is missed at once.
    auto [key_of_will, text] =
        will_before(kWorldExchange, result_.identity.rank, result_.identity.size,
                    base::format("the store at {}:{}", result_.master_addr, result_.master_port));
    store::Request first;
    first.values = {std::move(text)};
    if (agent) {
      // The launcher's store outlives groups and, where a worker is a script, even processes: it
      // counts for us. A server of rank 0 is new each time.
      first.op = store::Op::enroll;
      first.keys = {base::format("{}joined/{}", part(), result_.identity.rank), part(),
                    "/" + key_of_will};
    } else {
      first.op = store::Op::set_will;
      first.keys = {base::format("{}{}/{}", part(), result_.identity.generation, key_of_will)};
    }
    const store::JoinedStore joined =
        beside ? join_beside_agent(options, secret_, first,
                                   {first.keys.front(), begin_of_refusal()}, on_wait())
               : store::join_tcp_store(options, secret_, &first, store::Listens::for_others, {},
                                       on_wait());
    if (beside) result_.master_port = joined.store->port();
    if (agent) result_.identity.generation = static_cast<std::uint64_t>(joined.answer.number);
    take_part_of(joined.store);
    result_.client = joined.client;
    result_.part = base::format("{}{}/", part(), result_.identity.generation);
    result_.leave = joined.leave;
  } catch (const Error& error) {
    Outcome status = failed(error);
    if (!options.serve || error.code() != Errc::store) return status;
    return Outcome(status.code(), base::format("{} Was rank 0 given to two processes? Each needs a "
                                               "RANK of its own",
                                               status.message()));
  }
  Generations::of_process().made(key, result_.identity.generation);
  return found();
}

Result<Rendezvous> RendezvousHandler::over_file(const std::string& path) {
  try {
    FileStoreOptions options;
    options.path = path;
    options.users = result_.identity.size;
    options.come_within = settings_.timeout;
    // A file without a living user was left by a run that was killed.
    options.fresh = true;
    options.own_only = true;
    options.timeout = settings_.timeout;
    return over_store(make_file_store(options), path);
  } catch (const Error& error) {
    return failed(error);
  }
}

Result<Rendezvous> RendezvousHandler::over_store(const std::shared_ptr<Store>& store,
                                                 const std::string& place) {
  const std::string key = counter(place);
  result_.identity.generation = Generations::of_process().next(key);
  take_part_of(store);
  // Tells this job from others. Unless a secret was given, the job's follows from it and from what
  // the users of the store alone know.
  std::string drawn;
  {
    auto made = store::make_secret();
    if (!made) return made.status();
    for (const std::byte byte : made->secret)
      drawn += base::format("{:02x}", std::to_integer<unsigned>(byte));
  }
  // If a server keeps the given store, it can tell which rank was lost first.
  if (const auto served = result_.store->served()) {
    result_.client = served->client;
    result_.part = served->prefix;
    result_.given = true;
  }
  drawn = result_.store->compare_set("secret", "", drawn, settings_.timeout);
  constexpr std::size_t kJobIdCharacters = 16;
  if (drawn.size() < 2 * kJobIdCharacters)
    return Outcome(Errc::store, "foreign data stands in the store");
  if (job_.empty()) job_ = drawn.substr(0, kJobIdCharacters);
  if (result_.identity.secret.empty()) {
    const std::string rest = drawn.substr(kJobIdCharacters);
    result_.identity.secret = store->derive_secret(rest);
    result_.authenticated = !result_.identity.secret.empty();
    // A listener knows this one: it only keeps apart processes that meet by mistake.
    if (!result_.authenticated) result_.identity.secret = store::to_secret(rest);
  }
  Generations::of_process().made(key, result_.identity.generation);
  return found();
}

}  // namespace

Result<Rendezvous> from_env(const Settings& settings) {
  return RendezvousHandler(settings).by_env();
}

Result<Rendezvous> find_others(const Settings& settings) {
  if (settings.store && settings.init_method)
    return cannot_join("a store and init_method were given; give one of them");
  if (Outcome s = check_job_name(settings.job_name); !s) return s;
  RendezvousHandler handler(settings);
  if (settings.store) return handler.by_store();
  if (!settings.init_method) return handler.by_env();
  auto url = parse_url(*settings.init_method);
  if (!url) return url.status();
  handler.take_place(*url);
  switch (url->scheme) {
    case Url::Scheme::tcp: return handler.by_tcp(*url);
    case Url::Scheme::file: return handler.by_file(*url);
    case Url::Scheme::env: break;
  }
  return handler.by_env();
}

}  // namespace tutti::rendezvous
