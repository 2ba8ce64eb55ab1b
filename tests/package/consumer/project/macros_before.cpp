// The macros of others before all public headers.
#include "standard_headers.hpp"

#include "macros_of_others.hpp"

#include "public_headers.hpp"

#include "calls.hpp"

void run_with_macros_before() { run(); }
