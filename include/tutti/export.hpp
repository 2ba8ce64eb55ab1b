#pragma once

/// Visibility of the public namespace: what it declares is exported from a shared library, and all
/// else is hidden. A static library exports nothing.
#ifdef TUTTI_STATIC
#define TUTTI_EXPORT
#else
#define TUTTI_EXPORT [[gnu::visibility("default")]]
#endif
