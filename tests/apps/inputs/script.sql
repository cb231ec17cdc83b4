-- 100 000 rows, indexes, joins, text search, JSON, updates, a rollback, vacuum.
pragma journal_mode = wal;
create table item (id integer primary key, name text, amount real, kind integer);
with recursive n (i) as (select 1 union all select i + 1 from n where i < 100000)
	insert into item select i, printf('item %d %s', i * 7919 % 100003, hex(i * 31 % 4096)),
		i * 7919 % 1009 / 8.0, i * 31 % 17 from n;
create index item_name on item (name);
create index item_kind on item (kind, amount);
create table kind (id integer primary key, label text);
insert into kind select distinct kind, 'kind ' || kind from item;
select k.label, count(*), total(amount), max(name) from item join kind k on k.id = kind
	group by k.label order by k.label;
select count(*) from item a join item b on a.name = b.name where a.kind = 3;
select name, amount from item where name between 'item 5' and 'item 51' order by amount desc, name limit 10;
update item set name = name || ' changed', amount = amount + 1 where id % 3 = 0;
begin;
delete from item where kind < 9;
rollback;
delete from item where id % 10 = 0;
select group_concat(name, ';') from (select name from item order by id limit 20);
select length(group_concat(name)) from item;
create virtual table search using fts5 (body);
insert into search select name from item;
select count(*) from search where search match 'changed AND item';
select sum(json_extract(j, '$.a[1]')) from (select json_object('a', json_array(id, kind), 'n', name) j from item);
select kind, id from (select kind, id, row_number() over (partition by kind order by amount, id) r from item)
	where r <= 2 order by kind, id;
vacuum;
analyze;
pragma integrity_check;
