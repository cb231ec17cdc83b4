/* SPDX-License-Identifier: MIT */
/*
 * Limits of control groups. A line of /proc/self/cgroup is ID:CONTROLLERS:PATH; version 2 names no
 * controllers, and its groups lie at the root itself. In a container the path may be the host's: where no
 * such folder is, those around it are looked at, up to the root, which then is the container's own.
 */
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "os/os.h"

enum { ROOT_MOST = 64, PATH_MOST = 1024, FILE_MOST = 40, LINES_MOST = 8192 };
static const size_t NONE = (size_t)1 << 60; /* version 1 says "none" by a number about 2^63 */

/* Reads a small file whole; "" if there is none. */
static size_t read_text(const char *path, char *buf, size_t size) {
	struct os_file file = os_file_open(path);
	size_t len = 0, got;
	if (file.fd >= 0) {
		while (len < size - 1 && (got = os_file_read(file.fd, buf + len, size - 1 - len, len)) != 0)
			len += got;
		os_file_close(file.fd);
	}
	buf[len] = '\0';
	return len;
}

static size_t limit_in(const char *path) {
	char text[32];
	size_t len = read_text(path, text, sizeof text), value = 0, i = 0;
	for (; i < len && text[i] >= '0' && text[i] <= '9' && value < NONE; i++)
		value = value * 10 + (size_t)(text[i] - '0');
	return i != 0 && value < NONE ? value : NONE;
}

/* The smallest limit of the group `path`[len] under `root``below` and of those around it. */
static size_t least_upwards(const char *root, const char *below, const char *path, size_t len,
                            const char *file) {
	char name[ROOT_MOST + FILE_MOST + PATH_MOST + FILE_MOST];
	size_t least = NONE, start = text_length(root) + text_length(below);
	append_text(append_text(name, root), below);
	for (;;) {
		if (len < PATH_MOST) {
			memcpy(name + start, path, len);
			append_text(name + start + len, file);
			least = min_size(least, limit_in(name));
		}
		if (len == 0)
			return least;
		do
			len--;
		while (len > 0 && path[len] != '/');
	}
}

/* Is `memory` among the words between commas? */
static bool has_memory(const char *at, const char *end) {
	for (const char *stop; at < end; at = stop + 1) {
		stop = find_byte(at, end, ',');
		if (stop - at == sizeof "memory" - 1 && begins_with(at, "memory"))
			return true;
	}
	return false;
}

static size_t limit_of_line(const char *root, const char *line, const char *end) {
	const char *colon = find_byte(line, end, ':'), *controllers = colon + 1;
	const char *path = find_byte(controllers, end, ':');
	if (colon == end || path == end || path + 1 == end || path[1] != '/')
		return NONE;
	size_t len = (size_t)(end - path) - 1;
	if (path == controllers)
		return least_upwards(root, "", path + 1, len, "/memory.max");
	if (has_memory(controllers, path))
		return least_upwards(root, "/memory", path + 1, len, "/memory.limit_in_bytes");
	return NONE;
}

size_t os_cgroup_limit(const char *membership, const char *root) {
	char text[LINES_MOST];
	size_t len = read_text(membership, text, sizeof text), least = NONE;
	if (text_length(root) > ROOT_MOST)
		return 0;
	for (const char *at = text, *end; at < text + len; at = end + 1) {
		end = find_byte(at, text + len, '\n');
		least = min_size(least, limit_of_line(root, at, end));
	}
	return least == NONE ? 0 : least;
}
