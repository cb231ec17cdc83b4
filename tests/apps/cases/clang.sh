# programs: clang++
cp "$APPS/inputs/templates.cc" .
clang++ -std=c++17 -O1 -S templates.cc -o templates.s
cksum templates.s
clang++ templates.s -o templates
./templates
