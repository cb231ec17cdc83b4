# programs: python3
"$APPS/python-suite" test.test_threading test.test_thread
