# programs: tar gzip
mkdir -p tree
i=0
while [ $i -lt 40 ]; do
	mkdir -p "tree/$((i % 7))/dir$i"
	awk -v i=$i 'BEGIN {
		for (f = 0; f < 40; f++) {
			name = "tree/" i % 7 "/dir" i "/file-with-a-rather-long-name-so-that-headers-grow-" i "-" f
			for (l = 0; l < f * 10; l++) print i, f, l > name
			printf "" > name
			close(name)
		}
	}'
	i=$((i + 1))
done
ln tree/1/dir1/*-1-39 tree/hard
ln -s 1/dir1 tree/soft
tar --sort=name --mtime=@1000000000 --owner=0 --group=0 --numeric-owner --mode=a+rX -cf tree.tar tree
cksum tree.tar
tar -tvf tree.tar | cksum
gzip -n -9 -c tree.tar | cksum
tar -czf tree.tar.gz --format=pax --exclude='*-30' tree
tar -df tree.tar.gz && echo "the same"
mkdir out
tar -xzf tree.tar.gz -C out
diff -r tree out/tree >differences || true
wc -l <differences
tar -xOf tree.tar tree/hard | cksum
