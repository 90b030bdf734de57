# Makes the page of `make wasm` of that of `longline serve`: awk -f wasm/index.awk cli/serve/page/page.html. Styles and
# scripts become files of their own, as the policy asks, and a place to load a model and one to score a text come in.
function put(file,  line, n) {
    while ((getline line <file) > 0) {
        print line
        n++
    }
    if (!n) failed = 1
}
function script(name) { print "<script src=\"" name "\"></script>" }
/^<style>$/ {
    print "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; " \
        "style-src 'self'; worker-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'\">"
    print "<meta name=\"referrer\" content=\"no-referrer\">"
    print "<link rel=\"stylesheet\" href=\"page.css\">"
    print "<link rel=\"stylesheet\" href=\"wasm.css\">"
}
/^<script>$/ {
    script("branches.js")
    script("attention.js")
    script("page.js")
    script("wasm_server.js")
    script("wasm_page.js")
}
/^<(style|script)>$/ {
    skips = 1
    found++
}
/^<\/(style|script)>$/ {
    skips = 0
    next
}
skips {next}
/^<noscript>/ {
    print "<noscript><p>This page needs JavaScript and WebAssembly.</p></noscript>"
    found++
    next
}
/^<footer>/ {
    print "<footer><p>The model runs in this browser; the page asks no server for anything but its own files. <span id=\"machine\"></span></p></footer>"
    found++
    next
}
/^<\/main>$/ {
    put("wasm/score.html")
    found++
}
{print}
/^<main>$/ {
    put("wasm/load.html")
    found++
}
END { exit failed || found != 6 }
