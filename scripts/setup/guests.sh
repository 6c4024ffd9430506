# shellcheck shell=bash disable=SC2034,SC2154
# Sourced by scripts/setup.sh: the guests' programs, Debian's busybox-static of each instruction set, unmodified. Needs no root.

# The version that all computers use, without its epoch, and the SHA-256 of each package. A file that is named by its
# checksum needs none of Debian's indexes: they are many times its size, and a mirror that is being changed has some wrong.
busybox_version=1.37.0-6+b9
declare -A busybox_sha256=(
    [x86_64]=598a3fd92bdafc34cd81196b2952ad36e910e47a4ecf162f8ce5e8e262598e53
    [aarch64]=c833be48abfa16bc19c4966ec93e289ff1ce5d2f1476cad3a57bd105378cd15c
    [riscv64]=4add476d2b185c5b487c285b38d790f0881a7e4a8e2ddde835f917e770eb8633
)

guests_present() {
    local isa
    for isa in "${isas[@]}"; do [[ -x $out/userland/$isa/busybox ]] || return; done
}

set_up_guests() {
    ! guests_present || return 0
    needs_debian "a static busybox of each instruction set, as target/userland/{x86_64,aarch64,riscv64}/busybox"
    local work=$state/guests
    say "fetching guest programs: Debian's busybox-static for ${isas[*]}"
    context_of_debian "$work" "${debian_arch[@]}"
    download_known_guests "$work" || download_newest_guests "$work"
    unpack_guests "$work"
    rm -rf "$work"
}

# The packages with the checksums above, while Debian's archive has them.
download_known_guests() {
    local uri isa deb
    uri=$(debian_uri)
    for isa in "${isas[@]}"; do
        deb=busybox-static_${busybox_version}_${debian_arch[$isa]}.deb
        download_file "$1/apt.conf" "$uri/pool/main/b/busybox/$deb" "$1/$deb" "${busybox_sha256[$isa]}" || {
            say "no $deb with the known checksum there (more in $log); taking the newest version"
            rm -f "$1"/*.deb
            return 1
        }
    done
}

# Whatever versions Debian's signed indexes name.
download_newest_guests() {
    run_apt "$1/apt.conf" update
    (cd "$1" && run_apt apt.conf download "${debian_arch[@]/#/busybox-static:}")
}

# Unpacks the packages in DIR: each program is there as a whole or not at all.
unpack_guests() {
    local isa deb
    (
        cd "$1" || exit
        echo "# isa package version sha256(package) sha256(busybox)" >MANIFEST
        for isa in "${isas[@]}"; do
            deb=$(echo busybox-static_*_"${debian_arch[$isa]}.deb")
            dpkg-deb -x "$deb" "$isa"
            install -D -m 755 "$(find "$isa" -type f -path '*/bin/busybox')" "done/$isa/busybox"
            install -D -m 644 "$isa/usr/share/doc/busybox-static/copyright" "done/$isa/busybox.copyright"
            echo "$isa busybox-static $(dpkg-deb -f "$deb" Version) $(sha256 "$deb") $(sha256 "done/$isa/busybox")" >>MANIFEST
        done
        mkdir -p "$out/userland"
        mv MANIFEST "$out/userland/MANIFEST"
        for isa in "${isas[@]}"; do rm -rf "$out/userland/$isa" && mv "done/$isa" "$out/userland/$isa"; done
    )
}

sha256() { sha256sum "$1" | cut -d' ' -f1; }
