/* SPDX-License-Identifier: MIT */
/*
 * Does what a setting changes the outcome of, and prints "VALUE\n" and what malloc_info says.
 * Usage: probe ACTION [ARGUMENT]
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../resident.h"

/* A function of its own in stack traces. */
#if __has_attribute(noclone)
#define KEPT_APART __attribute__((noinline, noclone))
#else
#define KEPT_APART __attribute__((noinline))
#endif

enum { MOST = 65536, GRANULE = 1 << 16, MIB = 1 << 20 };

static char *blocks[MOST];
static size_t handed_on; /* of them, where one thread frees what another took */

/* Takes until there is no more; every page of a block is touched. */
static size_t take(size_t count, size_t size)
{
	size_t n = 0;

	while (n < count && n < MOST && (blocks[n] = malloc(size)) != NULL) {
		for (size_t at = 0; at < size; at += 4096)
			blocks[n][at] = 1;
		n++;
	}
	return n;
}

static void give_back(size_t count)
{
	while (count > 0)
		free(blocks[--count]);
}

static long owns_block_of(long size)
{
	int (*owns)(const void *);

	*(void **)&owns = dlsym(RTLD_DEFAULT, "hak_owns");
	return owns != NULL ? owns(malloc((size_t)size)) : -1;
}

/* What malloc_trim says of memory in the middle of the heap. */
static long trim(long kib)
{
	size_t n = take((size_t)kib, 1000);

	give_back(n - 1);
	return malloc_trim(0);
}

static long use_small(long kib)
{
	return (long)take((size_t)kib, 1000);
}

static long free_many(long count)
{
	give_back(take((size_t)count, 64));
	return count;
}

static long free_mibs(long count)
{
	give_back(take((size_t)count, MIB));
	return count;
}

/* Of 400 of them. */
static long free_of_many_mibs(long count)
{
	take(400, MIB);
	give_back((size_t)count);
	return count;
}

/* Kilobytes resident that were not before, after some were used and freed. */
static long free_burst(long mib)
{
	long before = resident_kib();

	give_back(take((size_t)mib * 256, 4000));
	return resident_kib() - before;
}

/* The same after that and 600 ms more of allocating. */
static long free_burst_and_go_on(long mib)
{
	long before = resident_kib();

	give_back(take((size_t)mib * 256, 4000));
	for (int i = 0; i < 60; i++) {
		usleep(10000);
		give_back(take(8, 100 << 10));
	}
	return resident_kib() - before;
}

/* ---- giving back on time ---- */

enum { BURST_BLOCK = 16000, LIVE_BLOCKS = 8192, BURST_BLOCKS = 65536, DELAY_MS = 1000 };
static char *live[LIVE_BLOCKS];

/* Kilobytes resident beyond what is live, some 128 MiB, one and a half purge delays of a second after
   1 GiB more was freed; where another thread has to see to that, up to `seconds` more, till little is left. `step` is
   called meanwhile. */
static long rest_of_burst(void (*step)(void), long seconds)
{
	enum { LITTLE = LIVE_BLOCKS * (BURST_BLOCK / 1000) / 20 };
	long before;

	take(LIVE_BLOCKS, BURST_BLOCK);
	memcpy(live, blocks, sizeof live);
	before = resident_kib();
	give_back(take(BURST_BLOCKS, BURST_BLOCK));
	for (int ms = 0; ms < DELAY_MS * 3 / 2; ms += 10) {
		usleep(10000);
		step();
	}
	for (long i = 0; i < seconds * 10 && resident_kib() - before > LITTLE; i++)
		usleep(100000);
	return resident_kib() - before;
}

static void allocate_now_and_then(void)
{
	static size_t size;

	size = (size + 700) % 5000;
	give_back(take(8, size));
}

static void idle(void)
{
}

/* One size only, from the thread's cache: nothing but fast paths. */
static void allocate_one_size(void)
{
	static void *volatile block;

	block = malloc(64);
	free(block);
}

static void allocate_one_size_busily(void)
{
	for (int i = 0; i < 1000000; i++)
		allocate_one_size();
}

static void *allocate_till_told(void *goes_on)
{
	while (*(volatile int *)goes_on)
		allocate_one_size();
	return NULL;
}

static void *give_back_in_thread(void *count)
{
	give_back(*(size_t *)count);
	return NULL;
}

static void *give_back_slowly_in_thread(void *before)
{
	void *volatile own = malloc(100);

	for (size_t n = MOST; n > 0; n -= 1024) {
		for (size_t i = 1; i <= 1024; i++)
			free(blocks[n - i]);
		usleep(10000);
	}
	*(long *)before = resident_kib() - *(long *)before;
	free(own);
	return NULL;
}

/* Kilobytes resident beyond what was before, when a thread that has a heap has freed slowly what this one made, and has
   not ended. */
static long freed_by_worker(long unused)
{
	long value = resident_kib();
	pthread_t thread;

	if (take(MOST, 4000) != MOST || pthread_create(&thread, NULL, give_back_slowly_in_thread, &value) != 0)
		return -1;
	pthread_join(thread, NULL);
	return value;
}

static volatile int has_freed, stays = 1;

static void *give_back_fast_then(void *pairs)
{
	void *volatile own = *(long *)pairs ? malloc(100) : NULL;

	give_back(MOST);
	has_freed = 1;
	while (stays)
		*(long *)pairs ? allocate_one_size() : (void)usleep(1000);
	free(own);
	return NULL;
}

/* Likewise when a thread has freed it as fast as it can, and then sleeps; or, if `pairs`, has a heap, and goes on with
   blocks of another size. */
static long freed_fast(long pairs)
{
	long value = resident_kib();
	pthread_t thread;

	if (take(MOST, 4000) != MOST || pthread_create(&thread, NULL, give_back_fast_then, &pairs) != 0)
		return -1;
	while (!has_freed)
		usleep(1000);
	usleep(100000);
	value = resident_kib() - value;
	stays = 0;
	pthread_join(thread, NULL);
	return value;
}

/* Kilobytes resident beyond what was before, after another thread has freed 256 MiB of small blocks and ended, while this
   one slept; and 1: after malloc_trim; 2: of 48 MiB, one and a half purge delays of a second later, in which it sleeps on;
   3: up to ten seconds more, till an eighth of them is left. */
static long freed_by_another(long then)
{
	long before = resident_kib();
	size_t many = then >= 2 ? 12 << 10 : MOST, n = take(many, 4000);
	pthread_t thread;

	if (n != many || pthread_create(&thread, NULL, give_back_in_thread, &n) != 0)
		return -1;
	pthread_join(thread, NULL);
	if (then == 1)
		malloc_trim(0);
	else if (then >= 2)
		usleep(DELAY_MS * 3 / 2 * 1000);
	for (int i = 0; then == 3 && i < 100 && resident_kib() - before >= 6 << 10; i++)
		usleep(100000);
	return resident_kib() - before;
}

/* The cache of that size has blocks before the burst. `step`: what the program does after it. */
static long burst_then_one_size(void (*step)(void))
{
	give_back(take(1000, 64));
	give_back(take(20, 64));
	return rest_of_burst(step, 0);
}

static long burst_then_pairs(long busily)
{
	return burst_then_one_size(busily ? allocate_one_size_busily : allocate_one_size);
}

/* Another thread goes on, this one idles. */
static long burst_beside_pairs(long seconds)
{
	pthread_t thread;
	int goes_on = 1;
	long value;

	if (pthread_create(&thread, NULL, allocate_till_told, &goes_on) != 0)
		return -1;
	value = rest_of_burst(idle, seconds);
	*(volatile int *)&goes_on = 0;
	pthread_join(thread, NULL);
	return value;
}

static struct {
	pthread_t thread;
	int goes_on;
} later;

static void start_later(void)
{
	if (later.goes_on)
		return;
	later.goes_on = 1;
	if (pthread_create(&later.thread, NULL, allocate_till_told, &later.goes_on) != 0)
		abort();
}

/* Likewise, but the other begins when the burst is over. */
static long burst_before_pairs(long seconds)
{
	long value = rest_of_burst(start_later, seconds);

	*(volatile int *)&later.goes_on = 0;
	pthread_join(later.thread, NULL);
	return value;
}

/* Blocks that have no bin. */
static void allocate_large(void)
{
	give_back(take(1, MIB));
}

static long burst_then_large(long unused)
{
	return rest_of_burst(allocate_large, 0);
}

static long burst_then_go_on(long unused)
{
	return rest_of_burst(allocate_now_and_then, 0);
}

static long burst_then_idle(long seconds)
{
	return rest_of_burst(idle, seconds);
}

/* The same in a child of a process that had a purge thread. */
static long burst_then_idle_in_child(long seconds)
{
	int ends[2];
	long value = -1;

	rest_of_burst(idle, seconds);
	give_back(take(BURST_BLOCKS / 16, BURST_BLOCK));
	if (pipe(ends) != 0)
		return -1;
	if (fork() == 0) {
		value = rest_of_burst(idle, seconds);
		_exit(write(ends[1], &value, sizeof value) != sizeof value);
	}
	close(ends[1]);
	return read(ends[0], &value, sizeof value) == sizeof value ? value : -1;
}

/* A line of a thread's status; "" if there is none. */
static void status_of(const char *task, const char *key, char *value)
{
	char path[300], line[300];
	FILE *file;

	value[0] = '\0';
	snprintf(path, sizeof path, "/proc/self/task/%s/status", task);
	file = fopen(path, "r");
	while (file != NULL && fgets(line, sizeof line, file) != NULL)
		if (strncmp(line, key, strlen(key)) == 0)
			sscanf(line + strlen(key), " %250s", value);
	if (file != NULL)
		fclose(file);
}

/* Threads; of those that are called hakmem-purge, the ones without signals and capabilities, and ways to get some. */
static void count_threads(long *all, long *purging)
{
	DIR *folder = opendir("/proc/self/task");
	struct dirent *entry;

	*all = *purging = 0;
	while (folder != NULL && (entry = readdir(folder)) != NULL) {
		char name[300], blocked[300], capable[300], no_new[300];
		if (entry->d_name[0] == '.')
			continue;
		status_of(entry->d_name, "Name:", name);
		status_of(entry->d_name, "SigBlk:", blocked);
		status_of(entry->d_name, "CapPrm:", capable);
		status_of(entry->d_name, "NoNewPrivs:", no_new);
		*all += 1;
		/* SIGKILL and SIGSTOP cannot be blocked. */
		*purging += strcmp(name, "hakmem-purge") == 0 && strcmp(blocked, "fffffffffffbfeff") == 0 &&
			strspn(capable, "0") == strlen(capable) && strcmp(no_new, "1") == 0;
	}
	if (folder != NULL)
		closedir(folder);
}

/* Without allocating. */
static int is_single(void)
{
	char text[4096] = "";
	int fd = open("/proc/self/status", O_RDONLY);

	return fd >= 0 && read(fd, text, sizeof text - 1) > 0 && strstr(text, "\nThreads:\t1\n") != NULL;
}

/* 0, or what is wrong with when the purge thread is there and what it is like. */
static long purge_thread(long unused)
{
	enum { NAMED_MS = 10000 };
	long all, purging;
	int status;

	give_back(take(1000, 4000));
	count_threads(&all, &purging);
	if (all != 1)
		return 1;
	give_back(take(20000, 4000));
	count_threads(&all, &purging);
	for (int ms = 0; ms < NAMED_MS && all == 2 && purging == 0; ms += 10) {
		usleep(10000); /* it names itself */
		count_threads(&all, &purging);
	}
	if (all != 2 || purging != 1)
		return 2;
	if (fork() == 0)
		_exit(!is_single()); /* before it allocates, for then it may have one of its own */
	return wait(&status) > 0 && status == 0 ? 0 : 3;
}

/* Children, forked while the purge thread has much to do, that use what they have. How many failed. */
static long fork_amid_purging(long count)
{
	long failed = 0;

	for (long i = 0; i < count; i++) {
		int status;
		pid_t child;
		give_back(take(10000, 4000));
		usleep((useconds_t)(i % 20) * 1000);
		child = fork();
		if (child == 0) {
			alarm(10);
			give_back(take(6000, 4000));
			give_back(take(8, MIB));
			_exit(0);
		}
		failed += waitpid(child, &status, 0) != child || status != 0;
	}
	return failed;
}

/* A visit amid which much is freed, and by that the purge thread started, and another thread looks, too. */
static struct {
	size_t blocks;
	atomic_bool goes_on, looked;
	long full; /* KiB resident while the visit goes on */
	long wrong;
} look;

static void *check_amid(void *visits)
{
	int (*check)(void);

	*(void **)&check = dlsym(RTLD_DEFAULT, "hak_check");
	while (!look.goes_on)
		usleep(1000);
	long bad = check();
	look.looked = true;
	return bad != 0 ? visits : NULL;
}

static int free_and_nap(const void *area, void *ms)
{
	(void)area;
	give_back(look.blocks);
	look.full = resident_kib();
	look.goes_on = true;
	usleep((useconds_t)*(long *)ms * 1000);
	look.wrong += resident_kib() < look.full - 1024 ? 1 : 0;
	look.wrong += look.looked ? 2 : 0;
	return 1;
}

/* 0: neither did anything meanwhile, but both afterwards. */
static long visit_held(long ms)
{
	enum { LATEST_MS = 10000 };
	int (*visit)(int (*)(const void *, void *), void *);
	pthread_t thread;
	void *bad = NULL;

	*(void **)&visit = dlsym(RTLD_DEFAULT, "hak_heap_visit");
	if (pthread_create(&thread, NULL, check_amid, &look) != 0)
		return -1;
	look.blocks = take(20000, 4000);
	if (visit(free_and_nap, &ms) != 1)
		return -1;
	long waited = 0;
	pthread_join(thread, &bad);
	while (resident_kib() > look.full / 2 && waited++ < LATEST_MS)
		usleep(1000);
	return look.wrong + (bad != NULL ? 4 : 0) + (waited >= LATEST_MS ? 8 : 0);
}

static _Atomic int stage;

/* It starts the purge thread, by freeing, and ends. */
static void *start_purging(void *unused)
{
	give_back(take(20000, 4000));
	return NULL;
}

static void *take_and_sleep(void *unused)
{
	take(MOST, 1000);
	stage = 1;
	while (stage == 1)
		usleep(1000);
	return NULL;
}

/* Blocks are written to when they are on their way home to a thread that sleeps, where the purge thread finds them, whose
   starter is gone, and its thread-local memory with it. 0: it has given the others back. */
static long written_on_their_way(long unused)
{
	enum { LATEST_MS = 20000, STACK = 64 * MIB /* more than libc keeps of those that have ended */ };
	pthread_attr_t attributes;
	pthread_t thread;
	long full, waited = 0;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK);
	if (pthread_create(&thread, &attributes, start_purging, NULL) != 0)
		return -1;
	pthread_join(thread, NULL);
	/* Or the next thread would lie where it was. */
	if (mmap(NULL, STACK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ||
	    pthread_create(&thread, NULL, take_and_sleep, NULL) != 0)
		return -1;
	while (stage == 0)
		usleep(1000);
	full = resident_kib();
	/* First, so that they go by messages, whose blocks are looked at; of those that are not read there may be so many. */
	for (unsigned i = 0; i < MOST / 2; i++) {
		char *block = blocks[MOST / 2 + i * 641 % (MOST / 2)]; /* each in another slab than the last */
		free(block);
		if (i < 100)
			*(volatile uintptr_t *)block ^= 1;
	}
	for (unsigned i = 0; i < MOST / 2; i++)
		free(blocks[i]);
	while (resident_kib() > full / 2 && waited++ < LATEST_MS)
		usleep(1000);
	return waited >= LATEST_MS;
}

/* Mappings that have asked for huge pages, with some megabytes in use. */
static long count_huge(long mib)
{
	char line[512];
	long n = 0;
	FILE *file;

	take((size_t)mib * 256, 4000);
	file = fopen("/proc/self/smaps", "r");
	if (file == NULL)
		return -1;
	while (fgets(line, sizeof line, file) != NULL)
		n += strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " hg") != NULL;
	fclose(file);
	return n;
}

static long resident_with_one_block(long size)
{
	take(1, (size_t)size);
	return resident_kib();
}

/* Blocks of one size, freed, and after some milliseconds in which a little is done as many bytes in blocks
   of another size. */
static long use_another_size(long ms)
{
	give_back(take(8192, 1000));
	for (; ms > 0; ms -= 5) {
		usleep(5000);
		give_back(take(2000, 200));
	}
	return (long)take(16384, 500);
}

/* Of 20 slabs' blocks those of two are freed, the older ones last. How many of them are the next ones? */
static long follow_ready(long count)
{
	enum { PER_SLAB = 128, NEWER = 15, OLDER = 5 };
	static char *all[MOST];
	uintptr_t first, last;
	long n = 0;

	take(PER_SLAB * 20, 512);
	memcpy(all, blocks, sizeof all);
	for (int i = 0; i < PER_SLAB - 1; i++)
		free(all[PER_SLAB * NEWER + i]);
	for (int i = 0; i < PER_SLAB - 1; i++)
		free(all[PER_SLAB * OLDER + i]);
	first = (uintptr_t)all[PER_SLAB * OLDER] / GRANULE;
	last = (uintptr_t)all[PER_SLAB * OLDER + PER_SLAB - 1] / GRANULE;
	take((size_t)count, 512);
	for (long i = 0; i < count; i++)
		n += (uintptr_t)blocks[i] / GRANULE == first || (uintptr_t)blocks[i] / GRANULE == last;
	return n;
}

/* Bins of all small sizes are filled, then blocks of one size are taken. How many of them: */
static long fill_bins_then_take(long count)
{
	enum { EACH = 500, STEP = 16, HIGHEST = 960, ROUNDS = 8, AT_ONCE = 2900, USES = 8 };
	static char *small[HIGHEST / STEP][EACH];
	long taken = 0;

	/* Stays: the bin of a size that the program has no block of may be emptied for another. */
	for (size_t size = STEP; size <= HIGHEST; size += STEP)
		take(1, size);
	/* So may one that is not used while the heap grows: hence in turns, and a block now and then. */
	for (int round = 0; round < ROUNDS; round++) {
		for (size_t k = 0; k < EACH; k++)
			for (size_t i = 0; i < HIGHEST / STEP; i++)
				small[i][k] = malloc((i + 1) * STEP);
		for (size_t i = 0; i < HIGHEST / STEP; i++)
			for (size_t k = round < ROUNDS - 1 ? 0 : USES; k < EACH; k++)
				free(small[i][k]);
	}
	for (size_t use = 0; use < USES && taken < count; use++) {
		taken += (long)take((size_t)(count - taken < AT_ONCE ? count - taken : AT_ONCE), 1000);
		for (size_t i = 0; i < HIGHEST / STEP; i++)
			free(small[i][use]);
	}
	return taken;
}

/* Small blocks come and go by the thousand. */
static long come_and_go(long size)
{
	for (int i = 0; i < 100; i++)
		give_back(take(1000, (size_t)size));
	return size;
}

/* First one size, then another, more blocks at a time than a bin may hold. */
static long change_sizes(long rounds)
{
	for (long i = 0; i < rounds; i++)
		give_back(take(12000, 60));
	for (long i = 0; i < rounds; i++)
		give_back(take(12000, 250));
	return rounds;
}

static void *leave_blocks(void *count)
{
	take((size_t)(intptr_t)count, 512);
	for (size_t i = 0; i < (size_t)(intptr_t)count; i += 2)
		free(blocks[i]);
	return NULL;
}

/* Slabs of 1000-byte blocks with free ones are both the main thread's and left by another. Of the next
   blocks, how many lie in the other's? */
static void *leave_every_other_block(void *unused)
{
	take(640, 1000);
	for (int i = 0; i < 640; i += 2)
		free(blocks[i]);
	return NULL;
}

static long prefer_the_dead(long count)
{
	static char *mine[640];
	static uintptr_t granules[640];
	pthread_t thread;
	long n = 0;

	take(640, 1000);
	memcpy(mine, blocks, sizeof mine);
	if (pthread_create(&thread, NULL, leave_every_other_block, NULL) != 0)
		return -1;
	pthread_join(thread, NULL);
	for (int i = 0; i < 640; i++)
		granules[i] = (uintptr_t)blocks[i] / GRANULE;
	for (int i = 0; i < 640; i += 2)
		free(mine[i]);
	for (long i = 0; i < count; i++) {
		uintptr_t granule = (uintptr_t)malloc(1000) / GRANULE;
		for (int j = 0; j < 640; j++)
			if (granules[j] == granule) {
				n++;
				break;
			}
	}
	return n;
}

/* Of as many blocks as a thread left free, those that lie among the ones it left in use. */
static long reuse_of_thread(long count)
{
	static uintptr_t granules[MOST];
	long reused = 0;
	pthread_t thread;

	if (pthread_create(&thread, NULL, leave_blocks, (void *)(intptr_t)count) != 0)
		return -1;
	pthread_join(thread, NULL);
	for (long i = 0; i < count; i++)
		granules[i] = (uintptr_t)blocks[i] / GRANULE;
	for (long i = 0; i < count / 2; i++) {
		uintptr_t granule = (uintptr_t)malloc(512) / GRANULE;
		for (long j = 0; j < count; j++)
			if (granules[j] == granule) {
				reused++;
				break;
			}
	}
	return reused;
}

/* Mebibytes to be had in blocks of that size; and again, when they are freed. -1: not the same. */
static long exhaust(long size)
{
	size_t n = take(MOST, (size_t)size), again;

	give_back(n);
	again = take(MOST, (size_t)size);
	give_back(again);
	return again < n - n / 8 ? -1 : (long)(n * (size_t)size / MIB);
}

static void *give_back_and_take(void *size)
{
	give_back(handed_on);
	handed_on = take(MOST, *(size_t *)size);
	return NULL;
}

/* Mebibytes that another thread has in blocks of that size, after it has freed the 8 MiB of this one, which sleeps. */
static long take_for_another(long size)
{
	enum { OWN_SIZE = 128 };
	pthread_t thread;

	handed_on = take(MOST, OWN_SIZE);
	if (handed_on != MOST || pthread_create(&thread, NULL, give_back_and_take, &size) != 0)
		return -1;
	pthread_join(thread, NULL);
	return (long)(handed_on * (size_t)size / MIB);
}

/* Mebibytes that one block can grow to. */
static long grow(long step)
{
	size_t size = (size_t)step;
	char *p = NULL, *bigger;

	while ((bigger = realloc(p, size)) != NULL) {
		memset(bigger + size - (size_t)step, 1, (size_t)step);
		p = bigger;
		size += (size_t)step;
		free(malloc(64));
	}
	free(p);
	return (long)((size - (size_t)step) / MIB);
}

/* Of so many small blocks, those of which no more can be used than was asked for. */
static long count_exact(long count)
{
	enum { ASKED = 50 };
	long exact = 0;

	for (long i = 0; i < count; i++) {
		void *p = malloc(ASKED);

		exact += malloc_usable_size(p) == ASKED;
		if (i % 2 != 0)
			free(p);
	}
	return exact;
}

/* In how much mallinfo differs from mallinfo2, where some of libc's blocks are in its fast bins; -1: none are. */
static long mallinfo_differs(long count)
{
	struct mallinfo (*mallinfo_function)(void);

	*(void **)&mallinfo_function = dlsym(RTLD_DEFAULT, "mallinfo"); /* deprecated */
	give_back(take((size_t)count, 64));
	struct mallinfo narrow = mallinfo_function();
	struct mallinfo2 wide = mallinfo2();
	const int *fields = &narrow.arena;
	const size_t *wide_fields = &wide.arena;
	long differ = 0;
	for (size_t i = 0; i < sizeof wide / sizeof wide.arena; i++)
		differ += (size_t)fields[i] != wide_fields[i];
	return wide.smblks != 0 && wide.fsmblks != 0 ? differ : -1;
}

/* A misuse; what follows it is the settings' business. */
static long free_twice(long size)
{
	void *p = malloc((size_t)size);

	free(p);
	__asm__ volatile("" : "+r"(p));
	free(p);
	return size;
}

/* By `operator delete(void *, size_t)`. */
static long delete_twice(long size)
{
	void *(*make)(size_t);
	void (*release)(void *, size_t);
	void *p;

	*(void **)&make = dlsym(RTLD_DEFAULT, "_Znwm");
	*(void **)&release = dlsym(RTLD_DEFAULT, "_ZdlPvm");
	p = make((size_t)size);
	release(p, (size_t)size);
	__asm__ volatile("" : "+r"(p));
	release(p, (size_t)size);
	return size;
}

/* One block resized by three names after it was freed. */
static long resize_freed(long size)
{
	void *heap, *(*make)(void), *(*in_heap)(void *, void *, size_t), *(*rezalloc)(void *, size_t), *(*expand)(void *, size_t);
	void *p = malloc((size_t)size);

	*(void **)&make = dlsym(RTLD_DEFAULT, "hak_heap_new");
	*(void **)&in_heap = dlsym(RTLD_DEFAULT, "hak_heap_realloc");
	*(void **)&rezalloc = dlsym(RTLD_DEFAULT, "hak_rezalloc");
	*(void **)&expand = dlsym(RTLD_DEFAULT, "hak_expand");
	heap = make();
	free(p);
	__asm__ volatile("" : "+r"(p));
	return (in_heap(heap, p, 0) == NULL) + (expand(p, (size_t)size) == NULL) + (rezalloc(p, 0) == NULL);
}

/* Bytes that are as they were after a block was written to behind its end and made larger. */
static long overflow_resized(long size)
{
	volatile unsigned char *p = malloc((size_t)size);
	long kept = 0;

	for (long at = 0; at < size; at++)
		p[at] = (unsigned char)(at + 1);
	p[size] ^= 1;
	p = realloc((void *)(uintptr_t)p, (size_t)size * 3);
	for (long at = 0; at < size; at++)
		kept += p[at] == (unsigned char)(at + 1);
	return kept;
}

static void *free_twice_in_thread(void *size)
{
	free_twice(*(long *)size);
	return NULL;
}

static void fill(int pipe_end)
{
	static const char block[4096];

	fcntl(pipe_end, F_SETFL, O_NONBLOCK);
	while (write(pipe_end, block, sizeof block) > 0)
		;
	while (write(pipe_end, block, 1) > 0)
		;
	fcntl(pipe_end, F_SETFL, 0);
}

/* A thread cannot get rid of its report: nobody reads it. Does one of a child, forked meanwhile, get out? */
static long fork_amid_report(long size)
{
	int full[2], heard[2], before = dup(STDERR_FILENO);
	char text[65536] = "";
	pthread_t thread;

	if (pipe(full) != 0 || pipe(heard) != 0)
		return -1;
	fill(full[1]);
	dup2(full[1], STDERR_FILENO);
	if (pthread_create(&thread, NULL, free_twice_in_thread, &size) != 0)
		return -1;
	usleep(200000);
	if (fork() == 0) {
		dup2(heard[1], STDERR_FILENO);
		_exit(free_twice(size) != size);
	}
	close(heard[1]);
	long said = read(heard[0], text, sizeof text - 1) > 0 && strstr(text, "double free of ") != NULL;
	if (read(full[0], text, sizeof text) < 0)
		return -1;
	pthread_join(thread, NULL);
	dup2(before, STDERR_FILENO);
	wait(&(int){0});
	return said;
}

/* More often than is told, and then again in a child. */
static long free_twice_too_often(long size)
{
	for (int i = 0; i < 150; i++)
		free_twice(size);
	if (fork() == 0)
		_exit(free_twice(size) != size);
	return wait(&(int){0}) > 0;
}

/* The child that does so. */
static long free_twice_in_child(long size)
{
	void *volatile own = malloc((size_t)size); /* the heap is older */
	pid_t child = fork();

	if (child == 0)
		_exit(free_twice(size) != size);
	wait(&(int){0});
	free(own);
	return child;
}

/* The inaccessible page before the blocks of a slab. */
static long write_slab_front(long size)
{
	uintptr_t p = (uintptr_t)malloc((size_t)size);

	*(volatile char *)(p / GRANULE * GRANULE + 24) = 1;
	return size;
}

__attribute__((noinline)) static char read_at(const volatile char *p)
{
	return *p;
}

/* Where it is read. */
static long read_freed(long size)
{
	char *volatile p = malloc((size_t)size);

	free(p);
	read_at(p);
	return (long)(uintptr_t)read_at;
}

static size_t hogged; /* of blocks */

static void hog(size_t size)
{
	while (hogged < MOST && (blocks[hogged] = malloc(size)) != NULL)
		hogged++;
}

static void let_go(void)
{
	give_back(hogged);
	hogged = 0;
}

/* A new-handler, found as a C++ library's is. */
void (*get_new_handler(void))(void) __asm__("_ZSt15get_new_handlerv");
void (*get_new_handler(void))(void)
{
	return hogged != 0 ? let_go : NULL;
}

KEPT_APART static char *allocate_by(long way)
{
	static const char *const names[] = {"_Znwm", "_Znam", "_ZnwmSt11align_val_t", "_ZnwmRKSt9nothrow_t", "_Znwm"};
	enum { NAMED = 7, AFTER_HANDLER = 11, ALIGN = 64, SIZE = 100 };
	void *p = NULL, *(*make)(size_t, size_t) = NULL;

	free(malloc(SIZE)); /* there is room for guarded blocks */
	for (size_t size = MIB; way == AFTER_HANDLER && size > SIZE; size /= 16)
		hog(size);
	if (way >= NAMED)
		*(void **)&make = dlsym(RTLD_DEFAULT, names[way - NAMED]);
	switch (way) {
	case 0: p = malloc(SIZE); break;
	case 1: p = calloc(SIZE, 1); break;
	case 2: p = realloc(NULL, SIZE); break;
	case 3: p = realloc(malloc(8), SIZE); break;
	case 4: p = posix_memalign(&p, ALIGN, SIZE) == 0 ? p : NULL; break;
	case 5: p = aligned_alloc(ALIGN, SIZE); break;
	case 6: p = posix_memalign(&p, sizeof(void *), SIZE) == 0 ? p : NULL; break;
	default: p = make(SIZE, ALIGN);
	}
	__asm__ volatile("" : "+r"(p));
	return p;
}

/* Where a block is made behind which somebody writes. */
static long overrun_made_by(long way)
{
	volatile char *p = allocate_by(way);

	p[2 * sysconf(_SC_PAGESIZE)] = 1;
	return (long)(uintptr_t)allocate_by;
}

/* Where one is resized, and asked for its size, after somebody has written behind it. */
KEPT_APART static void use_overrun(char *p, long way)
{
	void *result = NULL;
	size_t size = 0;

	if (way == 0)
		size = malloc_usable_size(p);
	else
		result = realloc(p, way == 1 ? 200 : 20);
	__asm__ volatile("" : : "r"(result), "r"(size));
}

static long overrun_found_by(long way)
{
	char *volatile p = malloc(100);

	p[100] = 1;
	use_overrun(p, way);
	return (long)(uintptr_t)use_overrun;
}

/* Does a block of 56 MiB grow to 74 though 10 are kept by caches? */
static long regrow(long argument)
{
	char *block = malloc(56 * MIB);

	free(malloc(10 * MIB));
	return block != NULL && realloc(block, 74 * MIB) != NULL;
}

static struct {
	void *(*new)(void);
	void *(*malloc)(void *heap, size_t size);
	void *(*realloc)(void *heap, void *block, size_t size);
	void (*destroy)(void *heap);
} heaps;

static void find_heaps(void)
{
	*(void **)&heaps.new = dlsym(RTLD_DEFAULT, "hak_heap_new");
	*(void **)&heaps.malloc = dlsym(RTLD_DEFAULT, "hak_heap_malloc");
	*(void **)&heaps.realloc = dlsym(RTLD_DEFAULT, "hak_heap_realloc");
	*(void **)&heaps.destroy = dlsym(RTLD_DEFAULT, "hak_heap_destroy");
}

/* Does a block of a heap grow from 60 to 70 MiB, though another one lies above it? */
static long heap_regrow(long argument)
{
	find_heaps();
	void *heap = heaps.new(), *above = heaps.malloc(heap, 3 * MIB);
	char *block = heaps.malloc(heap, 60 * MIB);

	block[50 * MIB] = 'x';
	block = heaps.realloc(heap, block, 70 * MIB);
	return above != NULL && block != NULL && block[50 * MIB] == 'x';
}

/* How much of what was written to small blocks of a heap is there when it has been destroyed. Another heap's blocks keep
   the memory in use. */
static long left_when_destroyed(long count)
{
	enum { SIZE = 200, LINKS = 16 };
	long left = 0;

	find_heaps();
	void *heap = heaps.new(), *other = heaps.new();
	for (long i = 0; i < count && i < MOST; i++) {
		blocks[i] = heaps.malloc(heap, SIZE);
		memset(blocks[i], 's', SIZE);
		if (i % 300 == 0 && heaps.malloc(other, SIZE) == NULL)
			return -1;
	}
	heaps.destroy(heap);
	for (long i = 0; i < count && i < MOST; i++)
		for (size_t at = LINKS; at < SIZE; at++)
			left += ((volatile char *)blocks[i])[at] == 's';
	return left;
}

/* What ends a child that writes this far behind a block. */
static long write_behind(long distance)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		volatile char *block = malloc(100);
		block[distance] = 1;
		_exit(0);
	}
	return child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status) ? WTERMSIG(status) : -1;
}

static atomic_int begun, failed;

static void *take_one(void *unused)
{
	void *p = malloc(100);

	failed += p == NULL;
	begun++;
	pause();
	return p;
}

/* Of `n` threads, and heaps, those that get no memory. */
static long count_without_memory(long n)
{
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 128 << 10);
	for (long i = 0; i < n; i++) {
		pthread_t thread;
		if (pthread_create(&thread, &attributes, take_one, NULL) != 0)
			exit(77); /* skipped */
		while (begun <= i)
			usleep(100);
	}
	find_heaps();
	for (long i = 0; i < n; i++)
		failed += heaps.new() == NULL;
	return failed;
}

/* All that a limit allows is in use, and what was freed is kept. */
static long fail_at_limit(long n)
{
	enum { SMALL = 24 << 10, KEPT = 8 };
	static void *small[SMALL], *kept[KEPT];
	static const size_t sizes[] = {4 * MIB, MIB};

	for (int i = 0; i < SMALL; i++)
		if ((small[i] = malloc(1000)) == NULL)
			return -1;
	for (int i = 0; i < KEPT; i++)
		if ((kept[i] = malloc(MIB)) == NULL)
			return -1;
	for (int i = 0; i < 2; i++)
		while (malloc(sizes[i]) != NULL)
			continue;
	while (memalign(128 << 10, 60 << 10) != NULL)
		continue;
	for (int i = 0; i < SMALL; i++) /* what is in use there will not be short */
		if (i % 1000 != 0)
			free(small[i]);
	for (int i = 0; i < KEPT; i++)
		free(kept[i]);
	return count_without_memory(n);
}

/* All that a limit allowed was in use, and is free. */
static long fail_when_free(long n)
{
	void **last = NULL;

	for (void **block; (block = malloc(1000)) != NULL; last = block)
		*block = last;
	for (void **next; last != NULL; last = next) {
		next = *last;
		free(last);
	}
	return count_without_memory(n);
}

/* A block that realloc makes smaller though there is no memory for a smaller one is freed with its size. -1: there was. */
static long shrink_at_limit(long size)
{
	void (*release)(void *, size_t);
	char *p = malloc(1000);

	*(void **)&release = dlsym(RTLD_DEFAULT, "free_sized");
	for (size_t bytes = 16 * MIB; bytes >= 8; bytes /= 2)
		while (malloc(bytes) != NULL)
			continue;
	while (malloc((size_t)size) != NULL)
		continue;
	p = realloc(p, (size_t)size);
	if (malloc_usable_size(p) < 1000)
		return -1;
	release(p, (size_t)size);
	return 1;
}

/* Of 200 children, those to whom one of the `most` first blocks is guarded: it has not a byte more than was asked for. */
static long guarded_children(long most)
{
	long n = 0;

	for (int i = 0; i < 200; i++) {
		int status = 0;
		pid_t child = fork();
		if (child == 0) {
			int is_guarded = 0;
			for (long k = 0; k < most; k++)
				is_guarded |= malloc_usable_size(malloc(100)) == 100;
			_exit(is_guarded);
		}
		if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
			return -1;
		n += WEXITSTATUS(status);
	}
	return n;
}

/* Something else has its number from then on. */
static long leave_stderr(long unused)
{
	take(1000, 1000);
	return dup2(STDOUT_FILENO, STDERR_FILENO);
}

/* Does a pipe end when a program closes standard error that led there from its start? In a child that executes itself. */
static long stderr_is_closed(long is_child)
{
	int ends[2];
	char byte;

	if (is_child) {
		close(STDERR_FILENO);
		pause();
	}
	if (pipe(ends) != 0)
		return -1;
	pid_t child = fork();
	if (child == 0) {
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		execl("/proc/self/exe", "probe", "stderr_is_closed", "1", (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	alarm(60);
	bool ended = read(ends[0], &byte, 1) == 0 && waitpid(child, NULL, WNOHANG) == 0;
	kill(child, SIGKILL);
	return ended;
}

static int first_errno;

static long errno_at_start(long argument)
{
	return first_errno;
}

int main(int argc, char **argv)
{
	first_errno = errno;
	static const struct {
		const char *name;
		long (*run)(long argument);
	} actions[] = {
		{"leave_stderr", leave_stderr}, {"stderr_is_closed", stderr_is_closed},
		{"owns", owns_block_of}, {"trim", trim}, {"use_small", use_small}, {"free_many", free_many}, {"free_mibs", free_mibs}, {"free_of", free_of_many_mibs},
		{"free_burst", free_burst}, {"go_on", free_burst_and_go_on}, {"huge", count_huge},
		{"reuse", reuse_of_thread}, {"exhaust", exhaust}, {"another_takes", take_for_another}, {"grow", grow},
		{"exact", count_exact}, {"mallinfo", mallinfo_differs}, {"free_twice", free_twice}, {"delete_twice", delete_twice},
		{"resize_freed", resize_freed}, {"overflow_resized", overflow_resized},
		{"fork_amid_report", fork_amid_report}, {"free_twice_in_child", free_twice_in_child},
		{"free_twice_too_often", free_twice_too_often},
		{"write_slab_front", write_slab_front}, {"read_freed", read_freed},
		{"burst_on", burst_then_go_on}, {"burst_idle", burst_then_idle},
		{"burst_pairs", burst_then_pairs}, {"burst_beside", burst_beside_pairs},
		{"burst_before", burst_before_pairs},
		{"burst_large", burst_then_large}, {"freed_by_another", freed_by_another}, {"freed_by_worker", freed_by_worker},
		{"freed_fast", freed_fast},
		{"burst_child", burst_then_idle_in_child}, {"purge_thread", purge_thread}, {"visit_held", visit_held},
		{"written_on_their_way", written_on_their_way},
		{"fork_amid", fork_amid_purging}, {"one_block", resident_with_one_block},
		{"another_size", use_another_size}, {"follow_ready", follow_ready}, {"fill_bins", fill_bins_then_take},
		{"come_and_go", come_and_go}, {"change_sizes", change_sizes}, {"prefer_dead", prefer_the_dead},
		{"regrow", regrow}, {"heap_regrow", heap_regrow}, {"destroyed", left_when_destroyed},
		{"errno", errno_at_start}, {"write_behind", write_behind},
		{"overrun_made_by", overrun_made_by}, {"overrun_found_by", overrun_found_by},
		{"fail_at_limit", fail_at_limit}, {"fail_when_free", fail_when_free},
		{"shrink_at_limit", shrink_at_limit}, {"guarded_children", guarded_children},
	};

	for (size_t i = 0; argc == 3 && i < sizeof actions / sizeof *actions; i++)
		if (strcmp(argv[1], actions[i].name) == 0) {
			printf("%ld\n", actions[i].run(atol(argv[2])));
			return malloc_info(0, stdout);
		}
	fprintf(stderr, "usage: probe ACTION ARGUMENT\n");
	return 2;
}
