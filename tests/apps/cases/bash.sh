# programs: bash
bash "$APPS/inputs/script.bash"
