# SPDX-License-Identifier: Apache-2.0
# What the tests of the commands share: they set `program` and `source`, the project's root, and read this.
# shellcheck shell=sh disable=SC2154 # program and source
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failures=0

fail() {
    failures=$((failures + 1))
    echo "FAILED: $1"
    sed 's/^/    /' "$folder/out" "$folder/err"
}

# expect CODE TEXT ARGUMENT...: that exit code, and TEXT in what is printed (standard output and error).
expect() {
    code=$1
    text=$2
    shift 2
    "$program" "$@" >"$folder/out" 2>"$folder/err"
    got=$?
    [ "$got" -eq "$code" ] || fail "${program##*/} $*: exit code $got, not $code"
    cat "$folder/out" "$folder/err" | grep -qF -e "$text" || fail "${program##*/} $*: no \"$text\""
    check_fields "$@"
}

# check_fields ARGUMENT...: each field of JSON in the last output is named in docs/json.md, or in a document
# that this names for it.
for document in json planning lifetimes simulate swap; do
    grep -oE '`[a-z0-9_]+`' "$source/docs/$document.md"
done | tr -d '`' | sort -u >"$folder/names"
check_fields() {
    case " $* " in *" --json "*) ;; *) return ;; esac
    unknown=$(grep -oE '"[a-z0-9_]+" *:' "$folder/out" | tr -d '": ' | sort -u | comm -23 - "$folder/names")
    [ -z "$unknown" ] \
        || fail "${program##*/} $*: docs/json.md and what it names do not say what this is: $unknown"
}

# has FIELD: the JSON object in the last output has it.
has() {
    grep -q "^ *\"$1\": *[^ ]" "$folder/out" || fail "no field \"$1\""
}

# number FIELD: its value.
number() {
    sed -n "s/^ *\"$1\": *\([0-9.]*\),*\$/\1/p" "$folder/out"
}

# finish: the last line of a test.
finish() {
    [ $failures -eq 0 ] && echo "all passed"
    exit $((failures > 0))
}
