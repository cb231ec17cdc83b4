/* SPDX-License-Identifier: MIT */
/*
 * What the parts of `hakmem preload` share. The line that puts a machine on HAKMEM stands in
 * /etc/ld.so.preload, which the loader reads at the start of every program that is not static.
 *
 *   preload_text   the file's bytes: words, lines and comments
 *   preload_file   finding, locking, reading and replacing the file
 *   preload_check  what can be seen of a library without running it
 *   preload_trial  programs that are run with the library
 *   preload        the command
 */
#ifndef HAK_TOOL_PRELOAD_H
#define HAK_TOOL_PRELOAD_H

#include <limits.h>
#include <sys/stat.h>

#include "tool/tool.h"

/* ---- text ---- */

/* Bytes of the heap, or none. The command ends soon, so nobody frees them. */
struct bytes {
	char *at;
	size_t len;
};

struct word {
	const char *at;
	size_t len;
};

/* The next word of `text` from *posp on as the loader reads it: words are parted by spaces, tabs,
   newlines and colons, and '#' begins a comment wherever it stands. */
bool preload_next_word(struct bytes text, size_t *posp, struct word *wordp);

/* Names our library, wherever it lies. */
bool preload_is_ours(struct word word);

/* The first word that is ours. */
bool preload_find_ours(struct bytes text, struct word *wordp);

/* `text` without our words; lines in which nothing else stood are gone, all others are as they were. Empty lines follow
   if the loader would take a part of a comment for words in a shorter text, and did not so far. false: no memory. */
bool preload_remove_ours(struct bytes text, struct bytes *resultp);

/* The same and `path` as its last line, or as its first: of two libraries the loader takes what the first has. */
bool preload_add(struct bytes text, const char *path, bool is_first, struct bytes *resultp);

bool preload_is_same(struct bytes a, struct bytes b);

/* A word or a comment is left. */
bool preload_has_content(struct bytes text);

/* ---- file ---- */

struct preload_file {
	int root;               /* the folder that is the system's root */
	int folder;             /* the one in which the file really lies */
	char path[PATH_MAX];    /* of the file behind all links, seen from `root` */
	const char *name;       /* its last part */
	char temporary[40];     /* what takes its place is called so before */
	bool exists;
	struct stat stat;       /* if it existed when it was read */
	struct bytes text;      /* what stands in it, as far as we know; none if it does not exist */
};

/* Finds and reads the file of the system under `root`; `to_replace`: waits a while for others that do. A TOOL_ code;
   a line has been said. */
int preload_file_open(struct preload_file *f, int root, bool to_replace);

/* Reads it again. */
int preload_file_read(struct preload_file *f);

/* Cheap ways to learn that it could not be replaced. A TOOL_ code; a line has been said. */
int preload_file_may_replace(const struct preload_file *f);

/* Has the file be `text`, or not be there at all if `text` has no content. Whatever happens at any
   moment, it is the old one or the new one; a line about a failure says which. What others have written since it was
   read stays, and is such a failure. A TOOL_ code. */
int preload_file_replace(struct preload_file *f, struct bytes text);

/* Has `path`, of PATH_MAX bytes, which is a link that says `target`, be where that leads. False: to no file's path. */
bool preload_follow(char *path, const char *target);

/* 1, or 4 if rights are what is missing. */
int preload_exit_of(int error);

/* ---- library ---- */

/* Is it a path that every program will understand, and ours? false: a line has been said. */
bool preload_check_form(const char *path);

/* That, and is behind it a library for this machine, whole and safe from others' hands? `root` as above. false: a line
   has been said. */
bool preload_check_library(int root, const char *path);

/* Brings the library and what leads to it to the disk, which may not have seen it since it was installed. Not before
   then may the line be there that names it. false: a line has been said. */
bool preload_sync_library(int root, const char *path);

/* ---- trials ---- */

struct trials {
	int root;
	const char *path;   /* as it is, or will be, written */
	struct bytes text;  /* what the file will be */
	bool is_written;    /* the file is there: nothing needs to be arranged */
	bool is_talkative;  /* a line on standard output about each */
};

/* Runs programs with the library. false: one failed, and a line has been said. */
bool preload_try(const struct trials *t);

/* What serves malloc in a fresh process, with `preload` for LD_PRELOAD if that is not NULL: the path of
   the object, or "" if it cannot be found out. */
void preload_ask_server(int root, const char *preload, char *server, size_t size);

#endif
