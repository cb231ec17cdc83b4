# programs: python3
tests=
for start in fork spawn; do
	for class in Process Queue Pool Lock Array Heap SharedMemory Connection; do
		tests="$tests test.test_multiprocessing_$start.WithProcessesTest$class"
	done
done
# shellcheck disable=SC2086 # the tests are words
"$APPS/python-suite" $tests test.test_multiprocessing_fork.WithThreadsTestPool
