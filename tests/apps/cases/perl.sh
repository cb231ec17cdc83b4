# programs: perl
perl "$APPS/inputs/script.pl"
