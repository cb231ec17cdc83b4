# programs: g++ gcc make ar ld as
# The same code, byte for byte, whoever serves the compiler.
cp "$APPS/inputs/templates.cc" .
g++ -std=c++17 -O2 -S templates.cc -o templates.s
cksum templates.s
g++ templates.s -o templates
./templates

awk 'BEGIN {
	for (f = 0; f < 24; f++) {
		name = "part" f ".c"
		print "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>" > name
		for (i = 0; i < 30; i++)
			print "int f" f "_" i "(int x) { int a[8]; for (int j = 0; j < 8; j++) a[j] = x * j + " i \
				"; return a[x & 7] + " f "; }" > name
		close(name)
	}
	print "#include <stdio.h>\nint f3_4(int), f23_29(int);" > "main.c"
	print "int main(void) { printf(\"%d %d\\n\", f3_4(5), f23_29(7)); return 0; }" > "main.c"
	print "objects = $(patsubst %.c,%.o,$(sort $(wildcard part*.c)))" > "Makefile"
	print "CFLAGS = -O2 -Wall -flto -ffat-lto-objects -frandom-seed=1" > "Makefile"
	print "program: main.o parts.a ; $(CC) $(CFLAGS) -o $@ $^" > "Makefile"
	print "parts.a: $(objects) ; $(AR) rcsD $@ $^" > "Makefile"
}'
make -s -j2
./program
cksum part*.o | cksum
make -n -B | wc -l
