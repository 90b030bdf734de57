#!/bin/sh
# Fetches the sources of Debian's packages jansson and cmocka into a folder: wasm/sources.sh FOLDER. Emscripten compiles
# them, for it has no such libraries. apt checks their signatures. The list of sources is the machine's own list of
# packages with deb-src in place of deb, and stays in the folder, so that root is not needed and nothing changes.
set -eu
folder=$1
command -v apt-get >/dev/null || { echo "$0: no apt-get here; unpack jansson and cmocka as $folder/jansson and $folder/cmocka" >&2; exit 1; }
rm -rf "$folder.new"
mkdir -p "$folder.new/list" "$folder.new/lists/partial"
cd "$folder.new"
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
    [ ! -f "$file" ] || sed 's/^deb /deb-src /; s/^Types: deb$/Types: deb-src/' "$file" >"list/$(basename "$file")"
done
apt() {
    apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$PWD/list" \
        -o Dir::State::lists="$PWD/lists" -o APT::Sandbox::User=root "$@"
}
apt update 2>errors || echo "some sources have no list: $(head -n 1 errors)" >&2
for package in jansson cmocka; do
    apt --only-source --download-only source "$package"
    mkdir "$package"
    tar -x -f "$(ls "$package"_*.orig.tar.?z)" -C "$package" --strip-components=1
done
cd - >/dev/null
rm -rf "$folder.new/list" "$folder.new/lists" "$folder"
mv "$folder.new" "$folder"
