# programs: curl
curl --version | head -n 1
awk 'BEGIN { for (i = 0; i < 60; i++) { f = "file" i; for (j = 0; j < i * 200; j++) print i, j > f; printf "" > f; close(f) } }'
curl -sS "file://$HOME/file[0-59]" | cksum
curl -sS -Z --parallel-max 8 "file://$HOME/file[0-59]" -o 'copy#1' 2>/dev/null
cat copy? copy?? | cksum
curl -sS "file://$HOME/missing" || echo "status $?"
