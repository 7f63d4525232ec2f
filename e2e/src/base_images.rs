//! Builds replacements for the base images of the Dockerfile and the compose file locally, under the same names.
//!
//! With them a test needs no image registry. The build image has this machine's compiler, cargo's downloads and earlier
//! build results; the etcd image has this machine's etcd.

use crate::docker::Engine;
use crate::programs::must;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Name of the Dockerfile's build image.
const RUST: &str = "rust:1-bookworm";
/// Name of the build image without build results.
const COMPILER: &str = "orrery-test/compiler";
/// Name of the compose file's etcd image.
const ETCD: &str = "gcr.io/etcd-development/etcd:v3.6.5";

/// Folders of this machine's root that a compiler needs; missing ones are left out.
const SYSTEM: [&str; 12] = [
    "bin",
    "sbin",
    "lib",
    "lib64",
    "usr/bin",
    "usr/lib64",
    "usr/include",
    "etc/ssl",
    "etc/alternatives",
    "etc/passwd",
    "etc/group",
    "usr/lib/gcc",
];

/// The build command of the Dockerfile.
const BUILD: &str = r#"host=$(rustc -vV | sed -n 's/^host: //p')
RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --locked --package orrery --target "$host""#;

/// Builds all base images. `source` is built at `/src`; `data` keeps build results between runs.
pub fn make(engine: &Engine, source: &Path, data: &Path) {
    etcd(engine, data);
    let crates = must(Command::new("sha256sum").arg("Cargo.lock").current_dir(source));
    let label = format!("{} {}", sysroot(), crates.split(' ').next().unwrap_or_default());
    if image_label(engine, COMPILER) != label {
        compiler(engine, &label);
    }
    let compiled = data.join("compiled");
    std::fs::create_dir_all(&compiled).expect("the directory is ours");
    must(
        engine
            .docker()
            // A container's processor share counts like one process's, and this one has most work.
            .args(["run", "--rm", "--cpu-shares=8192", "--network=none", "--workdir=/src"])
            .arg(format!("--volume={}:/src:ro", source.display()))
            .arg(format!("--volume={}:/target", compiled.display()))
            .args([COMPILER, "sh", "-ec", BUILD]),
    );
    with_compiled(engine, data, &compiled);
}

/// Builds the image with this machine's compiler, linker and downloaded crates.
fn compiler(engine: &Engine, label: &str) {
    let sysroot = sysroot();
    let multiarch = must(Command::new("gcc").arg("-print-multiarch"));
    let cargo = cargo_home().to_string_lossy().trim_start_matches('/').to_owned();
    let mut parts: Vec<String> = SYSTEM.map(str::to_owned).into();
    parts.push(format!("usr/lib/{}", multiarch.trim()));
    parts.extend(["bin", "lib"].map(|part| format!("{sysroot}/{part}")));
    parts.push(format!("{cargo}/registry"));
    parts.retain(|part| Path::new("/").join(part).exists());
    let changes = [
        "ENV PATH=/usr/local/rust/bin:/usr/bin:/bin",
        "ENV CARGO_HOME=/usr/local/cargo",
        "ENV CARGO_TARGET_DIR=/target",
        "ENV CARGO_NET_OFFLINE=true",
        // The tests ask what the image does, not how fast: optimising it takes more than half of the build.
        "ENV CARGO_PROFILE_RELEASE_OPT_LEVEL=0",
        &format!("LABEL orrery.test={label:?}"),
    ];
    let mut tar = Command::new("tar");
    tar.args(["--create", "--directory=/", "--ignore-failed-read"])
        .arg(format!("--transform=s,^{sysroot}/,usr/local/rust/,S"))
        .arg(format!("--transform=s,^{cargo}/,usr/local/cargo/,S"))
        .args(["--no-recursion", "tmp", "root", "--recursion"])
        .args(parts);
    import(engine, &mut tar, COMPILER, &changes);
}

/// Adds build results to the compiler's image, under the name in the Dockerfile.
fn with_compiled(engine: &Engine, data: &Path, compiled: &Path) {
    let context = data.join("context");
    std::fs::create_dir_all(&context).expect("the directory is ours");
    let dockerfile = format!("FROM {COMPILER}\nADD compiled.tar /target\n");
    std::fs::write(context.join("Dockerfile"), dockerfile).expect("the directory is ours");
    let archive = format!("--file={}", context.join("compiled.tar").display());
    must(Command::new("tar").args(["--create", &archive]).arg("--directory").arg(compiled).arg("."));
    must(engine.docker().args(["build", "--quiet", "--tag", RUST]).arg(&context));
}

/// Builds the image with this machine's etcd and its libraries.
fn etcd(engine: &Engine, data: &Path) {
    if !image_label(engine, ETCD).is_empty() {
        return;
    }
    let root = data.join("etcd");
    let copy = "set -e; mkdir -p usr/local/bin; for program in etcd etcdctl; do found=$(command -v $program); \
                cp \"$found\" usr/local/bin/; for library in $(ldd \"$found\" | grep -o '/[^ ]*'); do \
                mkdir -p \".${library%/*}\"; cp -L \"$library\" \".$library\"; done; done";
    std::fs::create_dir_all(&root).expect("the directory is ours");
    must(Command::new("sh").args(["-c", copy]).current_dir(&root));
    let mut tar = Command::new("tar");
    tar.arg("--create").arg("--directory").arg(&root).arg(".");
    import(engine, &mut tar, ETCD, &["LABEL orrery.test=etcd"]);
}

/// Imports an image from the output of `tar`.
fn import(engine: &Engine, tar: &mut Command, image: &str, changes: &[&str]) {
    let (reader, writer) = std::io::pipe().expect("pipes are to be had");
    let mut archive = tar.stdout(writer).stderr(std::process::Stdio::null()).spawn().expect("tar starts");
    tar.stdout(std::process::Stdio::null()); // closes this process's end of the pipe, for which the reader would wait
    let mut import = engine.docker();
    import.arg("import").args(changes.iter().flat_map(|change| ["--change", change])).args(["-", image]).stdin(reader);
    must(&mut import);
    let _ = archive.wait();
}

/// Returns the label that this module gave an image; empty if the image is missing or has none.
fn image_label(engine: &Engine, image: &str) -> String {
    let format = "--format={{index .Config.Labels \"orrery.test\"}}";
    let output = engine.docker().args(["image", "inspect", format, image]).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

/// Returns the compiler's folder without the leading slash.
fn sysroot() -> String {
    let printed = must(Command::new("rustc").args(["--print", "sysroot"]));
    printed.trim().trim_start_matches('/').to_owned()
}

fn cargo_home() -> PathBuf {
    let home = || Path::new(&std::env::var_os("HOME").unwrap_or_default()).join(".cargo");
    std::env::var_os("CARGO_HOME").map_or_else(home, PathBuf::from)
}
