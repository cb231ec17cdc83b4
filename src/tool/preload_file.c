/* SPDX-License-Identifier: MIT */
/*
 * The file /etc/ld.so.preload on disk.
 *
 * It is never written to. A new one is made beside it under a name of ours, brought to the disk, and
 * renamed over it; so at every moment, also after a crash, it is the old one or the new one. A new one
 * that was left behind by a crash is removed by the next run. Before it is renamed the old one is read
 * again: what others wrote meanwhile stays. Runs that replace the file wait for each other: each holds a
 * lock on the folder from before it reads until it ends. Since anybody may hold that, they do not wait for ever.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "tool/preload.h"
#include "tool/root.h"

enum { TEXT_MOST = 1 << 20, LINKS_MOST = 40, LOCK_TRIES = 3000, LOCK_MS = 10 };

int preload_exit_of(int error) {
	return error == EACCES || error == EPERM ? TOOL_NO_PERMISSION : TOOL_FAILED;
}

/* ---- finding ---- */

static int complain_of(const struct preload_file *f, const char *what) {
	int error = errno;
	complain("preload: %s: %s: %s", f->path, what, strerror(error));
	return preload_exit_of(error);
}

static int open_folder(struct preload_file *f) {
	char folder[PATH_MAX];
	size_t len = (size_t)(strrchr(f->path, '/') - f->path);
	memcpy(folder, f->path, len);
	folder[len] = '\0';
	if (f->folder >= 0)
		close(f->folder);
	f->folder = open_in_root(f->root, len != 0 ? folder : "/", O_RDONLY | O_DIRECTORY);
	f->name = f->path + len + 1;
	return f->folder < 0 ? complain_of(f, "its folder cannot be opened") : TOOL_OK;
}

bool preload_follow(char *path, const char *target) {
	char next[PATH_MAX];
	int folder_len = (int)(strrchr(path, '/') - path) + 1;
	int len = target[0] == '/' ? snprintf(next, sizeof next, "%s", target) :
		snprintf(next, sizeof next, "%.*s%s", folder_len, path, target);
	if (len >= (int)sizeof next || next[len - 1] == '/')
		return false;
	memcpy(path, next, (size_t)len + 1);
	return true;
}

static int find(struct preload_file *f) {
	char target[PATH_MAX];
	for (int i = 0; i < LINKS_MOST; i++) {
		int code = open_folder(f);
		if (code != TOOL_OK)
			return code;
		ssize_t len = readlinkat(f->folder, f->name, target, sizeof target - 1);
		if (len < 0 && (errno == EINVAL || errno == ENOENT))
			return TOOL_OK;
		if (len < 0)
			return complain_of(f, "cannot be looked at");
		target[len] = '\0';
		if (!preload_follow(f->path, target))
			break;
	}
	complain("preload: %s: its symbolic links lead nowhere", f->path);
	return TOOL_FAILED;
}

/* ---- reading ---- */

static bool read_all(int fd, size_t len, struct bytes *textp) {
	struct bytes text = { malloc(len + 1), 0 };
	while (text.at != NULL && text.len < len) {
		ssize_t got = TEMP_FAILURE_RETRY(read(fd, text.at + text.len, len - text.len));
		if (got < 0)
			return false;
		if (got == 0)
			break;
		text.len += (size_t)got;
	}
	*textp = text;
	return text.at != NULL;
}

int preload_file_read(struct preload_file *f) {
	int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	int fd = TEMP_FAILURE_RETRY(openat(f->folder, f->name, flags));
	f->exists = fd >= 0;
	f->text = (struct bytes){ 0 };
	if (fd < 0)
		return errno == ENOENT ? TOOL_OK : complain_of(f, "cannot be read");
	int code = TOOL_OK;
	if (fstat(fd, &f->stat) != 0) {
		code = complain_of(f, "cannot be looked at");
	} else if (!S_ISREG(f->stat.st_mode) || f->stat.st_size > TEXT_MOST) {
		complain("preload: %s: is damaged: it is no file of a sensible size; it is as it was", f->path);
		code = TOOL_FAILED;
	} else if (!read_all(fd, (size_t)f->stat.st_size, &f->text)) {
		code = complain_of(f, "cannot be read");
	}
	close(fd);
	return code;
}

/* Without a lock, as on a file system that has none, each run has a temporary file of its own. */
static void lock_folder(struct preload_file *f) {
	const struct timespec pause = { .tv_nsec = LOCK_MS * 1000000L };
	int locked = -1;
	for (int i = 0; i < LOCK_TRIES && locked != 0; i++) {
		locked = TEMP_FAILURE_RETRY(flock(f->folder, LOCK_EX | LOCK_NB));
		if (locked != 0 && errno != EWOULDBLOCK)
			break;
		if (locked != 0)
			(void)nanosleep(&pause, NULL);
	}
	strcpy(f->temporary, ".ld.so.preload.hakmem");
	if (locked != 0)
		snprintf(f->temporary, sizeof f->temporary, ".ld.so.preload.hakmem.%d", (int)getpid());
}

int preload_file_open(struct preload_file *f, int root, bool to_replace) {
	*f = (struct preload_file){ .root = root, .folder = -1, .path = "/etc/ld.so.preload" };
	int code = find(f);
	if (code != TOOL_OK)
		return code;
	if (to_replace) {
		lock_folder(f);
		(void)unlinkat(f->folder, f->temporary, 0); /* of a run that did not come to its end */
	}
	return preload_file_read(f);
}

int preload_file_may_replace(const struct preload_file *f) {
	if (faccessat(f->folder, ".", W_OK, AT_EACCESS) == 0)
		return TOOL_OK;
	int error = errno;
	complain("preload: %s: its folder cannot be written to: %s; the file is as it was", f->path,
		strerror(error));
	return preload_exit_of(error);
}

/* ---- replacing ---- */

static bool write_all(int fd, struct bytes text) {
	for (size_t done = 0; done < text.len;) {
		ssize_t put = TEMP_FAILURE_RETRY(write(fd, text.at + done, text.len - done));
		if (put < 0)
			return false;
		done += (size_t)put;
	}
	return true;
}

static bool keep_owner(const struct preload_file *f, int fd) {
	struct stat now;
	if (!f->exists)
		return true;
	if (fstat(fd, &now) != 0)
		return false;
	return (now.st_uid == f->stat.st_uid && now.st_gid == f->stat.st_gid) ||
		fchown(fd, f->stat.st_uid, f->stat.st_gid) == 0;
}

/* The SELinux context of the old file; a first one gets that of ld.so.cache, as the policies have it.
   Where there is no context there is nothing to keep. */
static bool keep_context(const struct preload_file *f, int fd) {
	static const char attribute[] = "security.selinux";
	char wanted[256], now[256];
	int model = TEMP_FAILURE_RETRY(openat(f->folder, f->exists ? f->name : "ld.so.cache",
		O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
	if (model < 0)
		return !f->exists;
	ssize_t len = fgetxattr(model, attribute, wanted, sizeof wanted);
	close(model);
	if (len <= 0)
		return true;
	if (fgetxattr(fd, attribute, now, sizeof now) == len && memcmp(wanted, now, (size_t)len) == 0)
		return true;
	return fsetxattr(fd, attribute, wanted, (size_t)len, 0) == 0;
}

/* false: errno tells why, and nothing but the temporary file may be there. */
static bool fill(const struct preload_file *f, int fd, struct bytes text) {
	return write_all(fd, text) && keep_owner(f, fd) && keep_context(f, fd) &&
		fchmod(fd, 0644) == 0 && TEMP_FAILURE_RETRY(fsync(fd)) == 0;
}

static bool make_temporary(const struct preload_file *f, struct bytes text) {
	int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd = TEMP_FAILURE_RETRY(openat(f->folder, f->temporary, flags, 0600));
	if (fd < 0)
		return false;
	bool done = fill(f, fd, text);
	int error = errno;
	if (close(fd) != 0 && errno != EINTR && done) {
		error = errno;
		done = false;
	}
	errno = error;
	return done;
}

enum sight { SIGHT_SAME, SIGHT_OTHER, SIGHT_NOTHING, SIGHT_FAILED };

/* Is the file there, and does it say `text`? */
static enum sight look(const struct preload_file *f, struct bytes text) {
	struct bytes now;
	int fd = TEMP_FAILURE_RETRY(openat(f->folder, f->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
	if (fd < 0)
		return errno == ENOENT ? SIGHT_NOTHING : SIGHT_FAILED;
	bool is_read = read_all(fd, TEXT_MOST, &now);
	close(fd);
	if (!is_read)
		return SIGHT_FAILED;
	return preload_is_same(now, text) ? SIGHT_SAME : SIGHT_OTHER;
}

enum placing { PLACED, NOT_PLACED, CHANGED_BY_OTHERS };

static enum placing put_in_place(const struct preload_file *f, struct bytes text) {
	bool goes = !preload_has_content(text);
	if (!goes && !make_temporary(f, text))
		return NOT_PLACED;
	enum sight sight = look(f, f->text);
	if (sight == SIGHT_FAILED)
		return NOT_PLACED;
	if (sight != (f->exists ? SIGHT_SAME : SIGHT_NOTHING))
		return CHANGED_BY_OTHERS;
	bool done = goes ? TEMP_FAILURE_RETRY(unlinkat(f->folder, f->name, 0)) == 0 || errno == ENOENT :
		TEMP_FAILURE_RETRY(renameat(f->folder, f->temporary, f->folder, f->name)) == 0;
	return done ? PLACED : NOT_PLACED;
}

/* Looks, since a call may have failed after it did its work. */
static const char *which_is_there(const struct preload_file *f, struct bytes text) {
	switch (look(f, text)) {
	case SIGHT_SAME: return "the new file is in place";
	case SIGHT_OTHER: return "the file is as it was";
	case SIGHT_NOTHING: return f->exists ? "the file is gone, as it should be" : "the file is as it was: not there";
	default: return "which file is there cannot be seen";
	}
}

int preload_file_replace(struct preload_file *f, struct bytes text) {
	enum placing placing = put_in_place(f, text);
	int error = errno;
	if (placing != PLACED)
		(void)unlinkat(f->folder, f->temporary, 0);
	if (placing == CHANGED_BY_OTHERS) {
		complain("preload: %s: somebody else has changed it meanwhile; it is as that left it", f->path);
		return TOOL_FAILED;
	}
	/* Some file systems cannot bring a folder to the disk by itself. */
	if (placing == PLACED && (TEMP_FAILURE_RETRY(fsync(f->folder)) == 0 || errno == EINVAL)) {
		f->text = text;
		f->exists = preload_has_content(text);
		return TOOL_OK;
	}
	if (placing == PLACED)
		error = errno;
	complain("preload: %s: cannot be %s: %s; %s", f->path,
		placing == PLACED ? "brought to the disk" : preload_has_content(text) ? "replaced" : "removed",
		strerror(error), which_is_there(f, text));
	return preload_exit_of(error);
}
