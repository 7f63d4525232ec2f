//! Builds replacements for the base images of the Dockerfile and the compose file locally, under the same names.
//!
//! With them a test needs no image registry. The etcd image has this machine's etcd. The build image has a `cargo` that
//! compiles nothing: it checks the Dockerfile's command, and puts the program under test where a compiler would.

use crate::docker::Engine;
use crate::programs::must;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Name of the Dockerfile's build image.
const RUST: &str = "rust:1-bookworm";
/// Name of the compose file's etcd image.
const ETCD: &str = "gcr.io/etcd-development/etcd:v3.6.5";
/// Programs that the Dockerfile's commands run, besides the compiler.
const TOOLS: [&str; 5] = ["sh", "sed", "mkdir", "cp", "chmod"];

/// What the build image has as `rustc`; it says for which machine it compiles.
const RUSTC: &str = "#!/bin/sh\necho 'host: HOST'\n";
/// What the build image has as `cargo`.
const CARGO: &str = r#"#!/bin/sh
if [ "$*" != "build --release --locked --package orrery --target HOST" ] ||
    [ "$RUSTFLAGS" != "-C target-feature=+crt-static" ]; then
    echo "not the command that this image knows: RUSTFLAGS='$RUSTFLAGS' cargo $*" >&2
    exit 1
fi
mkdir -p target/HOST/release
cp /usr/local/lib/orrery target/HOST/release/orrery
"#;

/// Builds all base images. The Dockerfile's build results in `program`, or in another build of `source` if that one is not
/// statically linked. `data` keeps build results between runs.
pub fn make(engine: &Engine, program: &Path, source: &Path, data: &Path) {
    with_programs(engine, ETCD, &data.join("etcd"), &["etcd", "etcdctl"]);
    let host = host();
    let root = data.join("rust");
    let file = |name: &str, text: &str| {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(&root)).expect("the directory is ours");
        std::fs::write(&path, text.replace("HOST", &host)).expect("the directory is ours");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("the file is ours");
    };
    file("usr/local/bin/rustc", RUSTC);
    file("usr/local/bin/cargo", CARGO);
    file("usr/local/lib/orrery", "");
    std::fs::copy(statically_linked(program, source, data), root.join("usr/local/lib/orrery"))
        .expect("a program is built");
    with_programs(engine, RUST, &root, &TOOLS);
}

/// Returns the program if it runs without libraries, or compiles one that does.
fn statically_linked(program: &Path, source: &Path, data: &Path) -> PathBuf {
    if cfg!(target_feature = "crt-static") {
        return program.to_owned();
    }
    let (host, compiled) = (host(), data.join("compiled"));
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--locked", "--package", "orrery", "--target", &host]).arg("--target-dir").arg(&compiled);
    must(cargo.env("RUSTFLAGS", "-C target-feature=+crt-static").current_dir(source));
    compiled.join(host).join("debug/orrery")
}

/// Builds an image with the files of `root`, and these programs of this machine with their libraries.
fn with_programs(engine: &Engine, image: &str, root: &Path, programs: &[&str]) {
    let copy = "set -e; mkdir -p bin tmp usr/local/bin; for program in \"$@\"; do found=$(command -v \"$program\"); \
                cp -L \"$found\" usr/local/bin/; for library in $(ldd \"$found\" | grep -o '/[^ ]*'); do \
                mkdir -p \".${library%/*}\"; cp -L \"$library\" \".$library\"; done; done; \
                ! [ -e usr/local/bin/sh ] || cp usr/local/bin/sh bin/";
    std::fs::create_dir_all(root).expect("the directory is ours");
    must(Command::new("sh").args(["-c", copy, "sh"]).args(programs).current_dir(root));
    let mut tar = Command::new("tar");
    tar.arg("--create").arg("--directory").arg(root).arg(".");
    import(engine, &mut tar, image, &["ENV PATH=/usr/local/bin"]);
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

/// Returns the name of this machine's kind, as the compiler has it.
fn host() -> String {
    let version = must(Command::new("rustc").arg("-vV"));
    version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default().to_owned()
}
