#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The manual pages and the completions of bash and zsh know each command and each option that the dao command
# prints itself, and the documents name no others.
# Usage: test_man.sh DAO DAO_BENCH FOLDER SOURCE_DIR
dao=$1
bench=$2
page=$3/dao.1
completion=$4/tools/dao.bash
zsh_completion=$4/tools/_dao
failures=0

fail() {
    failures=$((failures + 1))
    echo "FAILED: $1"
}

commands=$("$dao" --help | awk '/^commands:$/ { on = 1; next } NF == 0 { on = 0 } on { print $1 }')
[ "$(echo "$commands" | wc -l)" -ge 6 ] \
    || fail "so few commands were found that the search itself must be wrong"
option_count=0

# options PROGRAM COMMAND: the options in its help.
options() {
    "$1" "$2" --help | awk '/^options:$/ { on = 1; next } on && /^  -/ { print $1 }'
}

newline='
'

# has_option OPTION TEXT: a line of the text begins with it, in bold. No process for each.
has_option() {
    case "$newline$2$newline" in *"$newline.B $1$newline"* | *"$newline.B $1 "*) return 0 ;; esac
    return 1
}

# check COMMAND: its options are in its section of the page.
check() {
    own=${page%/*}/dao-$1.1
    own_text=$(sed 's/\\-/-/g' "$own")
    section=$(awk -v title=".SS \"dao $1\"" '$0 == title { on = 1; next } /^\.S[SH]/ { on = 0 } on' "$page" \
        | sed 's/\\-/-/g')
    [ -n "$section" ] || fail "the page has no section of dao $1"
    for option in $(options "$dao" "$1"); do
        option_count=$((option_count + 1))
        has_option "$option" "$section" || fail "dao $1: $option is not in the page"
        has_option "$option" "$own_text" || fail "dao-$1.1 has no $option"
    done
    for title in NAME SYNOPSIS DESCRIPTION OPTIONS "EXIT STATUS" ENVIRONMENT "SEE ALSO"; do
        grep -qx -e ".SH $title" "$own" || fail "dao-$1.1 has no $title"
    done
    set -- "$("$dao" "$1" --help | head -1)" "$own"
    case $own_text in *".B ${1#usage: }"*) ;; *) fail "$2 has another synopsis than: $1" ;; esac
}

for command in $commands; do
    grep -q "^\.B $command\( \|\$\)" "$page" || fail "the command $command is not in the page"
    [ "$command" = help ] || check "$command"
done
[ "$option_count" -ge 40 ] || fail "so few options were found that the search itself must be wrong"
if command -v groff >/dev/null; then
    complaints=$(groff -man -Tutf8 -ww -z "${page%/*}"/*.1 2>&1)
    [ -z "$complaints" ] || fail "groff: $complaints"
fi

# What stands behind a command in README.md and docs/, up to a quote: those are another program's words. In
# order: each command is asked once.
written=$(grep -ohE "\bdao(-bench)? [a-z]+ [^\`|;]*" "$4/README.md" "$4"/docs/*.md | sed "s/[\"'].*//" | sort)
written_count=0
asked=
while read -r program command words; do
    if [ "$program $command" != "$asked" ]; then
        asked="$program $command"
        case $program in dao) program=$dao ;; *) program=$bench ;; esac
        known= # prose
        "$program" help "$command" >/dev/null 2>&1 && known=$newline$(options "$program" "$command")$newline
    fi
    [ -n "$known" ] || continue
    for word in $words; do
        case $word in --[a-z]*) ;; *) continue ;; esac
        written_count=$((written_count + 1))
        case $known in *"$newline$word$newline"*) ;; *)
            fail "a document has $asked $words: $word is no option"
            ;;
        esac
    done
done <<TEXT
$written
TEXT
[ "$written_count" -ge 50 ] || fail "so few written options were found that the search itself must be wrong"

# offers WORD...: what bash would offer for the last word.
offers() {
    bash -c 'completion=$1; shift; . "$completion"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _dao
        printf "%s\n" "${COMPREPLY[@]}"' bash "$completion" "$dao" "$@"
}
if command -v bash >/dev/null; then
    offers si | grep -qx simulate || fail "bash: no command"
    offers help re | grep -qx replay || fail "bash: no command to help with"
    offers run trace --file- | grep -qx -e --file-engine || fail "bash: no option"
    offers run trace --policy weighted_b | grep -qx weighted_belady || fail "bash: no value of an option"
    offers run trace --policy = bel | grep -qx belady || fail "bash: no value behind ="
    [ -z "$(offers run trace --batch 1)" ] || fail "bash: a value of an option that has no names"
    [ -z "$(offers run trace)" ] || fail "bash: a word where files stand"
fi

python=$(command -v python3)
if command -v zsh >/dev/null && [ -n "$python" ]; then
    offers=$("$python" "$(dirname "$0")/press_tab.py" "$zsh_completion" "$dao" "dao simu" \
        "dao run trace --file-e" "dao run trace --policy weighted_b" "dao fit trace --device mi300")
    for line in "dao simulate" "dao run trace --file-engine" "dao run trace --policy weighted_belady" \
        "dao fit trace --device mi300x"; do
        echo "$offers" | grep -qF -e "line is $line ." || fail "zsh does not come to: $line"
    done
else
    echo "no zsh: its completion was not tried"
fi

[ $failures -eq 0 ] && echo "all passed"
exit $((failures > 0))
