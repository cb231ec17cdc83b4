/* SPDX-License-Identifier: MIT */
/*
 * Stands for an in-memory key-value server such as Redis: one thread, a hash table of keys that
 * grows and shrinks by incremental rehash, values of 16 to 1024 bytes that are set, read, deleted,
 * expired, or pushed to and popped from lists, a key and a reply made for each command, and busy
 * times after quiet ones. Good at it: mixing very short lives with long ones without spreading the
 * long ones over memory, large calloc, and a footprint near what is live.
 */
#include <stdio.h>
#include <string.h>

#include "keyspace.h"

enum { COMMANDS, KEYS, SEED };
static struct parameter parameters[] = {
	[COMMANDS] = { "COMMANDS", "executed", 1, 100000000000, 4000000 },
	[KEYS] = { "KEYS", "different ones; one in sixteen names a list", 16, 100000000, 100000 },
	[SEED] = { "SEED", "of the load", 0, UINT64_MAX, 1 },
	{ .name = NULL },
};
enum { MIN, MAX };
static struct parameter options[] = {
	[MIN] = { "min", "bytes in the smallest value", MIN_BLOCK, 1 << 20, 16 },
	[MAX] = { "max", "bytes in the largest value", MIN_BLOCK, 1 << 20, 1024 },
	{ .name = NULL },
};
static const struct workload workload = {
	"bench_redis_like", "Lives the life of a key-value server; an operation is a command",
	parameters, options,
};

/* Replies wait here until clients have read them, in order. */
enum { REPLIES = 32, LIST_LIMIT = 64, LIST_SHARE = 16 };
struct server {
	struct keyspace keyspace;
	uint64_t now, random; /* commands so far */
	struct value replies[REPLIES];
};

enum command { GET, SET, DEL, EXPIRE, PUSH, POP, COMMAND_KINDS };
/* How many of a hundred commands are of which kind. */
static const unsigned busy[COMMAND_KINDS] = { 46, 32, 3, 5, 8, 6 };
static const unsigned quiet[COMMAND_KINDS] = { 52, 6, 14, 20, 3, 5 };

static struct value new_value(struct server *s) {
	return value_new(random_between(&s->random, options[MIN].value, options[MAX].value));
}

static void reply(struct server *s, const struct value *value) {
	struct value *slot = &s->replies[s->now % REPLIES];
	value_free(slot);
	size_t size = value == NULL ? 16 : value->size;
	*slot = value_new(size);
	if (value == NULL || size <= 16)
		return;
	block_check(value->block, size);
	memcpy((char *)slot->block + 8, (char *)value->block + 8, size - 9);
}

/* The entry, unless its time is over. */
static struct entry *look_up(struct server *s, const struct key *key) {
	struct entry *entry = keyspace_find(&s->keyspace, key);
	if (entry == NULL || entry->expires == 0 || entry->expires > s->now)
		return entry;
	keyspace_remove(&s->keyspace, key);
	return NULL;
}

/* Set and push: `key` is used up. */
static void write_command(struct server *s, enum command command, struct key *key) {
	struct value value = new_value(s);
	struct entry *entry = look_up(s, key);
	if (entry == NULL)
		entry = keyspace_add(&s->keyspace, key);
	else
		key_free(key);
	if (command == SET) {
		value_free(&entry->value);
		entry->value = value;
		entry->expires = 0;
		return;
	}
	list_push(entry, value);
	if (entry->length <= LIST_LIMIT)
		return;
	struct value last = list_pop(entry, true);
	value_free(&last);
}

static void pop(struct server *s, const struct key *key, struct entry *entry) {
	struct value value = list_pop(entry, s->random % 2 == 0);
	reply(s, &value);
	value_free(&value);
	if (entry->length == 0)
		keyspace_remove(&s->keyspace, key);
}

static void execute(struct server *s, enum command command, struct key *key) {
	if (command == SET || command == PUSH) {
		write_command(s, command, key);
		return;
	}
	struct entry *entry = look_up(s, key);
	if (entry == NULL)
		reply(s, NULL);
	else if (command == GET)
		reply(s, &entry->value);
	else if (command == EXPIRE)
		entry->expires = s->now + 1 + random_next(&s->random) % (parameters[KEYS].value * 2);
	else if (command == DEL)
		keyspace_remove(&s->keyspace, key);
	else
		pop(s, key, entry);
	key_free(key);
}

static enum command choose(struct server *s, const unsigned shares[COMMAND_KINDS]) {
	uint64_t draw = random_between(&s->random, 0, 99);
	enum command command = GET;
	for (; draw >= shares[command]; command++)
		draw -= shares[command];
	return command;
}

/* Four commands of five name one of a fifth of the keys. Lists have keys of their own. */
static struct key *choose_key(struct server *s, enum command command) {
	uint64_t keys = parameters[KEYS].value, lists = keys / LIST_SHARE;
	uint64_t low = 0, high = lists - 1;
	if (command != PUSH && command != POP) {
		low = lists;
		high = random_between(&s->random, 0, 4) > 0 ? lists + (keys - lists) / 5 : keys - 1;
	}
	return key_new(random_between(&s->random, low, high));
}

static void serve(struct server *s, uint64_t commands, const unsigned shares[COMMAND_KINDS]) {
	enum { CYCLE = 128, TRIES = 16 };
	for (uint64_t i = 0; i < commands; i++) {
		s->now++;
		enum command command = choose(s, shares);
		execute(s, command, choose_key(s, command));
		if (s->now % CYCLE == 0)
			keyspace_expire(&s->keyspace, s->now, TRIES, &s->random);
	}
}

int main(int argc, char **argv) {
	enum { PHASES = 8 };
	workload_begin(&workload, argc, argv);
	if (options[MIN].value > options[MAX].value)
		workload_refuse("--min is above --max");
	struct server server = { .random = parameters[SEED].value };
	for (uint64_t i = 0; i < PHASES; i++) {
		uint64_t end = parameters[COMMANDS].value * (i + 1) / PHASES;
		uint64_t commands = end - server.now;
		char label[32];
		snprintf(label, sizeof(label), "%s %d", i % 2 == 0 ? "busy" : "quiet", (int)i / 2 + 1);
		workload_start();
		serve(&server, commands, i % 2 == 0 ? busy : quiet);
		workload_stop(commands);
		workload_resident(label, keyspace_live());
	}
	struct keyspace *k = &server.keyspace;
	workload_figure("keys at the end", (double)(k->old.used + k->new.used), "");
	workload_figure("rehashes", (double)k->rehashes, "");
	struct key *key = key_new(0);
	workload_served(key);
	key_free(key);
	for (int i = 0; i < REPLIES; i++)
		value_free(&server.replies[i]);
	keyspace_free(k);
	if (keyspace_live() != 0)
		workload_fail("%zu bytes were never freed", keyspace_live());
	return workload_end();
}
