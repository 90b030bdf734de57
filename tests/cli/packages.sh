# Building without a package gives a message before anything is compiled, and no error of the compiler.
make_one() { # COMPILER [OBJECT]: builds one file in a folder of its own
    rm -rf b
    env -u MAKEFLAGS -u MFLAGS make --no-print-directory -C "$root" B="$PWD/b" CC="$1" CURL= ARCHIVE= SENTENCEPIECE= \
        "$PWD/b/${2:-src/base/status.o}"
}
# All system headers except those of a few packages.
mkdir headers
for f in /usr/include/*; do
    case $f in */jansson*.h | */cairo | */fontconfig | */cmocka*.h) ;; *) ln -s "$f" headers ;; esac
done
machine=$(cc -dumpmachine)
hiding="cc -nostdinc -isystem $(cc -print-file-name=include) -isystem $PWD/headers -isystem $PWD/headers/$machine"

t 2 make_one "$hiding"
err "^longline needs jansson.h, of the package libjansson-dev$"
err "^longline needs cairo/cairo.h, of the package libcairo2-dev$"
err "^longline needs fontconfig/fontconfig.h, of the package libfontconfig-dev$"
err "^make deps installs what is missing"
not_err "zlib|No such file"
check "nothing was compiled" test ! -e b/src/base/status.o
not_err cmocka
for f in /usr/include/jansson*.h /usr/include/cairo /usr/include/fontconfig; do ln -s "$f" headers; done
t 0 make_one "$hiding"
t 2 make_one "$hiding" tests/base/test_base.o
err "^longline needs cmocka.h, of the package libcmocka-dev$"
not_err "No such file"
t 2 make_one nocompiler
err "^longline needs a C compiler: nocompiler cannot be run$"
err "^make deps installs"
t 0 make_one cc
check "with all packages it is compiled" test -s b/src/base/status.o

# What is linked follows the lists of files, also where the objects were there before. This compiler writes its arguments.
cat >writes <<'END'
#!/bin/sh
for word; do [ "$before" != -o ] || echo "$@" >"$word"; before=$word; done
END
chmod +x writes
relink() {
    t 0 env -u MAKEFLAGS -u MFLAGS make --no-print-directory -C "$root" B="$PWD/b" CC="$PWD/writes" CXX="$PWD/writes" AR=true \
        LAB_ROOMS=lab/maps "$PWD/b/longline" "$@"
}
rm -rf b
relink MICROHTTPD=1
relink MICROHTTPD=
check "built anew without the server" grep -q 'http_none\.o' b/longline
relink MICROHTTPD=1
check "and with it" grep -q 'http\.o.* -lmicrohttpd' b/longline

# A package of Debian chooses its own compiler. Here a program that prints what reaches it stands for the one that builds,
# and debhelper need not be there.
if git -C "$root" rev-parse HEAD >/dev/null 2>&1; then
    mkdir fake
    printf '#!/bin/sh\necho "given: CC=$CC CXX=$CXX MAKEFLAGS=$MAKEFLAGS date=$SOURCE_DATE_EPOCH"\n: >../a.deb\n' \
        >fake/dpkg-buildpackage
    echo "#!/bin/sh" >fake/dh
    chmod +x fake/dpkg-buildpackage fake/dh
    t 0 env -u MAKEFLAGS -u MFLAGS PATH="$PWD/fake:$PATH" make --no-print-directory -C "$root" B="$PWD/b" DEB_TO="$PWD/deb" \
        CC="no compiler" CXX="no compiler either" SOURCE_DATE_EPOCH=7 deb
    out "^given: CC= CXX= MAKEFLAGS= date=7$"
else
    skip "make deb: this is no checkout of git"
fi
