/* SPDX-License-Identifier: MIT */
/* The commands: each is defined in the file of its name and is a row of main.c's table. */
#ifndef HAK_TOOL_COMMANDS_H
#define HAK_TOOL_COMMANDS_H

#include "tool/tool.h"

extern const struct command command_conf;
extern const struct command command_info;
extern const struct command command_preload;
extern const struct command command_map;
extern const struct command command_profile;
extern const struct command command_run;
extern const struct command command_stat;
extern const struct command command_top;

#endif
