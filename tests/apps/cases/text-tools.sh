# programs: awk sort find xargs join uniq sed grep cut comm
awk 'BEGIN { for (i = 0; i < 300000; i++) print i * 7919 % 300007, i % 1009, "text " i % 37 }' >lines
sort -n lines | cksum
sort --parallel=2 -S 2M -k3,3 -k2,2nr -k1,1 lines | cksum
sort -u -k2,2n lines | wc -l
cut -d' ' -f2 lines | sort | uniq -c | sort -rn | sed -n '1,3p;$p'
sort -k1,1 lines >left
sed -n 's/^\([0-9]*5\) .*/\1 five/p' left >right
join left right | cksum
comm -12 left right | wc -l
grep -E -c '(1[0-9]+ ){2}text (1|2)' lines
awk '{ n[$2] += $1; last[$4] = last[$4] $1 % 10 } END {
	for (k in n) total += n[k] * k
	for (k = 0; k < 37; k++) length_sum += length(last[k])
	print total, length_sum
}' lines
mkdir tree
awk 'BEGIN { for (i = 0; i < 1500; i++) { f = "tree/file" i; print i, i * i > f; close(f) } }'
find tree -type f -name '*7' -print0 | xargs -0 -n 20 -P 4 cksum | sort | cksum
find tree -type f -newer lines ! -name '*[0-4]' -size -2k | wc -l
find tree -name 'file1??' -exec cat {} + | cksum
