// The macros of others behind all public headers.
#include "public_headers.hpp"

#include "macros_of_others.hpp"

#include "calls.hpp"

void run_with_macros_behind() { run(); }
