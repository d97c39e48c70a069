# What scripts that compare accuracies share; to be sourced.

# solver_with FILE FIELD=VALUE ...: prints a solver file with these fields in place of its
# own; an empty VALUE leaves a field out.
solver_with() {
  local file=$1 field drop='$^'
  shift
  for field in "$@"; do drop+="|^${field%%=*}:"; done
  grep -vE "$drop" "$file"
  for field in "$@"; do
    [ -z "${field#*=}" ] || echo "${field%%=*}: ${field#*=}"
  done
}

# accuracy_of FILE...: what a run printed at its end; nothing unless those of them that have it
# agree.
accuracy_of() {
  local found
  found=$(sed -n 's/^accuracy = //p' "$@" | sort -u)
  [ "$(wc -w <<<"$found")" != 1 ] || echo "$found"
}

# mean ACCURACY...
mean() { awk 'BEGIN { for (i = 1; i < ARGC; ++i) sum += ARGV[i]; printf "%.4f\n", sum / (ARGC - 1) }' "$@"; }

# spread ACCURACY...: the largest less the smallest, in percentage points.
spread() {
  awk 'BEGIN { low = high = ARGV[1]
    for (i = 2; i < ARGC; ++i) { if (ARGV[i] < low) low = ARGV[i]; if (ARGV[i] > high) high = ARGV[i] }
    printf "%.2f\n", 100 * (high - low) }' "$@"
}

# points ACCURACY REFERENCE: their difference in percentage points, with its sign.
points() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%+.2f\n", 100 * (a - b) }'; }

# no_worse ACCURACY REFERENCE POINTS: whether it is at most POINTS below the reference.
no_worse() { awk -v a="$1" -v b="$2" -v p="$3" 'BEGIN { exit !(a >= b - p / 100 - 1e-9) }'; }
