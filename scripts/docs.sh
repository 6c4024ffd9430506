# shellcheck shell=bash disable=SC2154
# Sourced by `motet`: `./motet docs`. The book has the pages that docs/SUMMARY.md names, with the files that they lead to.

make_book() {
    local folder=$out/docs destination='' shown=1 port=3000
    while [[ $# -gt 0 ]]; do
        case $1 in
            --build-only) shown= ;;
            --out | --port)
                [[ ${2-} ]] || wrong_use "$1 needs a value"
                if [[ $1 == --out ]]; then destination=$2; else port=$2; fi
                shift
                ;;
            --out=*) destination=${1#*=} ;;
            --port=*) port=${1#*=} ;;
            *) wrong_use "'$1' is none of its options" ;;
        esac
        shift
    done
    [[ $port =~ ^[1-9][0-9]{0,4}$ && $port -le 65535 ]] || wrong_use "there is no port '$port'"
    may_write || refuse "$out is not $(id -un)'s to write"
    choose_level run
    # What Rust builds for this computer needs no kernels' targets.
    [[ $rust_dir ]] && command -v cc >/dev/null || set_up_to_build run
    fetch_mdbook
    gather_pages "$folder"
    "$mdbook" build "$folder" >"$state/book.log" 2>&1 || { log=$state/book.log && fail "mdBook refuses the pages" with-log; }
    if [[ $destination ]]; then
        mkdir -p "$destination"
        cp -R "$folder/book/." "$destination"
        say "the book begins with $destination/index.html"
    fi
    [[ $shown ]] || return 0
    say "the book is at http://127.0.0.1:$port/ until this is interrupted"
    RUST_LOG=error MDBOOK_LOG=error exec "$mdbook" serve "$folder" --hostname 127.0.0.1 --port "$port"
}

wrong_use() {
    say "docs: $1; './motet docs --help' says more"
    exit 64
}

# gather_pages DIR: the project's pages and what they lead to, in the project's folders, so that links are right.
gather_pages() {
    local folder=$1 pages=$1/src page link
    rm -rf "$folder"
    mkdir -p "$pages"
    cp "$root"/*.md "$pages"
    cp -R "$root"/{docs,examples,machines,studies} "$pages"
    # What the summary says of docs/, from the folder above.
    sed -e 's#](#](docs/#' -e 's#](docs/\.\./#](#' "$root/docs/SUMMARY.md" | sed 's#README\.md#index.md#' >"$pages/SUMMARY.md"
    rm "$pages/docs/SUMMARY.md"
    # The first page of a book is its index.
    sed 's#](docs/SUMMARY\.md)#](toc.html)#' "$pages/README.md" >"$pages/index.md"
    rm "$pages/README.md"
    find "$pages" -name '*.md' -exec sed -i 's#](\(\(\.\./\)*\)README\.md#](\1index.md#g' {} +
    find "$pages" -name '*.md' | while read -r page; do
        for link in $(grep -o '](\(\.\./\)*[A-Za-z][^):# ]*' "$page" | sed 's/^](//'); do
            link=$(realpath -m --relative-to="$pages" "$(dirname "$page")/$link")
            [[ -f $pages/$link || ! -f $root/$link ]] || (cd "$root" && cp --parents "$link" "$pages")
        done
    done
    cat >"$folder/book.toml" <<'TOML'
[book]
title = "Motet"
language = "en"
src = "src"

[build]
create-missing = false

[output.html]
no-section-label = true

[output.html.search]
use-boolean-and = true
TOML
}
