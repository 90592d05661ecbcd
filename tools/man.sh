#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes the manual pages from what the command says of itself, so that both always say the same: FOLDER/dao.1
# of all of it, and FOLDER/dao-COMMAND.1 of each command.
# Usage: man.sh DAO FOLDER
set -eu
dao=$1
folder=$2

# roff: passes lines on in such a form that troff prints them as they are.
roff() {
    sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^\\([.']\\)/\\\\\\&\\1/"
}

# section COMMAND [yes]: its help: the usage, what it does, and a paragraph for each option; with titles.
section() {
    text=$("$dao" "$1" --help)
    printf '%s\n' "$text" | roff | awk -v has_titles="${2:-}" '
        NR == 1 {
            sub(/^usage: /, "")
            print ".B " $0
            print has_titles ? ".SH DESCRIPTION" : ".PP"
            print ".nf"
            next
        }
        /^options:$/ { print ".fi"; if (has_titles) print ".SH OPTIONS"; is_option = 1; next }
        is_option && /^   / { sub(/^ +/, ""); print; next } # goes on
        is_option && match($0, /^  \\-[^ ]+( [^ ]+)?  +/) {
            name = substr($0, 3, RLENGTH - 2)
            sub(/ +$/, "", name)
            print ".TP"
            print ".B " name
            print substr($0, RLENGTH + 1)
            next
        }
        is_option && match($0, /^  \\-[^ ]+ [^ ]+ /) { # a name that reaches into the second column
            print ".TP"
            print ".B " substr($0, 3, RLENGTH - 3)
            print substr($0, RLENGTH + 1)
            next
        }
        NR > 2 { print }
        END { if (!is_option) print ".fi" }'
}

# write: the whole page.
write() {
    cat <<TEXT
.TH DAO 1 "" "$version" "User Commands"
.SH NAME
dao \\- memory of accelerators: look at recorded steps, run them in less memory
.SH SYNOPSIS
.B dao
.I COMMAND
.RI [ options ]
.br
.B dao
.B \\-\\-help
|
.B \\-\\-version
.SH DESCRIPTION
.B dao
tells what the recorded step of a program holds and needs, executes it in a part of that memory, plans where
its buffers lie, and simulates what moving them costs.
.PP
Sizes take the units B, kB, MB, GB, TB (powers of 1000) and KiB, MiB, GiB, TiB or K, M, G, T
(powers of 1024), in upper or lower case, or none, which are bytes;
rates the same units and /s; times ns, us, ms and s, or none, which are nanoseconds.
.B \\-\\-
ends the options.
.SH COMMANDS
TEXT
    printf '%s\n' "$help" | roff | awk '
        /^commands:$/ { is_command = 1; next }
        NF == 0 { is_command = 0 }
        is_command && match($0, /^  [a-z]+( COMMAND)? +/) {
            print ".TP"
            print ".B " $1 ($2 == "COMMAND" ? " COMMAND" : "")
            print substr($0, RLENGTH + 1)
        }'
    for command in $commands; do
        printf '.SS "dao %s"\n' "$command"
        section "$command"
    done
    write_end
    see_also $commands
}

# write_end: what holds for all commands.
write_end() {
    cat <<'TEXT'
.SH EXIT STATUS
.TP
.B 0
It is done.
.TP
.B 1
It failed: an input is not valid or not there, memory does not suffice, a check found something, the output
could not be written. Standard error says why.
.TP
.B 2
The command line is not valid; nothing was done.
.SH ENVIRONMENT
The variables that set libdao's defaults, such as
.BR DAO_CPU_DEVICE_BYTES ,
hold for what the command executes; they are listed in docs/settings.md of the sources and beside the fields
of
.BR dao_config_t .
A value that is not valid is an error.
TEXT
}

# see_also COMMAND...: their pages.
see_also() {
    echo ".SH SEE ALSO"
    for other in "$@"; do
        echo ".BR dao\\-$other (1),"
    done
    echo ".I /usr/share/doc/dao"
}

# write_command COMMAND: the page of one.
write_command() {
    about=$(printf '%s\n' "$help" | sed -n "s/^  $1  *//p" | roff)
    cat <<TEXT
.TH DAO-$(echo "$1" | tr '[:lower:]' '[:upper:]') 1 "" "$version" "User Commands"
.SH NAME
dao\-$1 \- $about
.SH SYNOPSIS
TEXT
    section "$1" yes
    write_end
    echo ".SH SEE ALSO"
    echo ".BR dao (1),"
    echo ".I /usr/share/doc/dao"
}

# A pipe would hide that the command failed; and half a page must not look like a new one.
version=$("$dao" --version)
help=$("$dao" --help)
commands=$("$dao" --words | grep -vx help)
mkdir -p "$folder"
for command in $commands; do
    write_command "$command" >"$folder/page.new"
    mv "$folder/page.new" "$folder/dao-$command.1"
done
write >"$folder/page.new"
mv "$folder/page.new" "$folder/dao.1"
