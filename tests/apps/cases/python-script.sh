# programs: python3
# Python's own small-object allocator hides most requests; PYTHONMALLOC=malloc passes them all on.
for allocator in pymalloc malloc; do
	echo "== $allocator"
	PYTHONMALLOC=$allocator python3 "$APPS/inputs/script.py"
done
