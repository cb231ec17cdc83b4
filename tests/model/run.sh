#!/bin/sh
# Checks the Promela models of this folder and reports in TAP. Each model must be searched to the end without an
# error, at several bounds; each BUG_ variant must yield an error, which shows that the checks can fail.
# CC, MODEL_DEPTH (search depth) and MODEL_SKIP_STATUS may be set. Exit status: 0, 1 if a check failed,
# MODEL_SKIP_STATUS, else 77, if there is no spin. (A TAP reader takes any status but 0 for an error, also beside a
# skip, so meson.build sets 0.)
here=$(cd "$(dirname "$0")" && pwd) || exit 1
cc=${CC:-cc}
if ! command -v spin >/dev/null 2>&1; then
	echo '1..0 # SKIP spin is not installed'
	exit "${MODEL_SKIP_STATUS:-77}"
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
cd "$work" || exit 1

# correct MODEL BOUNDS...   the model holds at these bounds
# broken MODEL BUG BOUNDS... breaking one rule is noticed
cases='
correct remote_inbox -DSLABS=2 -DPER_SLAB=1
correct remote_inbox -DSLABS=1 -DPER_SLAB=3
correct remote_inbox -DSLABS=1 -DPER_SLAB=2 -DPOSTERS=3
correct remote_inbox -DSLABS=2 -DPER_SLAB=2 -DPOSTERS=1
correct remote_inbox -DLOOKER -DSLABS=1 -DPER_SLAB=2
correct remote_inbox -DLOOKER -DSLABS=2 -DPER_SLAB=1
correct remote_inbox -DLOOKER -DSLABS=1 -DPER_SLAB=3 -DPOSTERS=1
correct adopt -DTHREADS=3 -DSLABS=1 -DPER_SLAB=2
correct adopt -DTHREADS=3 -DSLABS=1 -DPER_SLAB=3
correct adopt -DTHREADS=2 -DSLABS=2 -DPER_SLAB=2
correct disown
correct disown -DBLOCKS=4
correct fork -DTHREADS=2 -DPER_SLAB=2
correct fork -DTHREADS=2 -DPER_SLAB=3
correct fork -DPER_SLAB=1 -DLOOKS=1
correct fork_list -DNODES=4
correct purge -DTHREADS=2
correct purge -DTHREADS=1 -DFORK
correct message -DSENDERS=2 -DHEAPS=1 -DBLOCKS=3 -DPER_MESSAGE=2
correct message -DSENDERS=2 -DHEAPS=2
correct message -DSENDERS=1 -DHEAPS=2 -DOWN=2 -DPER_MESSAGE=2
correct message -DLOOKER -DSENDERS=2 -DHEAPS=1
correct message -DLOOKER -DSENDERS=1 -DHEAPS=1 -DOWN=2 -DBLOCKS=3
broken remote_inbox BUG_SEPARATE_FLAG -DSLABS=2 -DPER_SLAB=1
broken remote_inbox BUG_REFILL_CLEARS_QUEUED -DSLABS=1 -DPER_SLAB=3
broken remote_inbox BUG_DELETE_QUEUED -DSLABS=2 -DPER_SLAB=1
broken remote_inbox BUG_STALE_LINK -DSLABS=1 -DPER_SLAB=3
broken remote_inbox BUG_NEXT_AFTER -DSLABS=2 -DPER_SLAB=1
broken remote_inbox BUG_UNQUEUE_ACCEPTS -DSLABS=1 -DPER_SLAB=3
broken remote_inbox BUG_UNQUEUE_DROPS -DSLABS=1 -DPER_SLAB=3
broken remote_inbox BUG_LEFT_FORGOTTEN -DSLABS=1 -DPER_SLAB=3
broken remote_inbox BUG_FULL_IS_CURRENT -DSLABS=2 -DPER_SLAB=2 -DPOSTERS=1
broken remote_inbox BUG_COLLECT_EMPTIED -DLOOKER -DSLABS=1 -DPER_SLAB=2
broken remote_inbox BUG_EMPTY_SOME -DLOOKER -DSLABS=1 -DPER_SLAB=2
broken remote_inbox BUG_EMPTY_UNCHECKED -DLOOKER -DSLABS=1 -DPER_SLAB=2
broken remote_inbox BUG_LOOKER_KEEPS -DLOOKER -DSLABS=1 -DPER_SLAB=2
broken remote_inbox BUG_OPEN_QUEUED -DLOOKER -DSLABS=1 -DPER_SLAB=2
broken adopt BUG_CLAIM_AFTER -DTHREADS=2
broken adopt BUG_CLOSE_FIRST -DTHREADS=2
broken adopt BUG_NO_LAST_DRAIN -DTHREADS=2
broken adopt BUG_TAG_KEPT -DTHREADS=2
broken adopt BUG_HEAPLESS_IS_NOBODY -DTHREADS=2
broken adopt BUG_DRAIN_BLIND -DTHREADS=2
broken adopt BUG_ADOPT_CLEARS_FIRST -DTHREADS=2
broken adopt BUG_ADOPT_TAKES_REAPED -DTHREADS=2
broken adopt BUG_PUBLISH_UNCOUNTED -DTHREADS=2
broken adopt BUG_PUBLISH_FULL -DTHREADS=2
broken adopt BUG_PUBLISH_UNLOCKED -DTHREADS=2
broken adopt BUG_TOUCH_AFTER_POST -DTHREADS=2
broken adopt BUG_RELEASE_QUEUED -DTHREADS=2
broken adopt BUG_UNQUEUE_DROPS -DTHREADS=2
broken adopt BUG_LEFT_UNCLAIMED -DTHREADS=2
broken disown BUG_EMPTY_DISOWNED
broken disown BUG_EMPTY_UNCHECKED
broken disown BUG_POST_FORGETS
broken disown BUG_TAG_BEFORE
broken fork BUG_ACQUIRED_NOT_BUSY
broken fork BUG_BROKEN_TRUSTED
broken fork BUG_BUSY_AFTER_IDLE
broken fork BUG_BUSY_BEFORE_BINS
broken fork BUG_LOST_BY_OWNER
broken fork BUG_NO_POOL_REPAIR
broken fork BUG_NO_ROUTE_LOST
broken fork BUG_REAPER_FORGOTTEN
broken fork BUG_GRANULE_KEPT -DPER_SLAB=1 -DLOOKS=1
broken fork BUG_NOT_FORGOTTEN -DPER_SLAB=1 -DLOOKS=1
broken fork BUG_WORD_BEFORE_OWNER -DPER_SLAB=1 -DLOOKS=1
broken fork_list BUG_LINKS_TRUSTED
broken fork_list BUG_NO_RELINK_HEAD
broken purge BUG_PURGE_LEAVES_FREE
broken purge BUG_REFUSED_IS_CLEAN
broken purge BUG_TOUCHED_IS_CARVED
broken purge BUG_ZERO_KEPT
broken purge BUG_DELETE_BEFORE_UNLINK
broken purge BUG_NO_REBUILD -DTHREADS=1 -DFORK
broken purge BUG_PURGING_KEPT -DTHREADS=1 -DFORK
broken purge BUG_PURGED_LOST -DTHREADS=1 -DFORK
broken purge BUG_TAKEN_AFTER -DTHREADS=1 -DFORK
broken purge BUG_PUT_BACK_TWICE -DTHREADS=1 -DFORK
broken message BUG_TAKES_OUT
broken message BUG_OUT_AFTER
broken message BUG_STALE_NEXT
broken message BUG_PUSH_CLOSED
broken message BUG_CLOSED_DROPS
broken message BUG_OPEN_LEFT -DPER_MESSAGE=2
broken message BUG_SPLIT_TAKE
broken message BUG_RELEASE_EARLY
broken message BUG_NEXT_AFTER
broken message BUG_READ_BLIND
broken message BUG_CLOSE_LEAVES
broken message BUG_UNREAD_LEFT
broken message BUG_POP_STORES -DLOOKER
'

# Builds and runs pan; its report goes to $work/report. $1: cc options, then the model, then spin options.
search()
{
	options=$1
	model=$2
	shift 2
	rm -f pan pan.* report ./*.trail
	spin -a "$@" "$here/$model.pml" </dev/null >report 2>&1 || return 1
	# shellcheck disable=SC2086 # the options are words
	$cc $options -w -DSAFETY -DCOLLAPSE -o pan pan.c </dev/null >>report 2>&1 || return 1
	# Threads that a fork stops for ever are no deadlock; fork.pml asserts that the child is not stuck.
	case $model in fork*|purge) ends=-E ;; *) ends= ;; esac
	./pan -m"${MODEL_DEPTH:-2000000}" -w22 $ends </dev/null >report 2>&1
	[ -s report ]
}

# Prints the first number of errors that the report gives, or nothing.
errors() { sed -n 's/^State-vector .* errors: \([0-9][0-9]*\)$/\1/p' report; }

exhaustive()
{
	grep -q '^Full statespace search' report &&
		! grep -q -e 'Search not completed' -e 'max search depth too small' -e 'out of memory' \
			-e 'hash-array exhausted' report
}

# Where compiling takes longer than searching, -O0.
# shellcheck disable=SC2086 # the bounds are words
correct()
{
	case $1 in fork*) level=-O0 ;; *) level=-O1 ;; esac
	search $level "$1" $2 && [ "$(errors)" = 0 ] && exhaustive
}

# An error is found soon: compiling is what takes time.
# shellcheck disable=SC2086 # the bounds are words
broken()
{
	search -O0 "$1" -D$2 && [ "$(errors)" -ge 1 ] && grep -q '^pan:1: assertion violated' report
}

echo "1..$(echo "$cases" | grep -c .)"
status=0
n=0
while read -r kind model rest; do
	[ -n "$kind" ] || continue
	n=$((n + 1))
	if
		case $kind in
		correct) correct "$model" "$rest" ;;
		*) broken "$model" "$rest" ;;
		esac
	then
		echo "ok $n - $kind $model $rest: $(sed -n 's/^ *\([0-9]*\) states, stored.*/\1 states/p' report)"
	else
		status=1
		echo "not ok $n - $kind $model $rest"
		sed 's/^/# /' report | head -n 30
	fi
done <<END
$cases
END
exit $status
