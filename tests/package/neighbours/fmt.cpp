#include <fmt/format.h>

bool use_neighbour() { return fmt::format("{:.2f} {:>4}", 1.5, "x") == "1.50    x"; }
