#!/bin/sh
# Writes data/measurements/SHA256SUMS: the checksum of every committed measurement. A test holds the files to it, so that
# none of them is edited unnoticed. To be run after measurements were added; the diff must show new lines only.
# To check by hand: cd data/measurements && sha256sum -c SHA256SUMS
#
# usage: tools/checksums.sh
set -eu
cd -- "$(dirname -- "$0")/../data/measurements"
find . -type f ! -name README.md ! -name 'SHA256SUMS*' | sed 's|^\./||' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS.partial
mv SHA256SUMS.partial SHA256SUMS
