/* SPDX-License-Identifier: MIT */
/*
 * The keyspace of an in-memory key-value server: a chained hash table of keys, whose values are one
 * block or a list of blocks. It grows and shrinks by rehashing a few buckets at a time, so that no
 * command waits for it, and meanwhile has two tables. One thread at a time.
 */
#ifndef HAK_BENCH_KEYSPACE_H
#define HAK_BENCH_KEYSPACE_H

#include <stdbool.h>

#include "workload.h"

/* A marked block of `size` bytes; NULL if there is none. */
struct value {
	void *block;
	size_t size;
};

struct node {
	struct node *next, *previous;
	struct value value;
};

enum { KEY_LENGTH = 16 };

struct key {
	uint32_t hash;
	char text[KEY_LENGTH];
};

struct entry {
	struct entry *next; /* in its bucket */
	struct key *key;
	struct value value;
	struct node *first, *last; /* a list's */
	size_t length;
	uint64_t expires; /* the command number from which on it is gone; 0: never */
};

struct table {
	struct entry **buckets;
	size_t size, used; /* buckets, a power of two or 0; entries */
};

/* While rehashing, buckets of old below `moved` are empty, and new entries go to the new table. */
struct keyspace {
	struct table old, new;
	size_t moved, rehashes;
};

/* Bytes asked for and not freed yet by this module. */
size_t keyspace_live(void);

struct value value_new(size_t size);
void value_free(struct value *value);

/* A key of its own, as a client's command brings one. */
struct key *key_new(uint64_t number);
void key_free(struct key *key);

struct entry *keyspace_find(struct keyspace *keyspace, const struct key *key);
/* Adds an entry without a value; `key`, which must not be there, now belongs to it. */
struct entry *keyspace_add(struct keyspace *keyspace, struct key *key);
/* Frees the entry with all it holds. False if there is none. */
bool keyspace_remove(struct keyspace *keyspace, const struct key *key);
/* Frees what has expired among the entries of `tries` random buckets. */
void keyspace_expire(struct keyspace *keyspace, uint64_t now, unsigned tries, uint64_t *random);
void keyspace_free(struct keyspace *keyspace);

void list_push(struct entry *list, struct value value);      /* in front */
struct value list_pop(struct entry *list, bool is_from_end); /* from a list that is not empty */

#endif
