# programs: python3
"$APPS/python-suite" test.test_gc test.test_ctypes test.test_json test.test_dict test.test_mmap \
	test.test_zlib
