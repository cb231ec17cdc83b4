/* SPDX-License-Identifier: MIT */
#include "abi/conf_check.h"

#include "abi/conf.h"
#include "abi/conf_file.h"
#include "abi/conf_table.h"
#include "os/os.h"

struct checker {
	void (*say)(void *arg, unsigned line, const char *text, const char *why);
	void *arg;
	struct settings into; /* what is taken goes here, and nowhere else */
	int bad;
};

static void check_line(void *arg, unsigned number, enum conf_verdict verdict, struct text line) {
	struct checker *c = arg;
	enum conf_row row;
	if (verdict == CONF_TAKEN)
		verdict = conf_assign(&c->into, line, &row);
	if (verdict == CONF_TAKEN)
		return;
	struct line copy = { .len = 0 };
	line_text(&copy, line.at, line.len);
	copy.text[copy.len] = '\0';
	c->bad++;
	c->say(c->arg, number, copy.text, conf_reason(verdict));
}

int conf_check(const char *path, void (*say)(void *arg, unsigned line, const char *text, const char *why),
               void *arg) {
	struct checker c = { .say = say, .arg = arg };
	struct os_file file = os_file_open(path);
	if (file.fd >= 0 && file.regular)
		conf_file_read_all(file.fd, check_line, &c);
	if (file.fd >= 0)
		os_file_close(file.fd);
	return file.fd >= 0 && file.regular ? c.bad : -1;
}
