# One image with one static binary: every component of the compose file is a sub-command of it. Nothing in it runs as root.

FROM rust:1-bookworm AS build
WORKDIR /src
COPY . .
# The host's own target has to be named, or the static flag would reach build scripts and procedural macros too.
RUN host=$(rustc -vV | sed -n 's/^host: //p') \
 && RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --locked --package orrery --target "$host" \
 && mkdir /image \
 && cp "${CARGO_TARGET_DIR:-target}/$host/release/orrery" /image/orrery
# Where the compose file mounts its volumes: a new volume takes the mode of the folder that it is first mounted on, so that
# whoever is not root may write there.
RUN cd /image \
 && mkdir -p etcd etcd-1 etcd-2 cloud claims pki/nodes \
 && cd pki \
 && mkdir ca front-proxy-ca admin apiserver controller-manager scheduler proxy-sim metrics-server cloud-sim cloud-controller-manager nodes/node-0 nodes/node-1 nodes/node-2 \
 && chmod 1777 ../etcd* ../cloud ../claims * nodes/*

FROM scratch
COPY --from=build /image/ /
USER 1000:1000
ENTRYPOINT ["/orrery"]
