#pragma once

// The calls of a program behind the macros of others: no name that it needs is one of them.

static void call_all(tutti::ProcessGroup& world) {
  using std::chrono::seconds;
  const auto check = [](bool right) {
    if (!right) throw std::runtime_error("a wrong result");
  };
  const int me = world.rank();
  const int other = 1 - me;
  world.set_timeout(seconds(60));
  check(world.get_timeout() == seconds(60) && world.health().ok() && !world.name().empty());
  const auto guard = world.guard();

  std::vector<int> values{me, 1};
  world.all_reduce(values, {.op = tutti::ReduceOp::max, .timeout = seconds(60)}).wait();
  check(values == std::vector<int>{1, 1});
  for (const auto op : {tutti::ReduceOp::min, tutti::ReduceOp::sum, tutti::ReduceOp::product})
    world.reduce(values, {.root = 1, .op = op}).wait();
  world.scan(values, {.exclusive = true}).wait();
  world.all_reduce(values, tutti::logical_and<int>()).wait();
  std::vector<tutti::ValueAt<float>> places{{1, me}};
  world.all_reduce(places, tutti::min_loc<float>()).wait();
  world.all_reduce(places, tutti::max_loc<float>()).wait();
  world.broadcast(values, {.root = 1}).wait();
  check(world.all_gather_v(values).wait().counts.size() == 2);

  world.send(values, other, {.tag = 3});
  std::optional<tutti::Message> message;
  while (!message) message = world.try_probe(tutti::any_source, {.tag = tutti::any_tag});
  check(message->bytes() == 2 * sizeof(int) && message->dtype() == tutti::DType::int32);
  check(message->recv<int>().size() == 2);
  std::vector<int> theirs(2);
  const tutti::P2POp both[] = {tutti::P2POp::isend(values, other),
                               tutti::P2POp::irecv(theirs, other)};
  std::vector<tutti::Work> works = world.batch_isend_irecv(both);
  while (tutti::wait_any(works, seconds(60))) continue;
  tutti::CartGroup grid = tutti::cart(world, {2}, {true});
  check(grid.shift(0).destination == other);
  check(world.sendrecv(theirs, other, values, other) == other);

  std::shared_ptr<tutti::Store> store = tutti::make_hash_store();
  store->set("key", "value");
  store->wait("key", seconds(1));
  check(store->get("key") == "value" && store->add("sum", 2) == 2 && store->num_keys() == 2);
  store->set_timeout(seconds(2));
  check(store->get_timeout() == seconds(2) && store->delete_key("key"));

  tutti::ProcessGroup pair = world.new_group({0, 1}, {.name = "pair", .timeout = seconds(60)});
  pair.barrier({.timeout = seconds(60)}).wait();
  world.monitored_barrier({.timeout = seconds(60)});
  try {
    world.send(values, 7);
    check(false);
  } catch (const tutti::InvalidArgument& error) {
    check(error.code() == tutti::Errc::invalid_argument && !error.culprit());
  }
}

static void run() {
  tutti::Config config;
  config.timeout = std::chrono::seconds(60);
  config.transport = tutti::Config::TransportChoice::shm;
  config.agree = tutti::Config::Agree::strict;
  config.log_level = tutti::LogLevel::error;
  tutti::run_threads(2, call_all, config);
}
