# programs: git
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=C GIT_COMMITTER_EMAIL=c@example.org
export GIT_AUTHOR_DATE='2001-02-03T04:05:06Z' GIT_COMMITTER_DATE='2001-02-03T04:05:06Z'
git config --global init.defaultBranch main
git config --global advice.detachedHead false
git config --global pack.threads 2
git config --global gc.autoDetach false

# A long history, from a stream.
git init -q long
awk 'BEGIN {
	state = 1
	for (commit = 1; commit <= 2000; commit++) {
		print "commit refs/heads/main"
		print "committer C <c@example.org> " 1000000000 + commit " +0000"
		print "data <<END\ncommit " commit "\nEND"
		for (file = 0; file < 3; file++) {
			state = (state * 1103 + 12345) % 1000003
			print "M 100644 inline dir" state % 7 "/file" state % 97 "\ndata <<END"
			for (line = 0; line < 40; line++) {
				state = (state * 1103 + 12345) % 1000003
				print "line " line " " (line % 8 ? "the same" : state)
			}
			print "END"
		}
	}
}' | git -C long fast-import --quiet
git -C long checkout -q main
git -C long log --format='%H %s' --numstat | cksum
git clone -q --no-local long clone 2>&1
cd clone
git repack -adfq --depth=50 --window=20
git fsck --full --strict --no-progress
git log -p --format=%H -300 | cksum
git blame -s dir1/file1 | cksum
git log --oneline --follow dir2/file2 | wc -l
git grep -c 'line 8' | sort | cksum
git archive main | cksum
git diff --stat HEAD~500 HEAD | tail -n 1

# Everyday work: many small commits, branches, a merge, a rebase.
i=0
while [ $i -lt 60 ]; do
	echo "change $i" >>dir1/file1
	echo "new $i" >"new$i"
	git add -A
	git commit -qm "change $i"
	i=$((i + 1))
done
git checkout -q -b side HEAD~20
echo other >other
git add other
git commit -qm other
git merge -q -m merged main
git rebase -q main
git stash list
git tag -a -m tagged v1
git gc -q --prune=now
git fsck --full --no-progress
git log --oneline --graph -30 | cksum
git rev-parse HEAD v1 main
git count-objects -v | grep -E '^(count|packs|in-pack|garbage)'
