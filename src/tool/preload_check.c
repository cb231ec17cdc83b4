/* SPDX-License-Identifier: MIT */
/*
 * What can be seen of a library without running it. A library that is cut off would end every program
 * with SIGBUS, so that nothing could be started to undo it: this must be found before any trial.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "tool/preload.h"
#include "tool/root.h"

static bool refuse(const char *path, const char *why) {
	complain("preload: %s: %s", path, why);
	return false;
}

bool preload_check_form(const char *path) {
	/* Setuid programs refuse names without a slash and $ORIGIN. */
	if (path[0] != '/')
		return refuse(path, "is no path from the root: setuid programs would not load it");
	if (strstr(path, "$ORIGIN") != NULL || strstr(path, "${ORIGIN}") != NULL)
		return refuse(path, "setuid programs do not load what is named by $ORIGIN");
	if (strpbrk(path, " \t\n:#") != NULL)
		return refuse(path, "a space, ':' or '#' in a path cannot be written there");
	/* `disable` would not know it. */
	if (!preload_is_ours((struct word){ path, strlen(path) }))
		return refuse(path, "is not named libhakmem.so");
	return true;
}

/* $LIB as the loader for programs of our kind understands it. */
static bool expand(const char *path, char *out, size_t size) {
	const char *token = strstr(path, "$LIB");
	size_t skip = sizeof "$LIB" - 1;
	if (token == NULL) {
		token = strstr(path, "${LIB}");
		skip = sizeof "${LIB}" - 1;
	}
	int len = token == NULL ? snprintf(out, size, "%s", path) :
		snprintf(out, size, "%.*s%s%s", (int)(token - path), path, HAK_LIB_FOLDER, token + skip);
	return len < (int)size;
}

static bool read_at(int fd, void *to, size_t len, off_t at) {
	return TEMP_FAILURE_RETRY(pread(fd, to, len, at)) == (ssize_t)len;
}

/* The linker's: the header of this program; programs of this machine are what it is. In memory, for /proc may
   not be mounted where packages are being installed. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

static bool is_our_kind(const ElfW(Ehdr) *header) {
	return memcmp(__ehdr_start.e_ident, header->e_ident, EI_VERSION) == 0 &&
		__ehdr_start.e_machine == header->e_machine;
}

/* Every segment, and the table of sections, which linkers put last, lies in the file. */
static bool is_whole(int fd, const ElfW(Ehdr) *header, off_t size) {
	ElfW(Off) end = header->e_shoff + (ElfW(Off))header->e_shnum * header->e_shentsize;
	if (end > (ElfW(Off))size || header->e_phentsize != sizeof(ElfW(Phdr)))
		return false;
	for (unsigned i = 0; i < header->e_phnum; i++) {
		ElfW(Phdr) segment;
		if (!read_at(fd, &segment, sizeof segment, (off_t)(header->e_phoff + i * sizeof segment)))
			return false;
		if (segment.p_type == PT_LOAD && segment.p_offset + segment.p_filesz > (ElfW(Off))size)
			return false;
	}
	return true;
}

static bool check_elf(const char *path, int fd, off_t size) {
	ElfW(Ehdr) header;
	if (!read_at(fd, &header, sizeof header, 0) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
		return refuse(path, "is no library");
	if (!is_our_kind(&header))
		return refuse(path, "is for another kind of machine than the programs here");
	if (header.e_type != ET_DYN)
		return refuse(path, "is no shared library");
	return is_whole(fd, &header, size) || refuse(path, "is cut off: programs that load it would die");
}

/* ---- the folders it is in ---- */

static bool is_root_folder(int root, const struct stat *st) {
	struct stat top;
	return fstat(root, &top) != 0 || (top.st_ino == st->st_ino && top.st_dev == st->st_dev);
}

/* What is in a sticky folder is its owner's alone. */
static bool check_folder(const char *path, const struct stat *st) {
	if (st->st_uid != 0 || ((st->st_mode & (S_IWGRP | S_IWOTH)) != 0 && (st->st_mode & S_ISVTX) == 0))
		return refuse(path, "others than root may put another library there: a folder above it is theirs to write");
	return (st->st_mode & S_IXOTH) != 0 ||
		refuse(path, "not everybody may reach it: a folder above it is closed, and their programs would complain");
}

/* The folder and those above it. Closes it. */
static bool check_folders_from(int root, int folder, const char *path) {
	struct stat st;
	bool good;
	while ((good = fstat(folder, &st) == 0 && check_folder(path, &st)) && !is_root_folder(root, &st)) {
		int above = openat(folder, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (above < 0)
			break;
		close(folder);
		folder = above;
	}
	close(folder);
	return good;
}

/* Every folder on the way, where links lead, too: whoever may write to one chooses what all programs load. */
static bool check_folders(int root, const char *path) {
	char part[PATH_MAX];
	for (const char *slash = path; (slash = strchr(slash + 1, '/')) != NULL;) {
		snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
		int folder = open_in_root(root, part, O_PATH | O_DIRECTORY);
		if (folder >= 0 && !check_folders_from(root, folder, path))
			return false;
	}
	return true;
}

/* Has `path` be what the link at `path` says. False: it is no link. */
static bool follow(int root, char *path) {
	char target[PATH_MAX];
	int link = open_in_root(root, path, O_PATH | O_NOFOLLOW);
	ssize_t len = link >= 0 ? readlinkat(link, "", target, sizeof target - 1) : -1;
	if (link >= 0)
		close(link);
	if (len <= 0)
		return false;
	target[len] = '\0';
	return preload_follow(path, target);
}

static bool check_way(int root, const char *path) {
	enum { LINKS_MOST = 40 };
	char at[PATH_MAX];
	int links = 0;
	strcpy(at, path);
	do {
		if (!check_folders(root, at))
			return false;
	} while (links++ < LINKS_MOST && follow(root, at));
	return true;
}

/* All of its file system: folders and links count, too. Some file systems have no disk. */
bool preload_sync_library(int root, const char *path) {
	char expanded[PATH_MAX];
	int fd = expand(path, expanded, sizeof expanded) ? open_in_root(root, expanded, O_RDONLY | O_NONBLOCK) : -1;
	bool done = fd >= 0 && (syncfs(fd) == 0 || (errno != EIO && errno != ENOSPC && errno != EDQUOT));
	if (!done)
		refuse(path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return done;
}

bool preload_check_library(int root, const char *path) {
	char expanded[PATH_MAX];
	struct stat st;
	if (!preload_check_form(path))
		return false;
	if (!expand(path, expanded, sizeof expanded))
		return refuse(path, "is too long");
	int fd = open_in_root(root, expanded, O_RDONLY | O_NONBLOCK);
	if (fd < 0)
		return refuse(expanded, strerror(errno));
	bool good = false;
	if (fstat(fd, &st) != 0)
		refuse(expanded, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		refuse(expanded, "is no file");
	else if (geteuid() == 0 && (st.st_uid != 0 || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0))
		refuse(expanded, "others than root may write to it");
	else if ((st.st_mode & S_IROTH) == 0)
		refuse(expanded, "not everybody may read it");
	else if (geteuid() != 0 || check_way(root, expanded))
		good = check_elf(expanded, fd, st.st_size);
	close(fd);
	return good;
}
