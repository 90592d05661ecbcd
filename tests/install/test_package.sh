#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Packages for Debian: they are made, hold what they have to, satisfy lintian where it is installed, and a
# program is built with what is in them alone, by find_package() and by pkg-config.
# Usage: test_package.sh BUILD SOURCE COMPILER SCRATCH
set -eu
build=$1 source=$2 compiler=$3 scratch=$4
fail() {
    echo "FAILED: $*"
    exit 1
}

command -v dpkg-deb >/dev/null && command -v dpkg-shlibdeps >/dev/null || {
    echo "skipped: no dpkg-dev"
    exit 77
}
rm -rf "$scratch"
mkdir -p "$scratch/packages"
(cd "$build" && cpack -G DEB -B "$scratch/packages" >"$scratch/cpack.log" 2>&1) ||
    { cat "$scratch/cpack.log" && fail "cpack"; }
set -- "$scratch"/packages/*.deb
[ $# -eq 3 ] || fail "there are $# packages, not 3: $*"
for package in "$@"; do
    dpkg-deb -c "$package" >"$package.list" || fail "dpkg-deb -c $package"
    dpkg-deb -x "$package" "$scratch/root"
    dpkg-deb -f "$package" Package Version Depends
done

# holds PACKAGE FILE...: the package has them.
holds() {
    name=$1
    shift
    for file in "$@"; do
        grep -q -- "$file" "$scratch/packages/$name"_*.deb.list || fail "$name has no $file"
    done
}
library=$(cd "$scratch/packages" && echo libdao[0-9]*_*.deb | sed 's/_.*//')
soversion=${library#libdao}
holds "$library" "/libdao.so.$soversion\$\|/libdao.so.$soversion " /libdao_torch.so /libdao_malloc.so \
    "/doc/$library/copyright"
holds libdao-dev /include/dao/dao.h /daoConfig.cmake /dao.pc /doc/libdao-dev/copyright /doc/dao/LICENSE \
    /doc/dao/docs/design.md /doc/dao/examples/first.c /libdao.so
holds dao-tools /bin/dao /man1/dao.1.gz /completions/dao /doc/dao-tools/copyright
if command -v lintian >/dev/null; then
    # ./dev package checks the manual pages as well: there are hundreds, where ./dev docs has made them
    lintian --allow-root -X documentation/manual --fail-on error --tag-display-limit 0 "$@" \
        >"$scratch/lintian.log" 2>&1 ||
        { cat "$scratch/lintian.log" && fail "lintian"; }
    tail -n 20 "$scratch/lintian.log"
else
    echo "lintian is not installed: its rules were not checked"
fi

# A consumer has the packages' files alone.
lib=$(dirname "$(find "$scratch/root" -name "libdao.so.$soversion")")
cmake -S "$source/tests/consumer" -B "$scratch/consumer" "-DCMAKE_PREFIX_PATH=$scratch/root/usr" \
    "-DCMAKE_C_COMPILER=$compiler" >"$scratch/consumer.log" 2>&1 &&
    cmake --build "$scratch/consumer" >>"$scratch/consumer.log" 2>&1 ||
    { cat "$scratch/consumer.log" && fail "a consumer by find_package()"; }
LD_LIBRARY_PATH=$lib "$scratch/consumer/consumer" || fail "the consumer by find_package()"
options=$(PKG_CONFIG_PATH=$lib/pkgconfig pkg-config --cflags --libs dao)
# shellcheck disable=SC2086 # a list of words
"$compiler" "$source/tests/consumer/consumer.c" -o "$scratch/by_pkg_config" $options
LD_LIBRARY_PATH=$lib "$scratch/by_pkg_config" || fail "the consumer by pkg-config"
LD_LIBRARY_PATH=$lib "$scratch/root/usr/bin/dao" --version || fail "dao"

# What programs are linked with carries the version of the interface.
readelf -W --dyn-syms "$scratch/by_pkg_config" | grep -q "dao_alloc.*@DAO_$soversion" ||
    fail "symbols have no version"
