# programs: redis-check-rdb redis-cli redis-benchmark
# redis-check-rdb is the server under another name, and comes without the package that starts one.
ln -s "$(command -v redis-check-rdb)" redis-server
start() {
	./redis-server --port 0 --unixsocket "$HOME/socket" --dir "$HOME" --save '' --logfile "$HOME/details" \
		--io-threads 2 --hz 50 --enable-debug-command yes &
	server=$!
	tries=0
	until redis-cli -s socket ping >/dev/null 2>&1; do
		tries=$((tries + 1))
		[ $tries -lt 200 ] || { echo "the server does not answer"; exit 1; }
		sleep 0.05
	done
	"$APPS/served" $server
}
ask() {
	redis-cli -s socket "$@"
}
trap 'kill $server 2>/dev/null || true' EXIT

start
# Its figures are times; that each test comes to its end is what counts.
redis-benchmark -s socket -n 20000 -c 20 -d 300 -r 5000 -q \
	-t set,get,incr,lpush,rpop,hset,spop,zadd,mset | tr '\r' '\n' |
	sed -n 's/^\([A-Z].*\): [0-9.]* requests per second.*/\1/p' | uniq
redis-benchmark -s socket -n 40000 -c 20 -P 16 -d 2000 -q -t set,get | tr '\r' '\n' |
	sed -n 's/^\([A-Z].*\): [0-9.]* requests per second.*/\1/p' | uniq
ask flushall

awk 'BEGIN {
	for (i = 0; i < 30000; i++) {
		print "SET key:" i " value-" i * 7919 % 10007
		print "HSET hash:" i % 300 " field" i " " i
		print "ZADD sorted:" i % 50 " " i * 31 % 1009 " member" i
		print "RPUSH list:" i % 100 " element" i
		print "SADD set:" i % 70 " " i % 1000
		if (i % 3 == 0) print "APPEND key:" i / 3 " -and-more-of-it"
		if (i % 5 == 0) print "DEL key:" i / 2
	}
}' >commands
redis-cli -s socket --pipe <commands | tail -n 1
ask dbsize
ask get key:7
ask zrange sorted:7 0 5 withscores
ask eval 'local n = 0; for i = 1, 20000 do n = n + #redis.call("get", "key:" .. i % 500 * 2 + 5001) end; return n' 0
ask debug digest >before
ask save
ask bgsave
ask shutdown nosave
wait $server

start
ask debug digest >after
cmp before after
cat after
ask memory purge
ask memory doctor >/dev/null
ask flushall
ask dbsize
ask shutdown nosave
wait $server
