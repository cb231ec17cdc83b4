# Reads what LD_DEBUG=bindings says of the processes of a program, one file each, and fails unless
# all of them get the malloc family from `library` alone. First argument: the program's name.
#
# A line:  PID: binding file FROM [0] to TO [0]: normal symbol `malloc' [GLIBC_2.2.5]
#
# An executable at a fixed address may offer a symbol that it imports itself (the address of its own
# jump to it, so that all see one address of the function). So FROM may get malloc from TO if TO
# gets it from the library.
BEGIN {
	program = ARGV[1]
	ARGV[1] = ""
	for (i = 2; i < ARGC; i++)
		files[ARGV[i]]
	family = "^(malloc|calloc|realloc|free|memalign|aligned_alloc|posix_memalign|_Zn[wa]m|_Zd[la]Pv)$"
}

/binding file / {
	split($0, part, /.*binding file | \[[0-9]+\] to | \[[0-9]+\]: [a-z]+ symbol `|'/)
	from = part[2]
	to = part[3]
	symbol = part[4]
	if (symbol !~ family || from == library)
		next
	if (to == library)
		served[FILENAME, from, symbol] = any[FILENAME] = 1
	else
		elsewhere[FILENAME, to, symbol] = from " gets " symbol " from " to
}

END {
	for (key in elsewhere)
		if (!(key in served)) {
			print "FAILED: in " program ", " elsewhere[key]
			wrong = 1
		}
	for (file in files)
		if (!(file in any)) {
			print "FAILED: a process of " program " gets nothing from " library
			wrong = 1
		}
	exit wrong
}
