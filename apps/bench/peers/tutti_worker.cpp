// A worker of our own library.

#include <cstdio>
#include <exception>
#include <tutti/init.hpp>

#include "apps/bench/peers/tutti_library.hpp"
#include "apps/bench/peers/worker.hpp"

int main(int argc, char** argv) {
  try {
    const auto options = tutti::bench::parse_worker_options(argc, argv);
    tutti::bench::TuttiLibrary library(tutti::init_process_group(), options.gpu
                                                                        ? tutti::DeviceType::cuda
                                                                        : tutti::DeviceType::cpu);
    // As the peers' launchers do. After init: a rank that is bound before it counts one CPU for
    // all.
    if (options.pin) tutti::bench::pin_to_cpu_of(library.rank());
    return tutti::bench::serve(library, options.socket);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
