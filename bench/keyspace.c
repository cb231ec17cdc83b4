/* SPDX-License-Identifier: MIT */
#include "keyspace.h"

#include <string.h>

static size_t live;

size_t keyspace_live(void) {
	return live;
}

static void *take(size_t count, size_t size) {
	void *block = calloc(count, size);
	if (block == NULL)
		block_fail(NULL, count * size);
	live += count * size;
	return block;
}

static void give(void *block, size_t size) {
	live -= size;
	free(block);
}

struct value value_new(size_t size) {
	live += size;
	return (struct value){ block_new(size), size };
}

void value_free(struct value *value) {
	if (value->block == NULL)
		return;
	live -= value->size;
	block_free(value->block, value->size);
	value->block = NULL;
}

struct key *key_new(uint64_t number) {
	struct key *key = take(1, sizeof(*key));
	memcpy(key->text, "key:", 4);
	for (size_t i = KEY_LENGTH; i > 4; i--, number /= 10)
		key->text[i - 1] = (char)('0' + number % 10);
	uint32_t hash = 2166136261; /* FNV-1a */
	for (size_t i = 0; i < KEY_LENGTH; i++)
		hash = (hash ^ (unsigned char)key->text[i]) * 16777619;
	key->hash = hash ^ (hash >> 15);
	return key;
}

void key_free(struct key *key) {
	give(key, sizeof(*key));
}

void list_push(struct entry *list, struct value value) {
	struct node *node = take(1, sizeof(*node));
	node->value = value;
	node->next = list->first;
	*(list->first == NULL ? &list->last : &list->first->previous) = node;
	list->first = node;
	list->length++;
}

struct value list_pop(struct entry *list, bool is_from_end) {
	struct node *node = is_from_end ? list->last : list->first;
	struct value value = node->value;
	*(node->previous == NULL ? &list->first : &node->previous->next) = node->next;
	*(node->next == NULL ? &list->last : &node->next->previous) = node->previous;
	list->length--;
	give(node, sizeof(*node));
	return value;
}

static void entry_free(struct entry *entry) {
	while (entry->length > 0) {
		struct value value = list_pop(entry, false);
		value_free(&value);
	}
	value_free(&entry->value);
	key_free(entry->key);
	give(entry, sizeof(*entry));
}

static struct entry **bucket_of(struct table *table, uint32_t hash) {
	return &table->buckets[hash & (table->size - 1)];
}

static void table_free(struct table *table) {
	if (table->buckets != NULL)
		give(table->buckets, table->size * sizeof(*table->buckets));
	*table = (struct table){ 0 };
}

static bool is_rehashing(const struct keyspace *k) {
	return k->new.size > 0;
}

static void rehash_bucket(struct keyspace *k) {
	struct entry *entry = k->old.buckets[k->moved];
	k->old.buckets[k->moved++] = NULL;
	while (entry != NULL) {
		struct entry *next = entry->next;
		struct entry **bucket = bucket_of(&k->new, entry->key->hash);
		entry->next = *bucket;
		*bucket = entry;
		k->old.used--;
		k->new.used++;
		entry = next;
	}
}

/* Some work of a rehash under way, or begins one if the table is too full or too empty. */
static void rehash_step(struct keyspace *k) {
	enum { MIN_SIZE = 16, BUCKETS = 4 };
	size_t size = k->old.size;
	if (is_rehashing(k)) {
		for (int i = 0; i < BUCKETS && k->moved < size; i++)
			rehash_bucket(k);
		if (k->moved < size)
			return;
		table_free(&k->old);
		k->old = k->new;
		k->new = (struct table){ 0 };
		return;
	}
	size_t wanted = k->old.used >= size ? size * 2 : size;
	if (size > MIN_SIZE && k->old.used * 8 < size)
		wanted = size / 4;
	wanted = wanted < MIN_SIZE ? MIN_SIZE : wanted;
	if (wanted == size)
		return;
	k->new = (struct table){ take(wanted, sizeof(struct entry *)), wanted, 0 };
	k->moved = 0;
	k->rehashes++;
}

/* What points to the entry of the key, which then is in *`tablep`; NULL if there is none. */
static struct entry **search(struct keyspace *k, const struct key *key, struct table **tablep) {
	struct table *tables[] = { &k->old, &k->new };
	for (int i = 0; i < 2; i++) {
		if (tables[i]->size == 0)
			continue;
		struct entry **at = bucket_of(tables[i], key->hash);
		for (; *at != NULL; at = &(*at)->next) {
			if (memcmp((*at)->key, key, sizeof(*key)) != 0)
				continue;
			*tablep = tables[i];
			return at;
		}
	}
	return NULL;
}

struct entry *keyspace_find(struct keyspace *k, const struct key *key) {
	struct table *table;
	struct entry **at = search(k, key, &table);
	return at == NULL ? NULL : *at;
}

struct entry *keyspace_add(struct keyspace *k, struct key *key) {
	rehash_step(k);
	struct table *table = is_rehashing(k) ? &k->new : &k->old;
	struct entry **bucket = bucket_of(table, key->hash);
	struct entry *entry = take(1, sizeof(*entry));
	entry->key = key;
	entry->next = *bucket;
	*bucket = entry;
	table->used++;
	return entry;
}

static void remove_at(struct entry **at, struct table *table) {
	struct entry *entry = *at;
	*at = entry->next;
	table->used--;
	entry_free(entry);
}

bool keyspace_remove(struct keyspace *k, const struct key *key) {
	struct table *table;
	struct entry **at = search(k, key, &table);
	if (at == NULL)
		return false;
	remove_at(at, table);
	rehash_step(k);
	return true;
}

void keyspace_expire(struct keyspace *k, uint64_t now, unsigned tries, uint64_t *random) {
	struct table *table = is_rehashing(k) ? &k->new : &k->old;
	for (unsigned i = 0; i < tries && table->size > 0; i++) {
		struct entry **at = bucket_of(table, (uint32_t)random_next(random));
		while (*at != NULL) {
			if ((*at)->expires != 0 && (*at)->expires <= now)
				remove_at(at, table);
			else
				at = &(*at)->next;
		}
	}
	rehash_step(k);
}

void keyspace_free(struct keyspace *k) {
	struct table *tables[] = { &k->old, &k->new };
	for (int i = 0; i < 2; i++) {
		for (size_t b = 0; b < tables[i]->size; b++)
			while (tables[i]->buckets[b] != NULL)
				remove_at(&tables[i]->buckets[b], tables[i]);
		table_free(tables[i]);
	}
}
