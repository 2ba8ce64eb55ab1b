#pragma once

/// The namespace of the public headers has it: they declare what can be linked, and all else of the
/// library is hidden. A static library shows nothing outside of what it was linked into.
#ifdef TUTTI_STATIC
#define TUTTI_EXPORT
#else
#define TUTTI_EXPORT [[gnu::visibility("default")]]
#endif
