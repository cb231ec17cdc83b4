/* SPDX-License-Identifier: MIT */
#include "tool/screen.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "tool/tool.h"

bool screen_is_terminal(void) {
	return isatty(STDOUT_FILENO);
}

static bool takes_escapes(void) {
	const char *term = getenv("TERM");
	return screen_is_terminal() && term != NULL && strcmp(term, "dumb") != 0;
}

bool screen_has_colour(void) {
	const char *no = getenv("NO_COLOR");
	return takes_escapes() && (no == NULL || no[0] == '\0');
}

void screen_size(unsigned *rowsp, unsigned *columnsp) {
	struct winsize size = { 0 };
	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	*rowsp = size.ws_row != 0 ? size.ws_row : 24;
	*columnsp = size.ws_col != 0 ? size.ws_col : 80;
}

bool screen_wait(double seconds) {
	struct timespec t = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
	if (fflush(stdout) != 0 || ferror(stdout))
		return false;
	nanosleep(&t, NULL);
	return true;
}

void screen_begin(void) {
	if (takes_escapes())
		fputs("\033[H\033[J", stdout);
}

struct amount amount_of(uint64_t bytes) {
	static const char units[] = "BKMGTPE";
	struct amount a;
	double value = (double)bytes;
	unsigned unit = 0;
	while (value >= 999.5 && unit + 2 < sizeof units) {
		value /= 1024;
		unit++;
	}
	snprintf(a.text, sizeof a.text, unit == 0 || value >= 99.95 ? "%.0f%c" : "%.1f%c", value, units[unit]);
	return a;
}

bool parse_seconds(const char *command, const char *text, double *secondsp) {
	char *end;
	*secondsp = strtod(text, &end);
	if (end != text && *end == '\0' && *secondsp >= 0.05 && *secondsp <= 1e6)
		return true;
	misused("%s: '%s' is no number of seconds from 0.05 on", command, text);
	return false;
}
