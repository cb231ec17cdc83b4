# programs: sqlite3
sqlite3 -batch test.db <"$APPS/inputs/script.sql"
sqlite3 test.db .dump | cksum
sqlite3 test.db .dump | sqlite3 again.db
sqlite3 again.db 'pragma integrity_check; select count(*), total(amount) from item;'
