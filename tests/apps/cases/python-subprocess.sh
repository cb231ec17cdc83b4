# programs: python3
"$APPS/python-suite" test.test_subprocess.ProcessTestCase test.test_subprocess.POSIXProcessTestCase \
	test.test_subprocess.RunFuncTestCase test.test_fork1 test.test_posix.TestPosixSpawn
