/* SPDX-License-Identifier: MIT */
/* `hakmem preload`: is this machine on HAKMEM? Puts it there and takes it off. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/commands.h"
#include "tool/preload.h"

struct options {
	const char *verb;
	const char *root;
	const char *library;
	bool force;
	bool no_test;
};

static const char usage[] =
	"usage: hakmem preload status|test|enable|disable [OPTIONS]\n"
	"\n"
	"The line in /etc/ld.so.preload that makes every program of this machine use HAKMEM.\n"
	"\n"
	"  status   is the line there, is the library in order, what serves new programs?\n"
	"           exit code 0: the machine is on HAKMEM, 1: it is not\n"
	"  test     prove that the library works here; changes nothing\n"
	"  enable   prove it, write the line, and prove it again; else take it out again\n"
	"  disable  take the line out; needs no library\n"
	"\n"
	"  --root DIR       the system whose root is DIR\n"
	"  --library PATH   another library than " HAK_PRELOAD_PATH "\n"
	"  --force          also where another allocator stands in the file\n"
	"  --no-test        prove nothing; only with --root, for programs that cannot run here\n";

/* ---- other allocators ---- */

static bool is_known_allocator(struct word word) {
	static const char *const known[] = { "jemalloc", "tcmalloc", "mimalloc", "snmalloc", "rpmalloc",
		"hardened_malloc", "scudo", "libhoard", "ltalloc", "lockless", "libmesh.so" };
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%.*s", (int)word.len, word.at);
	const char *name = basename(path);
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strstr(name, known[i]) != NULL)
			return true;
	return false;
}

/* Whatever stands in the file and serves malloc, if tried alone, is an allocator. */
static bool serves_malloc(int root, struct word word) {
	char preload[PATH_MAX], server[PATH_MAX];
	snprintf(preload, sizeof preload, "%.*s", (int)word.len, word.at);
	preload_ask_server(root, preload, server, sizeof server);
	return server[0] != '\0' && strcmp(basename(server), basename(preload)) == 0;
}

static bool find_rival(const struct options *o, const struct preload_file *f, struct word *wordp) {
	for (size_t pos = 0; preload_next_word(f->text, &pos, wordp);)
		if (!preload_is_ours(*wordp) &&
			(is_known_allocator(*wordp) || (!o->no_test && serves_malloc(f->root, *wordp))))
			return true;
	return false;
}

/* ---- the verbs ---- */

/* A NUL ends what the loader reads in some versions, and stands in no text that a person wrote. */
static bool is_damaged(const struct preload_file *f) {
	if (f->text.len == 0 || memchr(f->text.at, '\0', f->text.len) == NULL)
		return false;
	complain("preload: %s: is damaged: a NUL byte stands in it; it is as it was", f->path);
	return true;
}

/* The loader passes over a file that it may not read, without a word. */
static bool is_for_all(const struct preload_file *f) {
	mode_t reading = S_IRUSR | S_IRGRP | S_IROTH;
	return (f->stat.st_mode & reading) == reading;
}

static int out_of_memory(void) {
	complain("preload: %s", strerror(ENOMEM));
	return TOOL_FAILED;
}

/* What others wrote meanwhile stays. */
static int take_back(struct preload_file *f, struct bytes written, struct bytes old) {
	int code = preload_file_read(f);
	if (code != TOOL_OK)
		return code;
	bool is_ours = preload_is_same(f->text, written);
	if (!is_ours && !preload_remove_ours(f->text, &old))
		return out_of_memory();
	code = preload_file_replace(f, old);
	if (code == TOOL_OK)
		complain("preload: %s: %sthe line was taken out again", f->path, is_ours ? "is as it was: " : "");
	return TOOL_FAILED;
}

static int write_and_try(const struct options *o, struct preload_file *f, struct bytes text) {
	struct trials trials = { .root = f->root, .path = o->library, .text = text };
	if (!o->no_test && !preload_try(&trials)) {
		complain("preload: %s: is as it was", f->path);
		return TOOL_FAILED;
	}
	if (!o->no_test && !preload_sync_library(f->root, o->library))
		return TOOL_FAILED;
	struct bytes old = f->text;
	int code = preload_file_replace(f, text);
	if (code != TOOL_OK)
		return code;
	trials.is_written = true;
	if (!o->no_test && !preload_try(&trials))
		return take_back(f, text, old);
	tell("%s: programs that start from now on use %s", f->path, o->library);
	return TOOL_OK;
}

/* Of our libraries that one, once; as the first word of all, if it is to be that. */
static bool names_alone(struct bytes text, const char *path, bool is_first) {
	struct word word, first = { NULL, 0 };
	size_t ours = 0, same = 0;
	for (size_t pos = 0; preload_next_word(text, &pos, &word);) {
		first = first.at == NULL ? word : first;
		ours += preload_is_ours(word);
		same += word.len == strlen(path) && memcmp(word.at, path, word.len) == 0;
	}
	return ours == 1 && same == 1 && (!is_first || preload_is_ours(first));
}

/* The line is there: does it do what it should? */
static int confirm(const struct options *o, const struct preload_file *f) {
	struct trials trials = { .root = f->root, .path = o->library, .text = f->text, .is_written = true };
	if (!o->no_test && !preload_try(&trials))
		return TOOL_FAILED;
	tell("%s: names %s already", f->path, o->library);
	return TOOL_OK;
}

/* Has the file another allocator? False, after a complaint: yes, and --force is not there. */
static bool may_stand_beside(const struct options *o, const struct preload_file *f, bool *has_rivalp) {
	struct word word;
	*has_rivalp = find_rival(o, f, &word);
	if (!*has_rivalp || o->force)
		return true;
	complain("preload: %s: names another allocator, %.*s (--force to have both); it is as it was", f->path,
		(int)word.len, word.at);
	return false;
}

static int enable(const struct options *o, struct preload_file *f) {
	struct bytes text;
	bool has_rival;
	if (is_damaged(f))
		return TOOL_FAILED;
	if (o->no_test ? !preload_check_form(o->library) : !preload_check_library(f->root, o->library))
		return TOOL_FAILED;
	if (!may_stand_beside(o, f, &has_rival))
		return TOOL_FAILED;
	if (f->exists && is_for_all(f) && names_alone(f->text, o->library, has_rival))
		return confirm(o, f);
	if (!preload_add(f->text, o->library, has_rival, &text))
		return out_of_memory();
	int code = preload_file_may_replace(f);
	return code != TOOL_OK ? code : write_and_try(o, f, text);
}

static int disable(const struct options *o, struct preload_file *f) {
	struct word word;
	struct bytes text;
	if (!preload_find_ours(f->text, &word)) {
		tell("%s: does not name HAKMEM", f->path);
		return TOOL_OK;
	}
	if (!preload_remove_ours(f->text, &text))
		return out_of_memory();
	int code = preload_file_replace(f, text);
	if (code == TOOL_OK)
		tell("%s: programs that start from now on do not load HAKMEM", f->path);
	return code;
}

static int test(const struct options *o, struct preload_file *f) {
	struct bytes text;
	bool has_rival;
	if (!preload_check_library(f->root, o->library) || !may_stand_beside(o, f, &has_rival))
		return TOOL_FAILED;
	if (!preload_add(f->text, o->library, has_rival, &text))
		return out_of_memory();
	struct trials trials = { .root = f->root, .path = o->library, .text = text, .is_talkative = true };
	return preload_try(&trials) ? TOOL_OK : TOOL_FAILED;
}

static int status(const struct options *o, struct preload_file *f) {
	struct word word;
	char server[PATH_MAX], path[PATH_MAX];
	bool is_named = preload_find_ours(f->text, &word);
	tell("file: %s%s", f->path, f->exists ? "" : " (not there)");
	tell("line: %.*s", is_named ? (int)word.len : (int)sizeof "none" - 1, is_named ? word.at : "none");
	snprintf(path, sizeof path, "%.*s", (int)word.len, word.at);
	if (find_rival(o, f, &word))
		tell("another allocator: %.*s", (int)word.len, word.at);
	server[0] = '\0';
	if (!o->no_test)
		preload_ask_server(f->root, NULL, server, sizeof server);
	tell("new programs are served by: %s", server[0] != '\0' ? server : "unknown");
	fflush(stdout);
	if (!is_named || !(o->no_test ? preload_check_form(path) : preload_check_library(f->root, path)))
		return TOOL_FAILED;
	if (!is_for_all(f)) {
		complain("preload: %s: not all may read it: their programs do without HAKMEM; 'enable' mends it", f->path);
		return TOOL_FAILED;
	}
	return o->no_test || strstr(server, "/libhakmem.so") != NULL ? TOOL_OK : TOOL_FAILED;
}

/* ---- arguments ---- */

static const struct {
	const char *name;
	int (*run)(const struct options *o, struct preload_file *f);
	bool replaces; /* the file */
} verbs[] = { { "status", status, false }, { "test", test, false }, { "enable", enable, true },
	{ "disable", disable, true } };
enum { VERBS = sizeof verbs / sizeof *verbs };

static int take_option(struct options *o, int argc, char **argv, int *ip) {
	const char *word = argv[*ip];
	bool is_root = strcmp(word, "--root") == 0;
	if (strcmp(word, "--force") == 0) {
		o->force = true;
	} else if (strcmp(word, "--no-test") == 0) {
		o->no_test = true;
	} else if (is_root || strcmp(word, "--library") == 0) {
		if (++*ip >= argc || argv[*ip][0] == '\0')
			return misused("preload: %s needs a path", word);
		*(is_root ? &o->root : &o->library) = argv[*ip];
	} else if (word[0] == '-' || o->verb != NULL) {
		return misused("preload: what is '%s'?", word);
	} else {
		o->verb = word;
	}
	return TOOL_OK;
}

/* The file is not to be left half-way because somebody is impatient, or stopped reading. Who starts us may ignore the
   ends of children, and alarms: then we could not wait, nor could what is tried. */
static void hold_signals(void) {
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	signal(SIGALRM, SIG_DFL);
}

static int run_verb(const struct options *o, int verb) {
	struct preload_file f;
	int root = open(o->root != NULL ? o->root : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0) {
		complain("preload: %s: %s", o->root, strerror(errno));
		return TOOL_USAGE;
	}
	int code = preload_file_open(&f, root, verbs[verb].replaces);
	if (code != TOOL_OK)
		return code;
	hold_signals();
	return verbs[verb].run(o, &f);
}

static int run(int argc, char **argv) {
	struct options o = { .library = HAK_PRELOAD_PATH };
	for (int i = 1; i < argc; i++) {
		int code = take_option(&o, argc, argv, &i);
		if (code != TOOL_OK)
			return code;
	}
	if (o.verb == NULL)
		return misused("preload: status, test, enable or disable?");
	if (o.no_test && o.root == NULL)
		return misused("preload: --no-test needs --root");
	if (o.library[0] != '/')
		return misused("preload: --library %s: is no path from the root", o.library);
	for (int i = 0; i < VERBS; i++)
		if (strcmp(o.verb, verbs[i].name) == 0)
			return run_verb(&o, i);
	return misused("preload: what is '%s'?", o.verb);
}

const struct command command_preload = {
	.name = "preload",
	.summary = "put this machine on HAKMEM, and take it off",
	.usage = usage,
	.run = run,
};
