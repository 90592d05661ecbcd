# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Completion of dao and dao-bench: commands and options as `dao --help` and `dao COMMAND --help` print them, else files.
_dao() {
    local word=${COMP_WORDS[COMP_CWORD]} dao=${COMP_WORDS[0]} words
    if [[ $COMP_CWORD -eq 1 || ($COMP_CWORD -eq 2 && ${COMP_WORDS[1]} == help) ]]; then
        words=$("$dao" --help 2>/dev/null | awk '/^commands:$/ { on = 1; next } NF == 0 { on = 0 } on { print $1 }')
        [[ $COMP_CWORD -eq 1 ]] && words+=" --help --version"
    elif [[ $word == -* ]]; then
        words=$("$dao" "${COMP_WORDS[1]}" --help 2>/dev/null | awk '/^options:$/ { on = 1; next } on && $1 ~ /^-/ { print $1 }')
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o bashdefault -o default -F _dao dao dao-bench
