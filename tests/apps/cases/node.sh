# programs: node
node "$APPS/inputs/script.js"
