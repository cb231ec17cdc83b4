# programs: xz
awk 'BEGIN { for (i = 0; i < 400000; i++) print i, i * 7919 % 100003, "text " i % 37 }' >text
xz -T2 -3 --block-size=1MiB -k -c text >text.xz
cksum text text.xz
xz -T2 -dc text.xz | cmp - text
xz -T1 -6e -c --lzma2=dict=8MiB <text.xz | xz -dc | cmp - text.xz
xz -l --robot text.xz | grep -E '^(file|totals)'
head -c 300000 text.xz >broken.xz
xz -t broken.xz 2>&1 && echo "not noticed" || echo "status $?"
