# Arrays, strings, functions, subshells, pipes and process substitution; prints sums and checksums.
set -eu
"$APPS/served" $$

declare -A counts
declare -a list
state=1
for ((i = 0; i < 30000; i++)); do
	state=$(((state * 1103515245 + 12345) & 0x7fffffff))
	word=word$((state >> 8 & 2047))
	counts[$word]=$((${counts[$word]:-0} + 1))
	list[i]=$word
done
echo "words ${#counts[@]} ${#list[@]}"
for word in "${!counts[@]}"; do
	echo "$word ${counts[$word]}"
done | sort | cksum
unset 'list[100]' 'counts[word7]'
copy=("${list[@]:200:5000}" "${list[@]/#word/x}")
echo "copy ${#copy[@]} ${copy[4999]} ${copy[5100]}"

text=
for ((i = 0; i < 5000; i++)); do
	text+="piece $i, "
done
echo "text ${#text} $(cksum <<<"${text//piece/PIECE}")"

fibonacci() {
	if (($1 < 2)); then echo "$1"; else echo $(($(fibonacci $(($1 - 1))) + $(fibonacci $(($1 - 2))))); fi
}
echo "fibonacci $(fibonacci 9)"

sum=0
while read -r number; do
	sum=$((sum + number))
done < <(for ((i = 0; i < 5000; i++)); do echo "$i"; done)
echo "sum $sum"

for ((i = 0; i < 100; i++)); do
	(local_list=({1..500}); exit $((${#local_list[@]} == 500 ? i % 4 : 9))) && status=0 || status=$?
	echo -n "$status"
done
echo
for i in 1 2 3 4; do
	(for ((j = 0; j < 3000; j++)); do s+=$j; done; echo "${#s}" >"part$i") &
done
wait
cat part?
trap 'echo "caught"' USR1
kill -USR1 $$
printf -v padded '%-1000s|' x
echo "${#padded} ${BASH_VERSION%%.*}"
