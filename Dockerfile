# One image with one static binary: every component of the compose file is a sub-command of it.

FROM rust:1-bookworm AS build
WORKDIR /src
COPY . .
# The host's own target has to be named, or the static flag would reach build scripts and procedural macros too.
RUN host=$(rustc -vV | sed -n 's/^host: //p') \
 && RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --locked --package orrery --target "$host" \
 && mkdir /image \
 && cp "${CARGO_TARGET_DIR:-target}/$host/release/orrery" /image/orrery

FROM scratch
COPY --from=build /image/orrery /orrery
ENTRYPOINT ["/orrery"]
