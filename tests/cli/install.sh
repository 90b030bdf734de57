# Installed files can be used from a shell, a compiler with pkg-config, and CMake.
last="make install"
(cd "$root" && make --no-print-directory B="$build" install DESTDIR="$scratch/stage" PREFIX=/opt/longline) >out 2>err </dev/null
check "make install" test $? -eq 0
to=$scratch/stage/opt/longline
for f in bin/longline include/longline.h include/longline-lab.h lib/liblongline.a lib/liblongline.so \
    lib/liblongline-lab.a lib/liblongline-lab.so lib/pkgconfig/longline.pc lib/pkgconfig/longline-lab.pc \
    lib/cmake/longline/longlineConfig.cmake share/man/man1/longline.1 share/longline/recipes/text-bytes.ini; do
    check "installed: $f" test -s "$to/$f"
done
t 0 "$to/bin/longline" version
version=$(sed -n 's/^longline //p' out)

export PKG_CONFIG_PATH="$to/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$scratch/stage" LD_LIBRARY_PATH="$to/lib"
t 0 pkg-config --modversion longline
out "^$version$"
flags=$(pkg-config --cflags --libs longline)
# shellcheck disable=SC2086
t 0 cc "$root/examples/attention_call.c" $flags -lm -o attention
t 0 ./attention
out "^tokens=1000 stream_bytes=[0-9]+ largest_difference="
# Each example is compiled by the command in its comment.
cp "$root"/examples/*.c .
for example in *.c; do
    compile=$(sed -n "s/^ \*  *\(cc $example [^&]*\).*/\1/p" "$example")
    t 0 sh -c "${compile:-echo $example names no command that compiles it; exit 1}"
done

# The core alone trains and generates, and needs no library for drawing or downloads.
flags=$(pkg-config --cflags --libs longline)
# shellcheck disable=SC2086
t 0 cc "$root/tests/cli/core.c" $flags -o core
t 0 ./core
out "^token=[0-9]+$"
t 0 ldd ./core
out "liblongline\.so\.${version%.*} " # programs of another 0.x do not take it
t 0 objdump -T ./core
out "\(LONGLINE_${version%.*}\) +ll_recipe_parse"
for package in liblongline liblongline-lab; do
    check "Debian's package is called $package${version%.*}, as the library is" \
        grep -q "^Package: $package${version%.*}\$" "$root/packaging/debian/control"
    check "it has its list of files" test -s "$root/packaging/debian/$package${version%.*}.install"
done
for library in longline-lab cairo pixman fontconfig freetype curl archive libmd; do
    check "the core needs no $library" sh -c "! grep -q '$library' out"
done
check "a run of the core has no report" test ! -e core-run/report.html

# The laboratory, too.
cat >lab.c <<END
#include <longline-lab.h>
#include <stdio.h>

int main(void) {
    ll_status status = ll_run_picture("core-run", "loss.svg");
    if (!status) status = ll_run_report("core-run", NULL, NULL, NULL, NULL);
    printf("status=%d %s\n", status, status ? ll_error() : "");
    return status;
}
END
t 0 pkg-config --modversion longline-lab
out "^$version$"
# shellcheck disable=SC2046
t 0 cc lab.c $(pkg-config --cflags --libs longline-lab) -o lab
t 0 ./lab
check "the laboratory draws" test -s loss.svg
check "it writes a report" test -s core-run/report.html
t 0 ldd ./lab
out "liblongline-lab\.so"
out "libcairo\.so"

export PKG_CONFIG_SYSROOT_DIR=
# A static program: pkg-config names all that the library needs. What the build adds (make coverage) is in LDFLAGS.
flags=$(pkg-config --cflags --static --libs longline | sed "s|/opt/longline|$to|g; s|-llongline|-l:liblongline.a|")
# shellcheck disable=SC2086
t 0 cc "$root/examples/attention_call.c" $flags ${LDFLAGS:-} -o attention-static
LD_LIBRARY_PATH= t 0 ./attention-static
flags=$(pkg-config --cflags --static --libs longline-lab |
    sed "s|/opt/longline|$to|g; s|-llongline |-l:liblongline.a |; s|-llongline-lab|-l:liblongline-lab.a|")
# shellcheck disable=SC2086
t 0 cc lab.c $flags ${LDFLAGS:-} -o lab-static
LD_LIBRARY_PATH= t 0 ./lab-static

# Debian's package depends on the packages of these files. If a required .pc is missing, pkg-config gives no flags at
# all.
if command -v dpkg >/dev/null; then
    # What a package for another machine goes without.
    parts=$(sed -n 's/.*longline:Parts=$(if $(CROSS),,\(.*\))"$/\1/p' "$root/packaging/debian/rules")
    sed -n '/^Package: liblongline-dev/,/^Description/p' "$root/packaging/debian/control" |
        sed "s/\${longline:Parts}/$parts/" >depends
    cat "$to"/lib/pkgconfig/*.pc >pc
    for file in $(sed -n 's/^Requires.private: //p' pc | sed 's/[a-z0-9]*/&.pc/g') \
        $(sed -n 's/^Libs.private://p' pc | tr ' ' '\n' | sed -n 's/^-l\(.*\)/lib\1.so/p'); do
        package=$(dpkg -S "*/$file" 2>/dev/null | sed -n 's/^\([^:,]*-dev\)[:,].*/\1/p' | head -n 1)
        case $package in '' | libc6-dev* | libstdc++*) continue ;; esac
        check "liblongline-dev depends on $package, for $file" grep -qE " $package(,|$)" depends
    done
fi

# A program may close the libraries while threads of the pool still wait for work.
cat >close.c <<'END'
#include <dlfcn.h>
#include <longline.h>
#include <stdio.h>
#include <unistd.h>
int main(void) {
    for (int i = 0; i < 20; i++) {
        void *library = dlopen("liblongline-lab.so", RTLD_NOW);
        double (*measure)(int, double) = library ? (double (*)(int, double))dlsym(library, "ll_measure_peak") : NULL;
        if (!measure) return puts(dlerror()), 1;
        measure(4, 0.001);
        dlclose(library);
        usleep(2000);
    }
    return 0;
}
END
t 0 cc close.c -I"$to/include" -ldl -o close
t 0 ./close

if command -v cmake >/dev/null; then
    cat >CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.13)
project(uses C)
find_package(longline ${version%.*} REQUIRED)
add_executable(uses $root/examples/attention_call.c)
target_link_libraries(uses longline::longline m)
add_executable(draws lab.c)
target_link_libraries(draws longline::lab)
END
    t 0 cmake -S . -B cmake-build -DCMAKE_PREFIX_PATH="$to"
    t 0 cmake --build cmake-build
    t 0 cmake-build/uses
    t 0 cmake-build/draws
    sed -i 's/find_package(longline [0-9.]*/find_package(longline 99.0/' CMakeLists.txt
    t 1 cmake -S . -B cmake-other -DCMAKE_PREFIX_PATH="$to"
else
    skip "find_package: no cmake here"
fi

# An example that streams from a model.
if [ -f "$root/examples/stream_tokens.c" ]; then
    small_text
    # shellcheck disable=SC2086
    t 0 "$to/bin/longline" train "$to/share/longline/recipes/text-bytes.ini" --data text.txt $small --out run
    export PKG_CONFIG_SYSROOT_DIR="$scratch/stage"
    # shellcheck disable=SC2046
    t 0 cc "$root/examples/stream_tokens.c" $(pkg-config --cflags --libs longline) -lm -o stream
    t 0 ./stream run/best.safetensors
    check "the stream writes" test -s out
    # The program of README.md, with the command that stands there.
    awk '/^```c$/ {program = 1; next} /^```/ {program = 0} program' "$root/README.md" >example.c
    mkdir -p runs/demo-1 && cp run/best.safetensors runs/demo-1
    # shellcheck disable=SC2016
    compile=$(grep -o '`cc example.c [^`]*`' "$root/README.md" | tr -d '`')
    t 0 sh -c "$compile"
    t 0 ./a.out
    check "it writes 1000 bytes" test "$(wc -c <out)" -eq 1000
    # shellcheck disable=SC2086
    t 0 "$to/bin/longline" train "$to/share/longline/recipes/text-bytes.ini" --data text.txt $small \
        --set data.format=words --set model.vocab=0 --out words
    cp words/best.safetensors runs/demo-1
    t 1 ./a.out
    err "the model's tokens are not bytes"
    rm -r runs
    t 1 ./a.out
    err 'runs/demo-1/best.safetensors'
fi
# Libraries deeper than PREFIX/lib, as packages have them.
deep=$scratch/deep last="make install LIBDIR="
(cd "$root" && make --no-print-directory B="$build" install DESTDIR= PREFIX="$deep" LIBDIR="$deep/lib/x") >out 2>err </dev/null
check "make install LIBDIR=" test $? -eq 0
export PKG_CONFIG_PATH="$deep/lib/x/pkgconfig" PKG_CONFIG_SYSROOT_DIR=
t 0 pkg-config --cflags --libs longline
out "-L$deep/lib/x "
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for library in openmpi mpich; do
    [ -e "$build/longline-mpi-$library.so" ] && command -v mpirun.$library >/dev/null || continue
    t 2 timeout 60 mpirun.$library -n 1 "$deep/bin/longline" train "$deep/share/longline/recipes/text-bytes.ini" --data absent.txt \
        --out none
    err "cannot open absent.txt"
done
if command -v cmake >/dev/null; then
    sed -i 's/find_package(longline [0-9.]*/find_package(longline/' CMakeLists.txt
    t 0 cmake -S . -B cmake-deep -Dlongline_DIR="$deep/lib/x/cmake/longline"
    t 0 cmake --build cmake-deep
    LD_LIBRARY_PATH="$deep/lib/x" t 0 cmake-deep/uses
fi
# Libraries that a build goes without are not asked for.
t 0 make -n -C "$root" B="$scratch/few" PACKED= PNG= install
out "s|@CORE_REQUIRES@|jansson|g"
last="make uninstall"
(cd "$root" && make --no-print-directory B="$build" uninstall DESTDIR="$scratch/stage" PREFIX=/opt/longline) >out 2>err </dev/null
check "make uninstall leaves no file" sh -c "! find '$to' -type f -o -type l | grep -q ."
