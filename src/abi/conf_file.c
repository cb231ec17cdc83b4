/* SPDX-License-Identifier: MIT */
#include "abi/conf_file.h"

#include "os/os.h"

/* ---- which program is this? ---- */

static bool glob(struct text p, struct text t) {
	size_t i = 0, j = 0, star = SIZE_MAX, tried = 0;
	while (j < t.len) {
		if (i < p.len && p.at[i] == '*') {
			/* Tries the shortest text first; a later star makes it needless to come back here. */
			star = i++;
			tried = j;
		} else if (i < p.len && (p.at[i] == '?' || p.at[i] == t.at[j])) {
			i++, j++;
		} else if (star != SIZE_MAX) {
			i = star + 1;
			j = ++tried;
		} else {
			return false;
		}
	}
	while (i < p.len && p.at[i] == '*')
		i++;
	return i == p.len;
}

bool conf_exe_matches(struct text pattern, struct text path) {
	if (text_find(pattern, '/') < pattern.len)
		return glob(pattern, path);
	size_t gone = path.len;
	while (gone > 0 && path.at[gone - 1] != '/')
		gone--;
	return glob(pattern, (struct text){ path.at + gone, path.len - gone });
}

struct reader {
	conf_line_fn *fn;
	void *arg;
	unsigned number;
	bool all;       /* every section holds */
	bool elsewhere; /* in a section that does not hold */
	bool too_long;  /* the current line's beginning was dropped */
	bool have_path; /* asked for at the first section */
	size_t path_len;
	char path[1024];
};

/* By its real path, and by the one it was started with: /usr/bin/cc may be a link to gcc. What a
   privileged program is called is up to its caller. */
static bool is_this_program(struct reader *r, struct text pattern) {
	bool may_go_by_start = !os_facts.secure && os_facts.started_as != NULL;
	if (may_go_by_start && conf_exe_matches(pattern, text_of(os_facts.started_as)))
		return true; /* the other way costs half of all that reading a file does */
	if (!r->have_path)
		r->path_len = os_executable(r->path, sizeof r->path);
	r->have_path = true;
	return r->path_len != 0 && conf_exe_matches(pattern, (struct text){ r->path, r->path_len });
}

/* ---- lines ---- */

static bool is_section(struct text header, struct text *pattern) {
	static const char opening[] = "[exe:";
	size_t skip = sizeof opening - 1, end = text_find(header, ']');
	if (end == header.len || header.len < skip || !text_is((struct text){ header.at, skip }, text_of(opening)))
		return false;
	*pattern = text_trim((struct text){ header.at + skip, end - skip });
	struct text rest = { header.at + end + 1, header.len - end - 1 };
	rest = text_trim(rest);
	return pattern->len != 0 && (rest.len == 0 || rest.at[0] == '#');
}

static void take_header(struct reader *r, struct text line) {
	struct text pattern;
	bool good = is_section(line, &pattern);
	r->elsewhere = !good || !(r->all || is_this_program(r, pattern));
	if (!good)
		r->fn(r->arg, r->number, CONF_BAD_SECTION, line);
}

static void take_line(struct reader *r, struct text line) {
	r->number++;
	if (r->too_long) {
		r->too_long = false;
		if (!r->elsewhere)
			r->fn(r->arg, r->number, CONF_LINE_TOO_LONG, line);
		return;
	}
	line = text_trim(line);
	if (line.len > 0 && line.at[0] == '[') {
		take_header(r, line);
		return;
	}
	line = text_trim((struct text){ line.at, text_find(line, '#') });
	if (line.len > 0 && !r->elsewhere)
		r->fn(r->arg, r->number, CONF_TAKEN, line);
}

/* Takes the lines that are whole; what is left of the last moves to the front of the buffer. */
static size_t take_whole_lines(struct reader *r, char *buf, size_t len) {
	struct text rest = { buf, len };
	for (size_t end; (end = text_find(rest, '\n')) < rest.len;) {
		take_line(r, (struct text){ rest.at, end });
		rest.at += end + 1;
		rest.len -= end + 1;
	}
	memmove(buf, rest.at, rest.len);
	return rest.len;
}

/* The last line need not end in a newline. */
static void take_rest(struct reader *r, const char *buf, size_t len) {
	if (len != 0 || r->too_long)
		take_line(r, (struct text){ buf, len });
}

static void read_file(int fd, bool all, conf_line_fn *fn, void *arg) {
	char buf[CONF_LINE_MAX + 1];
	struct reader r;
	r.fn = fn; /* no initialiser: it would clear the path, too */
	r.arg = arg;
	r.number = 0;
	r.all = all;
	r.elsewhere = r.too_long = r.have_path = false;
	size_t kept = 0, offset = 0;
	while (offset <= CONF_FILE_MAX) { /* a byte more: is that all there is? */
		size_t room = sizeof buf - kept, left = CONF_FILE_MAX + 1 - offset;
		size_t got = os_file_read(fd, buf + kept, room < left ? room : left, offset);
		if (got == 0) {
			take_rest(&r, buf, kept);
			return;
		}
		offset += got;
		kept = take_whole_lines(&r, buf, kept + got);
		if (got < room && got < left) { /* that was the end: a system call less */
			take_rest(&r, buf, kept);
			return;
		}
		if (kept == sizeof buf) {
			struct text line = text_trim((struct text){ buf, kept });
			if (!r.too_long && line.len > 0 && line.at[0] == '[')
				r.elsewhere = !all; /* of whom its lines are cannot be told */
			r.too_long = true;
			kept = 0;
		}
	}
}

void conf_file_read(int fd, conf_line_fn *fn, void *arg) {
	read_file(fd, false, fn, arg);
}

void conf_file_read_all(int fd, conf_line_fn *fn, void *arg) {
	read_file(fd, true, fn, arg);
}
