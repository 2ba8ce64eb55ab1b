// No public header has a name that X11 or Windows defines as a macro, so that a program includes
// both in any order.

// X.h, Xlib.h
#define Always 2
#define Bool int
#define Complex 0
#define Convex 2
#define False 0
#define None 0L
#define Status int
#define Success 0
#define True 1
#define Unsorted 0
// windows.h
#define DELETE (0x00010000L)
#define ERROR 0
#define IN
#define OPTIONAL
#define OUT
#define far
#define interface struct
#define near
#define small char

#include <tutti/backend/plugin.hpp>
#include <tutti/backend/registry.hpp>
#include <tutti/mpi.hpp>
#include <tutti/stream.hpp>
#include <tutti/tutti.hpp>
#include <tutti/user_op.hpp>
