# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Completion of dao and dao-bench. Their tables of options answer `dao --words` (commands), `dao COMMAND
# --words` (options) and `dao COMMAND --words --OPTION` (values, where these are names); where they offer
# nothing, files are.
_dao() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} dao=${COMP_WORDS[0]} words=
    local -a command=("${COMP_WORDS[1]}" --words)
    [[ $word != = ]] || word= # bash makes words of "--policy", "=" and "lru"
    [[ $before != = ]] || before=${COMP_WORDS[COMP_CWORD - 2]}
    if [[ $COMP_CWORD -eq 1 ]]; then
        words="$("$dao" --words 2>/dev/null) --help --version"
    elif [[ $COMP_CWORD -eq 2 && ${COMP_WORDS[1]} == help ]]; then
        words=$("$dao" --words 2>/dev/null)
    elif [[ $word == -* ]]; then
        words=$("$dao" "${command[@]}" 2>/dev/null)
    elif [[ $before == -* ]]; then
        words=$("$dao" "${command[@]}" "$before" 2>/dev/null)
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o bashdefault -o default -F _dao dao dao-bench
