#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Packages for Debian: they are made, hold what they have to, satisfy lintian where it is installed, are
# installed and purged by dpkg, and a program is built with what is in them alone, by find_package() and by
# pkg-config. The machine stays as it is: dpkg works below SCRATCH/root, on a copy of what it knows.
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
holds dao-tools /bin/dao /man1/dao.1.gz /man1/dao-plan.1.gz /completions/dao /vendor-completions/_dao \
    /doc/dao-tools/copyright
if [ -d "$source/build/docs/man/man3" ]; then
    holds libdao-dev /man3/dao_alloc.3.gz /man3/dao_place.h.3.gz
else
    echo "without manual pages of the interface: ./dev docs and ./dev package make them"
fi
if command -v lintian >/dev/null; then
    # ./dev package checks the manual pages as well: there are hundreds, where ./dev docs has made them
    lintian --allow-root -X documentation/manual --fail-on error --tag-display-limit 0 "$@" \
        >"$scratch/lintian.log" 2>&1 ||
        { cat "$scratch/lintian.log" && fail "lintian"; }
    tail -n 20 "$scratch/lintian.log"
else
    echo "lintian is not installed: its rules were not checked"
fi

# in_root OPTION...: dpkg below the scratch folder; as root, or as fakeroot says one is. Scripts of packages
# run here, since there is no shell below: ldconfig is one that does nothing.
command -v fakeroot >/dev/null && [ "$(id -u)" -ne 0 ] && as_root=fakeroot || as_root=
admin=$scratch/root/var/lib/dpkg
in_root() {
    PATH=$scratch/bin:$PATH:/usr/sbin:/sbin $as_root dpkg --force-not-root --force-script-chrootless \
        --no-triggers "--root=$scratch/root" "$@" >"$scratch/dpkg.log" 2>&1 ||
        { cat "$scratch/dpkg.log" && return 1; }
}
mkdir -p "$scratch/bin" "$admin/info" "$admin/updates" "$admin/triggers"
printf '#!/bin/sh\n' >"$scratch/bin/ldconfig"
chmod +x "$scratch/bin/ldconfig"
# What is installed here, so that dependencies are looked at.
for file in status arch; do
    [ ! -f "/var/lib/dpkg/$file" ] || cp "/var/lib/dpkg/$file" "$admin"
done
cp /var/lib/dpkg/info/*.list "$admin/info"
in_root -i "$@" || fail "dpkg -i"
for name in "$library" libdao-dev dao-tools; do
    state=$(dpkg-query "--admindir=$admin" -W -f '${db:Status-Abbrev}' "$name")
    case $state in "ii "*) ;; *) fail "dpkg -i left $name as: $state" ;; esac
    in_root -V "$name" && [ ! -s "$scratch/dpkg.log" ] || fail "dpkg -V $name: $(cat "$scratch/dpkg.log")"
done

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

# Nothing is left of them, and one that another needs does not go alone.
if in_root --purge "$library" >/dev/null; then fail "dpkg takes away the library that libdao-dev needs"; fi
in_root --purge dao-tools libdao-dev "$library" || fail "dpkg --purge"
left=$(find "$scratch/root" ! -type d ! -path "$admin/*")
[ -z "$left" ] || fail "dpkg --purge leaves $left"
