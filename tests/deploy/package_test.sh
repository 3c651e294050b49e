#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# scripts/package-test where it can run, in a soak alone.
set -eu
[ "${SL_TEST_SCALE:-1}" -gt 1 ] || { echo "SKIP: builds the packages three times and a Debian: make soak"; exit 77; }
[ "$(id -u)" = 0 ] || { echo "SKIP: needs root for a Debian in a folder"; exit 77; }
for program in dpkg-buildpackage lintian rpmbuild debootstrap cpio; do
	command -v $program > /dev/null || { echo "SKIP: $program is not installed"; exit 77; }
done
w=$(mktemp -d)
trap 'rm -rf --one-file-system "$w"' EXIT
"$1/scripts/package-test" "$w"
