#pragma once

// Macros of other libraries that a program may include beside tutti: the libraries' own headers
// where the machine has them, and a list of those that are names, or words of other languages.
#if __has_include(<X11/Xlib.h>)
#include <X11/Xlib.h>
#include <X11/Xos.h>
#include <X11/Xutil.h>
#endif
#if __has_include(<curses.h>)
#include <curses.h>
#endif
#include <assert.h>
#include <err.h>
#include <errno.h>
#include <error.h>
#include <signal.h>
#include <stdio.h>
#include <sys/param.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <syslog.h>

// X.h, Xlib.h, Xos.h
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
#ifndef index
#define index(s, c) strchr(s, c)
#define rindex(s, c) strrchr(s, c)
#endif
// windows.h
#undef min
#undef max
#define ABSOLUTE 1
#define CONST const
#define DELETE (0x00010000L)
#define ERROR 0
#define GetMessage GetMessageA
#define IGNORE 0
#define IN
#define NO_ERROR 0L
#define OPTIONAL
#define OUT
#define RELATIVE 2
#define STRICT 1
#define VOID void
#define far
#define interface struct
#define max(a, b) (((a) > (b)) ? (a) : (b))
#define min(a, b) (((a) < (b)) ? (a) : (b))
#define near
#define small char
// curses.h
#ifndef timeout
#define ERR (-1)
#define FALSE 0
#define OK (0)
#define TRUE 1
#define echochar(c) wechochar(stdscr, c)
#define getch() wgetch(stdscr)
#define scroll(win) wscrl(win, 1)
#define timeout(delay) wtimeout(stdscr, delay)
#endif
// GCC and clang with -std=gnu++20, old sys/types.h
#define linux 1
#define unix 1
#ifndef major
#define major(dev) gnu_dev_major(dev)
#define makedev(maj, min) gnu_dev_makedev(maj, min)
#define minor(dev) gnu_dev_minor(dev)
#endif
// qobjectdefs.h
#define emit
#define foreach(variable, container) for (variable : container)
#define forever for (;;)
#define signals public
#define slots
