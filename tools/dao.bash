# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Completion of the dao command: its commands and options as `dao --help` and `dao COMMAND --help` print them, else files.
_dao() {
    local word=${COMP_WORDS[COMP_CWORD]} dao=${COMP_WORDS[0]} words
    local -a command=("${COMP_WORDS[@]:1:1}")
    if [[ ${COMP_WORDS[1]} == bench && $COMP_CWORD -gt 2 && ${COMP_WORDS[2]} != -* ]]; then
        command=("${COMP_WORDS[@]:1:2}")
    fi
    if [[ $COMP_CWORD -eq 1 || ($COMP_CWORD -eq 2 && ${COMP_WORDS[1]} == help) ]]; then
        words=$("$dao" --help 2>/dev/null | awk '/^commands:$/ { on = 1; next } NF == 0 { on = 0 } on { print $1 }')
        [[ $COMP_CWORD -eq 1 ]] && words+=" --help --version"
    elif [[ $COMP_CWORD -eq 2 && ${COMP_WORDS[1]} == bench && $word != -* ]]; then
        words=$("$dao" bench --help 2>/dev/null | sed -n '1s/^usage: dao bench \([a-z|]*\) .*/\1/p' | tr '|' ' ')
    elif [[ $word == -* ]]; then
        words=$("$dao" "${command[@]}" --help 2>/dev/null | awk '/^options:$/ { on = 1; next } on && $1 ~ /^-/ { print $1 }')
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o bashdefault -o default -F _dao dao
