/* SPDX-License-Identifier: MIT */
/* Inputs of the programs of bench_apps; see apps_inputs.h. */
#include "apps_inputs.h"

#include <inttypes.h>
#include <stdio.h>

#include "folder.h"
#include "workload.h"

static const char cpp_head[] =
	"#include <algorithm>\n#include <functional>\n#include <iostream>\n#include <map>\n"
	"#include <memory>\n#include <regex>\n#include <string>\n#include <tuple>\n"
	"#include <unordered_map>\n#include <variant>\n#include <vector>\n"
	"template <unsigned N> struct sum { enum { value = N + sum<N - 1>::value }; };\n"
	"template <> struct sum<0> { enum { value = 0 }; };\n"
	"template <class... T> auto all(T... t) { return std::make_tuple(std::vector<T>{t}...); }\n";

/* One of many types, and a use of containers, closures and variants of it; %u is its number. */
static const char cpp_part[] =
	"struct type_%1$u { int a[%1$u %% 7 + 1]; std::string s; bool operator<(const type_%1$u &o)\n"
	"  const { return s < o.s; } };\n"
	"long use_%1$u(const std::string &name) {\n"
	"  std::map<type_%1$u, std::vector<std::unique_ptr<type_%1$u>>> map;\n"
	"  std::unordered_map<std::string, std::function<long(const type_%1$u &)>> calls;\n"
	"  std::variant<int, type_%1$u, std::string> either = name;\n"
	"  map[type_%1$u{{}, name}].push_back(std::make_unique<type_%1$u>());\n"
	"  calls[name] = [&](const type_%1$u &t) { return long(t.s.size() + map.size()); };\n"
	"  std::vector<type_%1$u> v(%1$u + 1);\n"
	"  std::sort(v.begin(), v.end());\n"
	"  std::stable_sort(v.begin(), v.end(), [](auto &a, auto &b) { return b < a; });\n"
	"  auto t = all(%1$u, 'x', v[0], name, 1.0);\n"
	"  long n = std::visit([](auto &x) { return long(sizeof(x)); }, either);\n"
	"  return n + calls[name](v[0]) + std::get<0>(t)[0] + sum<%1$u + 100>::value;\n}\n";

void input_cpp(uint64_t scale) {
	unsigned parts = (unsigned)(7 * scale / 100);
	FILE *file = folder_create("large.cc");
	fputs(cpp_head, file);
	for (unsigned i = 0; i < parts; i++)
		fprintf(file, cpp_part, i);
	folder_close(file);
}

void input_python(uint64_t scale) {
	FILE *file = folder_create("job.py");
	fprintf(file, "import json, random, re\nN = %" PRIu64 "\n", 60000 * scale / 100);
	fputs("r = random.Random(1)\n"
		"class Item:\n"
		"    def __init__(self, key, tags):\n"
		"        self.key, self.tags, self.links = key, tags, []\n"
		"words = ['w%x' % r.getrandbits(24) for _ in range(N // 4 + 1)]\n"
		"rows = [{'id': i, 'name': ' '.join(r.choices(words, k=4)), 'x': r.random(),\n"
		"         'tags': r.choices(words, k=3)} for i in range(N)]\n"
		"text = json.dumps(rows)\n"
		"rows = json.loads(text)\n"
		"items = {row['name']: Item(row['id'], row['tags']) for row in rows}\n"
		"by_tag = {}\n"
		"for item in items.values():\n"
		"    for tag in item.tags:\n"
		"        by_tag.setdefault(tag, []).append(item)\n"
		"for group in by_tag.values():\n"
		"    for a, b in zip(group, group[1:]):\n"
		"        a.links.append(b)\n"
		"names = sorted(items, key=lambda name: name[::-1])\n"
		"found = re.findall(r'\"w[0-9a-f]*7\"', text)\n"
		"lines = '\\n'.join(names).upper().split('\\n')\n"
		"big = b''\n"
		"for line in lines[:2000]:\n"
		"    big += line.encode()\n"
		"print(len(text), len(items), len(by_tag), len(found), len(big))\n", file);
	folder_close(file);
}

void input_perl(uint64_t scale) {
	FILE *file = folder_create("job.pl");
	fprintf(file, "use strict; my $n = %" PRIu64 "; my $x = 1;\n", 60000 * scale / 100);
	fputs("sub r { $x = ($x * 1103515245 + 12345) % 2147483648; return $x >> 8; }\n"
		"my (%groups, @lines);\n"
		"for my $i (1 .. $n) {\n"
		"  my $line = join(' ', map { sprintf('%x', r() % 50000) } 1 .. 2 + $i % 5);\n"
		"  push @lines, $line;\n"
		"  push @{$groups{$_}}, { line => $i, at => length $line } for split / /, $line;\n"
		"}\n"
		"my $text = join(\"\\n\", sort @lines);\n"
		"my $count = () = $text =~ /\\b[0-9a-f]*7\\b/g;\n"
		"(my $other = $text) =~ s/(\\d+)/<$1>/g;\n"
		"delete $groups{$_} for grep { @{$groups{$_}} > 10 } keys %groups;\n"
		"my %seen; $seen{$_}++ for map { reverse } @lines;\n"
		"print length($text), ' ', $count, ' ', length($other), ' ', scalar(keys %seen), \"\\n\";\n",
		file);
	folder_close(file);
}

void input_sql(uint64_t scale) {
	FILE *file = folder_create("job.sql");
	fprintf(file, "pragma cache_size = -65536;\n"
		"create table t (id integer primary key, k integer, name text, body text);\n"
		"with recursive n(i) as (select 1 union all select i + 1 from n where i < %" PRIu64 ")\n"
		"insert into t select i, i * 7919 %% 100003, hex(i * 2654435761 %% 1000003),\n"
		"  substr('the quick brown fox jumps over the lazy dog and runs', i %% 20 + 1, i %% 30)\n"
		"  from n;\n", 200000 * scale / 100);
	fputs("create index by_k on t(k);\n"
		"create index by_name on t(name, k);\n"
		"update t set body = body || name where k % 3 = 0;\n"
		"select count(*), sum(length(body)) from t;\n"
		"select count(*) from t a join t b on a.k = b.id where b.name > '5';\n"
		"select name, count(*) c, group_concat(k) from t group by substr(name, 1, 3)\n"
		"  order by c desc, name limit 5;\n"
		"delete from t where id % 2 = 0;\n"
		"select count(distinct body) from t;\n"
		"select length(group_concat(name, ',')) from (select name from t order by body, id desc);\n",
		file);
	folder_close(file);
}

enum { FILES = 200, LINES = 120, EDITS = 8 };

/* Version `version` of a file: from one version to the next, one line in EDITS changes. */
static void write_version(FILE *file, uint64_t number, uint64_t version) {
	fprintf(file, "M 100644 inline folder_%" PRIu64 "/file_%" PRIu64 "\ndata %d\n", number % 16,
		number, LINES * 34);
	for (uint64_t line = 0; line < LINES; line++) {
		uint64_t random = number << 40 | line << 20 | (version + line) / EDITS;
		uint64_t a = random_next(&random), b = random_next(&random);
		fprintf(file, "%016" PRIx64 " %016" PRIx64 "\n", a, b);
	}
}

void input_repository(uint64_t scale) {
	uint64_t random = 1, commits = 150 * scale / 100 + 1;
	FILE *file = folder_create("stream");
	for (uint64_t i = 0; i < commits; i++) {
		fprintf(file, "commit refs/heads/main\ncommitter A <a@example.org> %" PRIu64 " +0000\n"
			"data 5\nsome\n", 1700000000 + i);
		for (unsigned edit = 0; edit < 20; edit++)
			write_version(file, random_between(&random, 0, FILES - 1), i);
	}
	folder_close(file);
}

void input_text(uint64_t scale) {
	uint64_t random = 1, words = 400000 * scale / 100;
	FILE *file = folder_create("text");
	for (uint64_t i = 0; i < words; i++) {
		/* Of three numbers the least: some words are much more frequent than others. */
		uint64_t word = random_between(&random, 0, 20000);
		for (unsigned again = 0; again < 2; again++) {
			uint64_t other = random_between(&random, 0, 20000);
			word = other < word ? other : word;
		}
		uint64_t letters = word * UINT64_C(0x9e3779b97f4a7c15);
		for (unsigned letter = 0; letter < 2 + word % 9; letter++, letters >>= 5)
			putc((int)('a' + letters % 26), file);
		putc(i % 12 == 11 ? '\n' : ' ', file);
	}
	folder_close(file);
}
