# programs: java javac
# Without its files of times and counters in /tmp; a small heap starts fast.
export JAVA_TOOL_OPTIONS=
java -XX:-UsePerfData -Xmx256m "$APPS/inputs/Script.java"
javac -J-XX:-UsePerfData -d classes "$APPS/inputs/Script.java"
java -XX:-UsePerfData -Xmx128m -XX:+UseParallelGC -cp classes Script
